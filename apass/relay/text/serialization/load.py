"""`load_json`: a program from JSON in the format of TVM 0.8."""

import json
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from apass.relay.errors import SerializationError, UnknownOpError, UnknownTypeKeyError, shortened
from apass.relay.ir.adt import Pattern
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.base import SourceName
from apass.relay.ir.expr import Op
from apass.relay.ir.function import Function
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import FuncType
from apass.relay.text.limits import DEFAULT_LIMITS, TextLimits
from apass.relay.text.serialization.attrs_schemas import schema_of_attrs_key
from apass.relay.text.serialization.schemas import EnvFunc, Field, Form, Schema, schema_of_key
from apass.relay.text.serialization.upgrade import upgraded
from apass.relay.text.tensors import TensorFormatError, tensor_from_base64

__all__ = ["load_json"]

_Node: TypeAlias = Mapping[str, object]


def load_json(json_str: str, limits: TextLimits = DEFAULT_LIMITS) -> object:
    """Return the program, or the part of one, in JSON that TVM 0.8 writes.

    Files of TVM 0.6 and 0.7 are upgraded. The text may come from anyone: reading it runs no code, and takes time and
    memory in proportion to its length. See `tvm.ir.load_json`.

    Parameters:
        json_str: the text.
        limits: the limits on what a small text may expand to.

    Raises:
        SerializationError: if the text is not JSON in this format, contains an unknown class or operator, or exceeds a
            limit. The message names the number of the node.

    >>> from apass.relay.expr import Var
    >>> from apass.relay.text.serialization.save import save_json
    >>> x = Var("x")
    >>> load_json(save_json([x, x]))
    (<relay.Var %x>, <relay.Var %x>)
    """
    try:
        document = json.loads(json_str)
    except RecursionError:
        raise SerializationError("the text is not in TVM's format: its JSON is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise SerializationError(f"the text is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise SerializationError(f"the text must be a JSON object, got a {type(document).__name__}")
    parts = cast("dict[str, object]", document)
    nodes = upgraded(_list_of(parts, "nodes"), parts.get("attrs"))
    return _Reader(nodes, _list_of(parts, "b64ndarrays"), limits).value(_index(parts.get("root"), "the root"))


def _list_of(parts: Mapping[str, object], name: str) -> list[object]:
    items = parts.get(name, [])
    if not isinstance(items, list):
        raise SerializationError(f"{name} must be a list, got {shortened(repr(items), 50)}")
    return cast("list[object]", items)


def _index(item: object, subject: str) -> int:
    if type(item) is int or (isinstance(item, str) and _is_digits(item)):
        return int(item)
    raise SerializationError(f"{subject} must be the number of a node, got {shortened(repr(item), 50)}")


def _is_digits(text: str) -> bool:
    return len(text) < 19 and text.isdecimal() and text.isascii()


@dataclass(frozen=True, slots=True)
class _Draft:
    """A node whose parts are not read yet."""

    references: Sequence[int]
    """The numbers of its parts."""
    make: Callable[[Sequence[object]], object]
    """Returns the node from its parts."""


@dataclass(frozen=True, slots=True)
class _Size:
    """The size of a node as a tree, in which a shared part occurs several times."""

    values: int = 1
    """The number of values in nested arrays, attributes and patterns."""
    nesting: int = 0
    """How deeply they are nested."""
    type_params: int = 0
    """The largest number of type parameters in scope."""


class _Reader:
    """Converts nodes to values, each once and without recursion."""

    def __init__(self, nodes: Sequence[object], tensors: Sequence[object], limits: TextLimits) -> None:
        self._nodes = nodes
        self._texts = tensors
        self._tensors: dict[int, NDArray] = {}
        self._limits = limits
        self._values: dict[int, object] = {}
        self._sizes: dict[int, _Size] = {}

    def value(self, root: int) -> object:
        """Return the value of a node."""
        values, drafts, stack = self._values, dict[int, _Draft](), [root]
        while stack:
            number = stack[-1]
            if number in values:
                stack.pop()
                continue
            draft = drafts.get(number)
            if draft is None:
                draft = drafts[number] = self._draft(number)
                pending = [part for part in draft.references if part not in values]
                stack += pending[::-1]
                if pending:
                    continue
            elif any(part not in values for part in draft.references):
                raise SerializationError(f"node {number} contains itself")
            stack.pop()
            values[number] = self._made(number, draft)
            del drafts[number]
        return values[root]

    def _made(self, number: int, draft: _Draft) -> object:
        parts = [self._values[part] for part in draft.references]
        try:
            value = draft.make(parts)
        except SerializationError as error:
            raise SerializationError(f"{self._title(number)}: {error}") from None
        except (TypeError, ValueError, LookupError, OverflowError) as error:
            raise SerializationError(f"{self._title(number)} is invalid: {shortened(str(error), 200)}") from None
        self._sizes[number] = self._size(number, value, draft.references)
        return value

    def _title(self, number: int) -> str:
        key = cast("_Node", self._nodes[number]).get("type_key")
        return f"node {number} ({shortened(str(key), 50)})"

    def _size(self, number: int, value: object, references: Sequence[int]) -> _Size:
        """Return the size of a value, checked against the limits."""
        sizes, limits = [self._sizes[part] for part in references], self._limits
        own = value.type_params if isinstance(value, Function | FuncType) else ()
        type_params = len(own) + max((size.type_params for size in sizes), default=0)
        if type_params > limits.type_params:
            message = f"more than {limits.type_params} type parameters in scope; the limit is TextLimits.type_params"
            raise SerializationError(f"{self._title(number)} has {message}")
        if not isinstance(value, (*_NESTING, Pattern)):
            return _Size(type_params=type_params)
        values = 1 + sum(size.values for size in sizes)
        nesting = 0 if isinstance(value, Pattern) else 1 + max((size.nesting for size in sizes), default=0)
        if values > max(limits.values, len(self._nodes)):
            message = f"expands to {values} values through shared parts; the limit TextLimits.values is {limits.values}"
            raise SerializationError(f"{self._title(number)} {message}")
        if nesting > limits.nesting + _TABLE_DEPTH:
            message = f"is nested {nesting} levels deep; the limit TextLimits.nesting is {limits.nesting}"
            raise SerializationError(f"{self._title(number)} {message}")
        return _Size(values, nesting, type_params)

    def _draft(self, number: int) -> _Draft:
        if not 0 <= number < len(self._nodes):
            raise SerializationError(f"there is no node {number}; the text has {len(self._nodes)} nodes")
        node = self._nodes[number]
        if not isinstance(node, dict):
            raise SerializationError(f"node {number} must be a JSON object, got {shortened(repr(node), 50)}")
        try:
            return self._draft_of(cast("_Node", node))
        except (SerializationError, UnknownOpError, UnknownTypeKeyError) as error:
            raise SerializationError(f"{self._title(number)}: {error}") from None

    def _draft_of(self, node: _Node) -> _Draft:
        key = node.get("type_key")
        if not isinstance(key, str):
            raise SerializationError(f"the type key must be a string, got {shortened(repr(key), 50)}")
        if key in _NAMED:
            named = _NAMED[key](_repr_of(node))
            return _Draft((), lambda _: named)
        if key in {"Array", "Map"}:
            return _draft_of_container(node, key)
        attrs = node.get("attrs", {})
        if not isinstance(attrs, dict):
            raise SerializationError(f"attrs must be a JSON object, got {shortened(repr(attrs), 50)}")
        entries = {str(name): str(entry) for name, entry in cast("dict[object, object]", attrs).items()}
        if key in _NUMBERS:
            number = _NUMBERS[key](entries)
            return _Draft((), lambda _: number)
        return self._draft_of_fields(schema_of_key(key) or schema_of_attrs_key(key, entries), entries)

    def _draft_of_fields(self, schema: Schema, entries: Mapping[str, str]) -> _Draft:
        values: dict[str, object] = {}
        waiting: list[Field] = []
        references: list[int] = []
        for field in schema.fields:
            if field.name is None:
                continue
            text = entries.get(field.key)
            if text is None:
                values[field.name] = _null(field, "is missing")
            elif self._is_reference(field, text):
                waiting.append(field)
                references.append(_index(text, f"the field {field.key}"))
            else:
                values[field.name] = self._direct(field, text)

        def make(parts: Sequence[object]) -> object:
            for field, part in zip(waiting, parts, strict=True):
                if part is not None and not field.check(part):
                    text = shortened(repr(part), 100)
                    raise SerializationError(f"the field {field.key} must be {field.wanted}, got {text}")
                values[cast("str", field.name)] = _null(field, "is null") if part is None else part
            return schema.make(**values)

        return _Draft(references, make)

    def _is_reference(self, field: Field, text: str) -> bool:
        if field.form is Form.NODE:
            return True
        if field.form not in _STRINGS or not _is_digits(text):
            return False
        # Versions of TVM differ in which strings are nodes.
        number = int(text)
        node = self._nodes[number] if number < len(self._nodes) else None
        return isinstance(node, dict) and cast("_Node", node).get("type_key") == "runtime.String"

    def _direct(self, field: Field, text: str) -> object:
        """Return the value of a field that is not a node."""
        if field.form is Form.TENSOR:
            return self._tensor(_index(text, f"the field {field.key}"))
        if field.form is Form.FLOAT:
            return _float_of(text)
        if field.form in {Form.INT, Form.BOOL}:
            number = _int_of(text)
            return bool(number) if field.form is Form.BOOL else number
        return _DTYPES.get(text, text) if field.form is Form.DTYPE else _checked_text(text)

    def _tensor(self, number: int) -> NDArray:
        if number not in self._tensors:
            if number >= len(self._texts):
                raise SerializationError(f"there is no tensor {number}; the text has {len(self._texts)} tensors")
            text = self._texts[number]
            if not isinstance(text, str):
                raise SerializationError(f"tensor {number} must be a string, got {shortened(repr(text), 50)}")
            try:
                self._tensors[number] = tensor_from_base64(text)
            except TensorFormatError as error:
                raise SerializationError(f"tensor {number}: {error}") from None
        return self._tensors[number]


_NESTING: Final = (tuple, dict, Attrs)
"""Values that Python compares, hashes and copies by recursion."""
_STRINGS: Final = (Form.STRING, Form.TEXT)
_TABLE_DEPTH: Final = 3
"""Levels above the value of an attribute: attributes, their mapping, and a list of them."""
_DTYPES: Final[Mapping[str, str]] = {"void": "", "uint1": "bool"}


def _null(field: Field, fault: str) -> object:
    """Return the value of a field that is null or absent."""
    value = None if field.check(None) else field.null
    if not field.check(value):
        raise SerializationError(f"the field {field.key} {fault}; expected {field.wanted}")
    return value


def _draft_of_container(node: _Node, key: str) -> _Draft:
    data = [_index(item, "an item of data") for item in _list_of(node, "data")]
    keys = _list_of(node, "keys")
    if key == "Array":
        return _Draft(data, tuple)
    names = [_checked_text(name) for name in keys]
    if names:
        return _Draft(data, lambda parts: dict(zip(names, parts, strict=True)))
    if len(data) % 2:
        raise SerializationError("a Map without keys must have pairs of nodes in data")
    return _Draft(data, lambda parts: dict(zip(parts[::2], parts[1::2], strict=True)))


def _repr_of(node: _Node) -> str:
    """Return the name of a node that is written as its name."""
    if "repr_b64" not in node:
        return _checked_text(node.get("repr_str", ""))
    text = node["repr_b64"]
    try:
        raw = b64decode(cast("str", text), validate=True)
        (size,) = struct.unpack_from("<Q", raw)
        if size != len(raw) - 8:
            raise ValueError(f"it has {len(raw) - 8} bytes, but its size is {size}")
        return raw[8:].decode()
    except (TypeError, ValueError, struct.error) as error:
        raise SerializationError(f"invalid repr_b64: {shortened(str(error), 100)}") from None


def _checked_text(text: object) -> str:
    if not isinstance(text, str):
        raise SerializationError(f"expected a string, got {shortened(repr(text), 50)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SerializationError(f"a string is not valid Unicode: {error.reason}") from None
    return text


def _int_of(text: str) -> int:
    number = int(text) if re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) else None
    if number is None or not -(2**63) <= number < 2**64:
        raise SerializationError(f"expected an integer of 64 bits, got {shortened(repr(text), 50)}")
    return number


def _float_of(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SerializationError(f"expected a number, got {shortened(repr(text), 50)}") from None


def _int_imm(entries: Mapping[str, str]) -> int:
    value = {"True": "1", "False": "0"}.get(entries.get("value", ""), entries.get("value", ""))
    number = _int_of(value)
    return bool(number) if entries.get("dtype") in {"bool", "uint1"} else number


def _float_imm(entries: Mapping[str, str]) -> float:
    return _float_of(entries.get("value", ""))


_NAMED: Final[Mapping[str, Callable[[str], object]]] = {
    "": lambda _: None,
    "runtime.String": str,
    "SourceName": SourceName,
    "Op": Op.get,
    "EnvFunc": EnvFunc,
}
"""Nodes that are written as their name."""
_NUMBERS: Final[Mapping[str, Callable[[Mapping[str, str]], object]]] = {"IntImm": _int_imm, "FloatImm": _float_imm}
