"""`save_json`: a program as JSON, in the format of TVM 0.8."""

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, index
from typing import Final, TypeAlias, cast

import numpy as np

from apass.relay.errors import SerializationError, shortened
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.base import SourceName
from apass.relay.ir.dim import DimExpr
from apass.relay.ir.expr import Op
from apass.relay.ir.ndarray import NDArray
from apass.relay.text.serialization.attrs_schemas import schema_of_attrs
from apass.relay.text.serialization.schemas import EnvFunc, Field, Form, Schema, operation_of, schema_of_node
from apass.relay.text.tensors import TensorFormatError, tensor_to_base64

__all__ = ["document", "save_json", "type_key_of"]

_Slots: TypeAlias = "dict[str, str] | list[int]"
_Node: TypeAlias = dict[str, object]


def save_json(node: object) -> str:
    """Return a program, or a part of one, as JSON that TVM 0.8 reads.

    A part that is used several times is written once, so that `load_json` restores the sharing. Time is linear in the
    size, and depth is not limited. See `tvm.ir.save_json`.

    Parameters:
        node: an expression, type, pattern or module, attributes, a number or a string, or a list, tuple or dict of
            these.

    Raises:
        SerializationError: if a value has no form in JSON, such as an array outside of a constant.

    >>> import json
    >>> from apass.relay.expr import GlobalVar
    >>> parts = json.loads(save_json(GlobalVar("main")))
    >>> parts["nodes"][parts["root"]]
    {'type_key': 'GlobalVar', 'attrs': {'_checked_type_': '0', 'name_hint': '2', 'span': '0'}}
    >>> parts["nodes"][2]
    {'type_key': 'runtime.String', 'repr_str': 'main'}
    """
    return document(node, with_spans=True)


def document(node: object, with_spans: bool) -> str:
    """Return `save_json(node)`, with or without the source locations."""
    return _Writer(with_spans).document(node)


class _Writer:
    """The list of nodes under construction. Node 0 is null."""

    def __init__(self, with_spans: bool) -> None:
        self._with_spans = with_spans
        self._nodes: list[_Node] = [{"type_key": ""}]
        self._tensors: list[str] = []
        self._numbers: dict[object, int] = {}  # of nodes, by address, and of global objects by name
        self._tensor_numbers: dict[int, int] = {}
        self._alive: list[object] = []  # an address identifies a value only while the value exists
        self._waiting: list[tuple[_Slots, str | int, object]] = []

    def document(self, root: object) -> str:
        slots: dict[str, str] = {}
        waiting = self._waiting
        waiting.append((slots, "root", root))
        while waiting:
            target, slot, value = waiting.pop()
            first = len(waiting)
            number = self._number(value)
            waiting[first:] = waiting[first:][::-1]  # TVM numbers nodes in pre-order
            if isinstance(target, dict):
                target[cast("str", slot)] = str(number)
            else:
                target[cast("int", slot)] = number
        fields = [
            f'"root": {slots["root"]}',
            f'"nodes": {_text(self._nodes, "  ")}',
            f'"b64ndarrays": {_text(self._tensors, "  ")}',
            '"attrs": {"tvm_version": "0.8.0"}',
        ]
        return "{\n  " + ", \n  ".join(fields) + "\n}"

    def _number(self, value: object) -> int:
        """Return the number of a value. If it is new, its parts wait for theirs."""
        if value is None:
            return 0
        key = _key_of(value)
        if key in self._numbers:
            return self._numbers[key]
        number = len(self._nodes)
        if key is not None:
            self._numbers[key] = number
            self._alive.append(value)
        self._nodes.append({})
        self._nodes[number] = self._node(value)
        return number

    def _node(self, value: object) -> _Node:
        if isinstance(value, np.generic):
            value = cast("object", value.item())
        if isinstance(value, bool | int | float):
            return _number_node(value)
        if isinstance(value, DimExpr):
            value = operation_of(value)
        schema = _schema_of(value)
        if schema is not None:
            return self._fields(schema, value)
        for kind, type_key, text_of in _NAMED:
            if isinstance(value, kind):
                return {"type_key": type_key, **_repr(text_of(value))}
        if isinstance(value, Mapping):
            return self._map(cast("Mapping[object, object]", value))
        if isinstance(value, Sequence):
            return self._array(cast("Sequence[object]", value))
        raise _no_form(value)

    def _array(self, items: Sequence[object]) -> _Node:
        data = [0] * len(items)
        self._waiting += [(data, place, item) for place, item in enumerate(items)]
        return {"type_key": "Array", "data": data} if items else {"type_key": "Array"}

    def _map(self, entries: Mapping[object, object]) -> _Node:
        if all(isinstance(name, str) and not isinstance(name, SourceName) for name in entries):
            keys: _Node = {"keys": [_checked_text(str(name)) for name in entries]} if entries else {}
            return {**keys, **self._array(list(entries.values())), "type_key": "Map"}
        return {**self._array([part for pair in entries.items() for part in pair]), "type_key": "Map"}

    def _fields(self, schema: Schema, node: object) -> _Node:
        attrs: dict[str, str] = {}
        for field in schema.fields:
            value = field.get(node) if self._with_spans or field.key != "span" else None
            if field.form is Form.TENSOR:
                attrs[field.key] = str(self._tensor(cast("NDArray", value)))
            elif (
                field.form is Form.NODE
                or field.form is Form.STRING
                or (field.form is Form.TEXT and str(value).isdigit())
            ):
                self._waiting.append((attrs, field.key, value))
            else:
                attrs[field.key] = _text_of(schema, field, value)
        return {"type_key": schema.type_key, "attrs": attrs} if schema.fields else {"type_key": schema.type_key}

    def _tensor(self, data: NDArray) -> int:
        number = self._tensor_numbers.setdefault(id(data), len(self._tensors))
        if number == len(self._tensors):
            try:
                self._tensors.append(tensor_to_base64(data))
            except TensorFormatError as error:
                raise SerializationError(str(error)) from None
        return number


