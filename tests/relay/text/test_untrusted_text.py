"""Texts made to harm the parser: each gives a ParseError with a location, soon."""

import json
import struct
from base64 import b64encode
from collections.abc import Sequence

import pytest

from apass.relay.errors import ParseError
from apass.relay.integration.adapter import ADAPTER
from apass.relay.text.limits import TextLimits
from apass.relay.text.parsing.reader import read_module
from tests.helpers.amounts import levels

LONG = levels(1_000_000)
Node = dict[str, object]


def text_of(uses: str, nodes: Sequence[object], tensors: Sequence[object] = ()) -> str:
    """Return a text of a function with a metadata section. The table is node 1."""
    document = {"root": 1, "nodes": [{"type_key": ""}, *nodes], "b64ndarrays": tensors}
    return f"def @main(%x: int32, a={uses}) {{ %x }}\n#[metadata]\n{json.dumps(document)}"


def table_of(*nodes: object) -> list[object]:
    """Return nodes of a table whose only object is the first node."""
    return [{"type_key": "Map", "keys": ["k"], "data": [2]}, {"type_key": "Array", "data": [3]}, *nodes]


def arrays(count: int, uses: int) -> str:
    """Return a text with nested arrays, each of which contains the next `uses` times."""
    nested = ({"type_key": "Array", "data": [4 + index] * uses} for index in range(count))
    return text_of("meta[k][0]", table_of(*nested, {"type_key": "runtime.String", "repr_str": "x"}))


def tensor(shape: Sequence[int], size: int, rank: int | None = None) -> str:
    """Return a tensor of float32 with a body of zeros."""
    head = struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, len(shape) if rank is None else rank, 2, 32, 1)
    return b64encode(head + struct.pack(f"<{len(shape)}qq", *shape, size) + bytes(max(size, 0) % 1000)).decode()


def constant(data: object) -> str:
    """Return a text with a constant of the metadata."""
    return text_of("meta[k][0]", table_of({"type_key": "relay.Constant", "attrs": {"data": "0"}}), [data])


def scalar(kind: str, value: object) -> str:
    """Return a text with a number of the metadata."""
    return text_of("meta[k][0]", table_of({"type_key": kind, "attrs": {"dtype": "int64", "value": value}}))


