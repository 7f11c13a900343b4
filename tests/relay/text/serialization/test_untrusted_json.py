"""Texts made to harm `load_json`: each gives a short error, soon."""

import json
import random
from typing import cast

import pytest

from apass.relay.errors import SerializationError
from apass.relay.expr import Constant, Var
from apass.relay.ir.expr import const
from apass.relay.op.op_attrs import SoftmaxAttrs
from apass.relay.prelude import Prelude
from apass.relay.text.limits import TextLimits
from apass.relay.text.serialization.load import load_json
from apass.relay.text.serialization.save import save_json
from tests.helpers.amounts import some
from tests.helpers.rows import row
from tests.relay.text.serialization.documents import array, document, leaf, node, number, string

EXPR = {"span": 0, "_checked_type_": 0}


def nested(count: int, uses: int) -> str:
    """Return a text with nested arrays, each of which contains the next `uses` times."""
    return document(*(array(*[index + 2] * uses) for index in range(count)), number(1))


def patterns(count: int, uses: int) -> str:
    """Return a text with nested patterns; each contains the next `uses` times."""
    inner = [node("relay.PatternTuple", patterns=2 * index + 3, span=0) for index in range(count)]
    lists = [array(*[2 * index + 2] * uses) for index in range(1, count + 1)]
    pairs = [part for pair in zip(inner, lists, strict=True) for part in pair]
    return document(array(2), *pairs, node("relay.PatternWildcard", span=0))


def type_params(count: int) -> str:
    """Return a text with nested function types, each of which binds a type variable."""
    fields = {"arg_types": 3, "type_params": 2, "type_constraints": 3, "span": 0}
    types = [node("FuncType", ret_type=7 + index, **fields) for index in range(count)]
    variable = node("TypeVar", name_hint=5, kind=0, span=0)
    end = node("TupleType", fields=3, span=0)
    return document(array(6), array(4), array(), variable, string("a"), *types, end)