def type_key_of(value: object) -> str:
    """Return TVM's type key of a value.

    Raises:
        SerializationError: if the value has no form in JSON.

    """
    schema = _schema_of(operation_of(value) if isinstance(value, DimExpr) else value)
    if schema is not None:
        return schema.type_key
    keys: list[tuple[type, str]] = [*((kind, key) for kind, key, _ in _NAMED), *_KEYS]
    for kind, key in keys:
        if isinstance(value, kind):
            return key
    raise _no_form(value)


def _schema_of(value: object) -> Schema | None:
    return schema_of_node(value) or (schema_of_attrs(type(value)) if isinstance(value, Attrs) else None)


def _no_form(value: object) -> SerializationError:
    return SerializationError(
        f"a value of type {type(value).__name__} has no form in JSON: {shortened(repr(value), 100)}; "
        "expected an expression, type, pattern, module, number or string, attributes, or a list, tuple or dict"
    )


_KEYS: Final[Sequence[tuple[type, str]]] = [
    (int, "IntImm"),
    (float, "FloatImm"),
    (Mapping, "Map"),
    (Sequence, "Array"),
]
_DTYPE: Final[type] = np.dtype
_NAMED: Final[Sequence[tuple[type, str, Callable[..., str]]]] = [
    (SourceName, "SourceName", str),
    (str, "runtime.String", str),
    (_DTYPE, "runtime.String", str),
    (Op, "Op", attrgetter("name")),
    (EnvFunc, "EnvFunc", attrgetter("name")),
]
"""Nodes that are written as their name: the class, the type key, and a function that returns the name."""


def _key_of(value: object) -> object:
    """Return what identifies a value, or None for a value that is written at each use."""
    if isinstance(value, SourceName | EnvFunc):
        return type(value), str(value)
    # TVM creates an object for each number, string and empty array. Python may share them.
    return None if isinstance(value, _SCALARS) or _is_empty(value) else id(value)


def _is_empty(value: object) -> bool:
    return type(value) is tuple and value == ()


_SCALARS: Final[tuple[type, ...]] = (str, int, float, np.generic)


def _number_node(value: float) -> _Node:
    if isinstance(value, float):
        return {"type_key": "FloatImm", "attrs": {"dtype": "float32", "value": repr(float(value)), "span": "0"}}
    number = int(value)
    if isinstance(value, bool):
        dtype = "bool"
    elif -(2**31) <= number < 2**31:
        dtype = "int32"
    elif -(2**63) <= number < 2**64:
        dtype = "int64" if number < 2**63 else "uint64"
    else:
        raise SerializationError(f"an integer of {number.bit_length()} bits has no form in JSON; expected at most 64")
    return {"type_key": "IntImm", "attrs": {"dtype": dtype, "value": str(number), "span": "0"}}


def _repr(text: str) -> _Node:
    if text.isascii() and text.isprintable():
        return {"repr_str": text} if text else {}
    raw = _checked_text(text).encode()
    return {"repr_b64": b64encode(struct.pack("<Q", len(raw)) + raw).decode()}


def _checked_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        name = shortened(repr(text), 100)
        raise SerializationError(f"the string {name} is not valid Unicode: {error.reason}") from None
    return text


def _text_of(schema: Schema, field: Field, value: object) -> str:
    """Return the text of a field that is not a node."""
    try:
        if field.form is Form.INT or field.form is Form.BOOL:
            return str(index(cast("int", value)))
        if field.form is Form.FLOAT:
            return repr(float(cast("float", value)))
    except TypeError:
        raise SerializationError(
            f"the field {field.key} of {schema.type_key} must be {field.wanted}, got {shortened(repr(value), 100)}"
        ) from None
    return _checked_text(str(value))


_PARTS: Final = ("type_key", "repr_str", "repr_b64", "attrs", "keys", "data")
"""The parts of a node in TVM's order. Its fields are sorted."""


_encoded: Final = json.JSONEncoder(ensure_ascii=False).encode


def _text(value: object, indent: str) -> str:
    """Return a value as TVM's JSON writer does, which decides where lines end."""
    inner = indent + "  "
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        names = [name for name in _PARTS if name in entries] if "type_key" in entries else sorted(entries)
        parts = [f'"{name}": {_text(entries[name], inner)}' for name in names]
        open_, close, is_inline = "{", "}", len(parts) < 2 and "type_key" not in entries
    elif isinstance(value, list):
        items = cast("list[object]", value)
        parts = [str(item) if isinstance(item, int) else _text(item, inner) for item in items]
        open_, close, is_inline = "[", "]", len(items) <= 10 and all(isinstance(item, int) for item in items)
    else:
        return _encoded(value)
    if is_inline:
        return open_ + ", ".join(parts) + close
    return f"{open_}\n{inner}" + f", \n{inner}".join(parts) + f"\n{indent}{close}"