CASES = {
    "shared arrays": arrays(40, 2),
    "nested arrays": arrays(5000, 1),
    "node within itself": text_of("1", table_of({"type_key": "Array", "data": [3]})),
    "nested json": f"#[metadata]\n{'[' * 100_000}",
    "huge json number": f'#[metadata]\n{{"root": {"1" * 5000}}}',
    "infinite index": '#[metadata]\n{"root": 1e999, "nodes": []}',
    "negative index": '#[metadata]\n{"root": -1, "nodes": [{"type_key": ""}]}',
    "list as an index": text_of("1", [{"type_key": "Map", "keys": ["k"], "data": [[2]]}]),
    "keys without values": text_of("1", [{"type_key": "Map", "keys": ["k", "l"], "data": [0]}]),
    "nodes are a string": '#[metadata]\n{"root": 1, "nodes": "abc"}',
    "number of letters": scalar("IntImm", "zz"),
    "number of many digits": scalar("IntImm", "1" * 5000),
    "float of letters": scalar("FloatImm", "zz"),
    "string is a number": text_of("1", table_of({"type_key": "runtime.String", "repr_str": 5})),
    "string with a surrogate": text_of("1", table_of({"type_key": "runtime.String", "repr_str": "\ud800"})),
    "unknown attribute": text_of("1", table_of({"type_key": "relay.attrs.Conv2DAttrs", "attrs": {"zz": "0"}})),
    "negative dimensions": constant(tensor((-1, -4), 16)),
    "product of dimensions overflows": constant(tensor((2**32, 2**32), 0)),
    "empty tensor is too large": constant(tensor((2**62, 0), 0)),
    "tensor has too many dimensions": constant(tensor((1,) * 100, 4)),
    "tensor claims many dimensions": constant(tensor((), 0, rank=2**31 - 1)),
    "tensor claims many bytes": constant(tensor((10**9, 10**9), 4 * 10**18)),
    "tensor is a number": constant(5),
    "tensor is null": constant(None),
    "huge number": f"def @main() {{ {'1' * 5000} }}",
    "huge suffix": f"def @main() {{ 1i{'9' * 5000} }}",
    "huge attribute": f"def @main(a={'1' * 5000}) {{ 1 }}",
    "huge attribute in a list": f"def @main(a=[{'1' * 5000}]) {{ 1 }}",
    "attribute beyond 64 bits": "def @main(a=[36893488147419103232]) { 1 }",
    "huge dimension": f"def @main(%x: Tensor[({'1' * 5000}), float32]) {{ %x }}",
    "dimension beyond 64 bits": "def @main(%x: Tensor[(9223372036854775808), float32]) { %x }",
    "negative dimension": "def @main(%x: Tensor[(-3), float32]) { %x }",
    "huge field": f"def @main(%x: (int32,)) {{ %x.{'9' * 5000} }}",
    "huge reference": text_of(f"meta[k][{'9' * 5000}]", table_of({"type_key": ""})),
    "nested attribute": f"def @main(a={'[' * 5000}{']' * 5000}) {{ 1 }}",
    "open parentheses": f"def @main() {{ {'(' * 50_000}",
    "open brackets": f"def @main(a={'[' * 50_000}",
    "open braces": f"def @main() {'{' * 50_000}",
    "open comments": "/*" * 50_000,
    "long version": f'#[version = "{"9" * LONG}"]',
    "long key": f"def @main() {{ meta[{'k' * LONG}][0] }}",
    "long variable": f"def @main() {{ %{'y' * LONG} }}",
    "long variable beside another": f"def @main(%{'y' * LONG}z: int32) {{ %z{'y' * LONG} }}",
    "long operator": f"def @main(%x: int32) {{ {'y' * LONG}(%x) }}",
    "long string": f'def @main() {{ "{"y" * LONG}" }}',
    "long attribute name": f"def @main(%x: int32) {{ nn.relu(%x, {'y' * LONG}=3) }}",
    "long element type": f"def @main(%x: Tensor[(3), {'y' * LONG}]) {{ %x }}",
    "long type": f"def @main(%x: {'Y' * LONG}) {{ %x }}",
    "long constructor": f"def @main(%x: int32) {{ match (%x) {{ {'Y' * LONG} => {{1}} }} }}",
    "surrogate": 'def @main(a="\ud800") { 1 }',
    "null character": "def @main() { \0 }",
}  # fmt: skip


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_harmful_text_raises_short_parse_error(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_module(text, "file")
    assert "--> file:" in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_limits_can_be_raised() -> None:
    texts = arrays(20, 2), arrays(150, 1), f"def @main(a={'[' * 150}{']' * 150}) {{ 1 }}"
    for text in texts:
        with pytest.raises(ParseError, match="TextLimits"):
            read_module(text)
        read_module(text, limits=TextLimits(nesting=200, values=10_000_000))


def test_many_unshared_values_need_no_limit() -> None:
    numbers = [{"type_key": "IntImm", "attrs": {"dtype": "int64", "value": "1"}} for _ in range(100)]
    text = text_of("meta[k][0]", table_of({"type_key": "Array", "data": list(range(4, 104))}, *numbers))
    main = read_module(text, limits=TextLimits(values=50))["main"]
    assert main.attrs["a"] == (1,) * 100


def test_bytes_that_are_not_text_raise_parse_error() -> None:
    with pytest.raises(ParseError) as caught:
        ADAPTER.loads(b"def @main() {\n  1 \xff}")
    message = "error: the byte 0xff at offset 18 is not valid UTF-8\n --> from_bytes:2:5\n"
    assert str(caught.value).startswith(message)


def test_largest_integers_are_read() -> None:
    text = (
        "def @main(a=-9223372036854775808, b=[-9223372036854775808, 18446744073709551615]) { 18446744073709551615u64 }"
    )
    main = read_module(text)["main"]
    assert (main.attrs["a"], main.attrs["b"]) == (-(2**63), (-(2**63), 2**64 - 1))