CASES = {
    "no json": ("{", "the text is not valid JSON: "),
    "nested json": ("[" * 100_000, "the text is not in TVM's format: its JSON is nested too deeply"),
    "huge number": ('{"root": ' + "1" * 5000 + "}", "the text is not valid JSON: "),
    "a list": ("[]", "the text must be a JSON object, got a list"),
    "nodes are a string": ('{"nodes": "abc"}', "nodes must be a list, got 'abc'"),
    "no root": ("{}", "the root must be the number of a node, got None"),
    "root out of range": (document(root=7), "there is no node 7; the text has 1 nodes"),
    "negative root": (document(root=-1), "there is no node -1"),
    "root is a flag": (document(root=True), "the root must be the number of a node, got True"),
    "node is a number": (document(5), "node 1 must be a JSON object, got 5"),
    "no type key": (document({}), "node 1 (None): the type key must be a string, got None"),
    "unknown class": (
        document(node("relay.attrs.Conv2DAttr")),
        "node 1 (relay.attrs.Conv2DAttr): unknown attributes class 'relay",
    ),
    "unknown operator": (
        document(leaf("Op", "nn.conv2")),
        "node 1 (Op): there is no operator named 'nn.conv2'; did you",
    ),
    "within itself": (document(array(2), array(1)), "node 1 contains itself"),
    "let within itself": (
        document(node("relay.RefCreate", value=2, **EXPR), node("relay.RefRead", ref=1, **EXPR)),
        "node 1 contains itself",
    ),
    "part out of range": (document(array(9)), "there is no node 9; the text has 2 nodes"),
    "part is a list": (document({"type_key": "Array", "data": [[2]]}), "an item of data must be the number"),
    "part is a float": (document({"type_key": "Array", "data": [1.5]}), "an item of data must be the number"),
    "keys without values": (document({"type_key": "Map", "keys": ["a", "b"], "data": [0]}), "zip"),
    "odd pairs": (document({"type_key": "Map", "data": [0]}), "a Map without keys must have pairs"),
    "key without hash": (document({"type_key": "Map", "data": [2, 0]}, {"type_key": "Map"}), "unhashable"),
    "missing field": (document(node("relay.RefRead")), "the field ref is missing; expected Expr"),
    "null field": (document(node("relay.RefRead", ref=0)), "the field ref is null; expected Expr"),
    "wrong field": (document(node("relay.RefRead", ref=2), string("x")), "the field ref must be Expr, got 'x'"),
    "wrong items": (
        document(node("relay.Tuple", fields=2), array(3), number(1)),
        "the field fields must be tuple[Expr, ...], got (1,)",
    ),
    "field is no number": (document(node("relay.RefRead", ref="zz")), "the field ref must be the number"),
    "attrs are a list": (document({"type_key": "TypeVar", "attrs": []}), "attrs must be a JSON object"),
    "unknown kind": (document(node("TypeVar", name_hint="a", kind=99)), "99 is not a valid Kind"),
    "kind of letters": (document(node("TypeVar", name_hint="a", kind="1_0")), "expected an integer of 64 bits"),
    "negative field": (
        document(node("relay.TupleGetItem", tuple_value=2, index=-1), leaf("Op", "add")),
        "the index of a TupleGetItem must not be negative, got -1",
    ),
    "unknown element type": (
        document(node("relay.TensorType", shape=2, dtype="float32x4"), array()),
        "'float32x4' is not an element type",
    ),
    "negative dimension": (
        document(node("relay.TensorType", shape=2, dtype="int8"), array(3), number(-1)),
        "a dimension must be between 0",
    ),
    "dimension of many squares": (
        document(*(node("tir.Mul", a=part, b=part, dtype="int32") for part in range(2, 42)), number(3)),
        "an operation on dimensions has a result beyond 64 bits",
    ),
    "dimension is text": (
        document(node("relay.TensorType", shape=2, dtype="int8"), array(3), string("n")),
        "the field shape must be tuple[",
    ),
    "number of letters": (document(node("IntImm", dtype="int32", value="zz")), "expected an integer"),
    "number of many digits": (document(number(10**5)).replace("100000", "1" * 5000), "expected an integer"),
    "number beyond 64 bits": (document(number(2**64)), "expected an integer of 64 bits"),
    "float of letters": (document(node("FloatImm", dtype="float32", value="zz")), "expected a number"),
    "string is a number": (document({"type_key": "runtime.String", "repr_str": 5}), "expected a string"),
    "surrogate": (document(string("\ud800")), "a string is not valid Unicode"),
    "invalid base64": (document({"type_key": "runtime.String", "repr_b64": "?"}), "invalid repr_b64: "),
    "base64 is a number": (document({"type_key": "runtime.String", "repr_b64": 5}), "invalid repr_b64: "),
    "short base64": (document({"type_key": "runtime.String", "repr_b64": "AAAA"}), "invalid repr_b64: "),
    "long base64": (
        document({"type_key": "runtime.String", "repr_b64": "AQAAAAAAAAA="}),
        "invalid repr_b64: it has 0 bytes, but its size is 1",
    ),
    "no tensor": (document(node("relay.Constant", data=3)), "there is no tensor 3; the text has 0"),
    "tensor is a number": (document(node("relay.Constant", data=0), tensors=[5]), "tensor 0 must be a string"),
    "tensor is short": (document(node("relay.Constant", data=0), tensors=["AAAA"]), "tensor 0: invalid"),
    "module of numbers": (
        document(
            node("IRModule", functions=2, type_definitions=3),
            {"type_key": "Map", "data": [4, 4]},
            {"type_key": "Map"},
            number(1),
        ),
        "the field functions must be Mapping[GlobalVar, Function]",
    ),
    "functions of one name": (
        document(
            node("IRModule", functions=2, type_definitions=7),
            {"type_key": "Map", "data": [3, 5, 4, 5]},
            node("GlobalVar", name_hint="f"),
            node("GlobalVar", name_hint="f"),
            node("relay.Function", params=6, body=3, type_params=6),
            array(),
            {"type_key": "Map"},
        ),
        "two functions of a module have the same name",
    ),
    "attribute of the wrong type": (document(node("relay.attrs.SoftmaxAttrs", axis="x")), "expected an integer"),
    "array of text": (
        document(node("relay.attrs.TransposeAttrs", axes=2), array(3), string("x")),
        "the field axes must be tuple[int, ...] | None, got ('x',)",
    ),
    "layout of a schedule": (
        document(node("relay.attrs.BatchMatmulAttrs", auto_scheduler_rewritten_layout=2), string("8n")),
        "the field auto_scheduler_rewritten_layout must be '', got '8n'",
    ),
    "shared arrays": (
        nested(40, 2),
        "expands to 1048575 values through shared parts; the limit TextLimits.values is 1000000",
    ),
    "nested arrays": (nested(5000, 1), "is nested 104 levels deep; the limit TextLimits.nesting is 100"),
    "shared patterns": (patterns(40, 2), "through shared parts; the limit TextLimits.values is 1000000"),
    "nested type parameters": (type_params(5000), "has more than 1000 type parameters in scope; the limit is"),
    "version before 0.6": (document(version="0.4.0"), "cannot read JSON of TVM 0.4.0; expected 0.6 or later"),
}


@pytest.mark.parametrize(("text", "message"), CASES.values(), ids=CASES)
def test_harmful_text_raises_short_error(text: str, message: str) -> None:
    with pytest.raises(SerializationError) as caught:
        load_json(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_patterns_may_be_nested_deeply() -> None:
    items = load_json(patterns(5000, 1))
    assert isinstance(items, tuple)
    assert str(cast("tuple[object, ...]", items)[0]) == "(" * 5000 + "_" + ")" * 5000


def test_limits_can_be_raised() -> None:
    for text in (nested(19, 2), nested(150, 1), type_params(1500)):
        limits = TextLimits(nesting=500, values=10_000_000, type_params=10_000)
        load_json(text, limits)


def test_values_without_form_are_rejected() -> None:
    for value, message in (
        (1j, "a value of type complex has no form in JSON: 1j; expected an expression, type, pattern, "),
        (2**64, "an integer of 65 bits has no form in JSON; expected at most 64"),
        (Var("\ud800"), "the string '\\ud800' is not valid Unicode: surrogates not allowed"),
        ({"\ud800": 1}, "the string '\\ud800' is not valid Unicode: surrogates not allowed"),
        (const([1.0]).data, "a value of type NDArray has no form in JSON"),
        (Constant([1j]), "cannot write a tensor of complex128: TVM has no such element type"),
        (SoftmaxAttrs(axis=cast("int", None)), "the field axis of relay.attrs.SoftmaxAttrs must be int, got None"),
    ):
        with pytest.raises(SerializationError) as caught:
            save_json(value)
        assert str(caught.value).startswith(message)


def mutated(text: str, seed: int) -> str:
    """Return a text with some references, names and numbers changed."""
    source = random.Random(seed)
    parts = json.loads(text)
    nodes = parts["nodes"]
    for _ in range(source.randint(1, 4)):
        target = source.choice(nodes)
        attrs = target.get("attrs")
        change = source.choice(["attrs", "data", "type", "swap", "delete"])
        if change == "attrs" and attrs:
            attrs[source.choice(list(attrs))] = source.choice(
                ["0", "-1", "x", "", "1e9", str(source.randrange(len(nodes)))]
            )
        elif change == "data" and target.get("data"):
            target["data"][source.randrange(len(target["data"]))] = source.randrange(len(nodes) + 1)
        elif change == "type":
            target["type_key"] = source.choice(nodes)["type_key"]
        elif change == "swap":
            first, second = source.randrange(len(nodes)), source.randrange(len(nodes))
            nodes[first], nodes[second] = nodes[second], nodes[first]
        elif change == "delete" and attrs:
            del attrs[source.choice(list(attrs))]
    return json.dumps(parts)


def test_mutated_text_is_read_or_rejected() -> None:
    errors: list[str] = []
    for seed in some(range(100)):
        try:
            with row(seed):
                save_json(load_json(mutated(TEXT, seed)))
        except SerializationError as error:
            errors.append(str(error))
    assert errors
    assert max(map(len, errors)) < 1000


TEXT = save_json(Prelude().mod)
