"""The metadata section, in TVM's JSON: objects named `meta[type_key][index]`."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

from apass.errors import ApassError, did_you_mean
from apass.relay.ir.attrs import Attrs, DictAttrs
from apass.relay.ir.expr import OPS, Constant, GlobalVar
from apass.relay.ir.ty import Any, ShapeVar
from apass.relay.text.limits import DEFAULT_LIMITS, TextLimits
from apass.relay.text.tensors import TensorFormatError, tensor_from_base64, tensor_to_base64

__all__ = ["MetaTable", "MetadataError", "MetadataWriter", "attrs_key", "attrs_type_of", "frozen", "read_metadata"]

MetaTable: TypeAlias = Mapping[str, Sequence[object]]
"""The objects that `meta[type_key][index]` refers to."""

_Json: TypeAlias = "str | int | float | bool | list[_Json] | dict[str, _Json] | None"
_Node: TypeAlias = dict[str, "_Json"]

_ATTRS: Final = "relay.attrs."
_NULL: Final = 0


class MetadataError(ApassError, ValueError):
    """The metadata section is invalid, or a value cannot be written into it."""


def attrs_key(kind: type[Attrs]) -> str:
    """Return the type key of a class of attributes."""
    return "DictAttrs" if kind is DictAttrs else f"{_ATTRS}{kind.__name__}"


def attrs_type_of(key: str) -> type[Attrs]:
    """Return the attributes class of a type key.

    Raises:
        MetadataError: if no operator has attributes of a class with this key.

    """
    classes = {attrs_key(op.attrs_type): op.attrs_type for op in OPS.values() if op.attrs_type is not None}
    classes[attrs_key(DictAttrs)] = DictAttrs
    if key not in classes:
        raise MetadataError(f"unknown attributes class {key!r}{did_you_mean(key, classes)}")
    return classes[key]


class MetadataWriter:
    """Collects the objects that a text refers to."""

    def __init__(self) -> None:
        self._refs: dict[int, str] = {}
        self._groups: dict[str, list[object]] = {}

    def __bool__(self) -> bool:
        """Return whether the text refers to any object."""
        return bool(self._groups)

    def reference(self, value: object) -> str:
        """Return the reference to a value, the same for each use of the same object."""
        key = id(value)  # `_groups` keeps the value alive, so its id is not reused
        if key not in self._refs:
            group = self._groups.setdefault(_type_key(value), [])
            self._refs[key] = f"meta[{_type_key(value)}][{len(group)}]"
            group.append(value)
        return self._refs[key]

    def section(self) -> str:
        """Return the text of the section.

        Raises:
            MetadataError: if a value cannot be represented.

        """
        return _Nodes().document(self._groups)


def _type_key(value: object) -> str:
    if isinstance(value, Attrs):
        return attrs_key(type(value))
    for kind, key in _TYPE_KEYS.items():
        if isinstance(value, kind):
            return key
    return type(value).__name__


_TYPE_KEYS: Final[Mapping[type, str]] = {
    Constant: "relay.Constant",
    GlobalVar: "GlobalVar",
    ShapeVar: "tir.Var",
    Any: "tir.Any",
    Mapping: "Map",
    str: "runtime.String",
    bool: "IntImm",
    int: "IntImm",
    float: "FloatImm",
    Sequence: "Array",
}


class _Nodes:
    """TVM's JSON graph under construction. Node 0 is null."""

    def __init__(self) -> None:
        self._nodes: list[_Node] = [{"type_key": ""}]
        self._tensors: list[str] = []

    def document(self, groups: Mapping[str, Sequence[object]]) -> str:
        self._nodes.append({})
        self._nodes[1] = self._map(groups)
        nodes = ", \n    ".join(map(json.dumps, self._nodes))
        tensors = ", \n    ".join(map(json.dumps, self._tensors))
        version = '{"tvm_version": "0.8.0"}'
        return (
            f'{{\n  "root": 1, \n  "nodes": [\n    {nodes}\n  ], \n'
            f'  "b64ndarrays": [\n    {tensors}\n  ], \n  "attrs": {version}\n}}'
        )

    def _add(self, value: object) -> int:
        if value is None:
            return _NULL
        self._nodes.append(self._node(value))
        return len(self._nodes) - 1

    def _node(self, value: object) -> _Node:
        key = _type_key(value)
        if isinstance(value, Constant):
            return {"type_key": key, "attrs": {"_checked_type_": "0", "data": self._tensor(value), "span": "0"}}
        if isinstance(value, GlobalVar):
            return {"type_key": key, "attrs": {"name_hint": self._string(value.name_hint), "span": "0"}}
        if isinstance(value, ShapeVar):
            return {"type_key": key, "attrs": {"dtype": "int32", "name": self._string(value.name), "span": "0"}}
        if isinstance(value, Any):
            return {"type_key": key, "attrs": {"dtype": "int32", "span": "0"}}
        if isinstance(value, str):
            return {"type_key": key, "repr_str": value}
        if isinstance(value, bool | int | float):
            dtype = "bool" if isinstance(value, bool) else "int64" if isinstance(value, int) else "float64"
            return {"type_key": key, "attrs": {"dtype": dtype, "value": repr(value), "span": "0"}}
        if isinstance(value, Attrs):
            return {"type_key": key, "attrs": {name: str(self._add(field)) for name, field in value.items()}}
        return self._container(value, key)

    def _container(self, value: object, key: str) -> _Node:
        if isinstance(value, Mapping):
            entries = cast("Mapping[object, object]", value)
            return self._map({str(name): entry for name, entry in entries.items()})
        if isinstance(value, Sequence):
            return {"type_key": key, "data": [self._add(item) for item in cast("Sequence[object]", value)]}
        raise MetadataError(f"cannot write a value of type {type(value).__name__} as Relay text: {value!r}")

    def _map(self, entries: Mapping[str, object]) -> _Node:
        data: list[_Json] = [self._add(entry) for entry in entries.values()]
        return {"type_key": "Map", "keys": list(entries), "data": data}

    def _string(self, text: str) -> str:
        return str(self._add(text))

    def _tensor(self, const: Constant) -> str:
        try:
            self._tensors.append(tensor_to_base64(const.data))
        except TensorFormatError as error:
            raise MetadataError(str(error)) from None
        return str(len(self._tensors) - 1)


def read_metadata(text: str, limits: TextLimits = DEFAULT_LIMITS) -> MetaTable:
    """Return the objects of a metadata section.

    Raises:
        MetadataError: if the section is not JSON in TVM's format, contains an unsupported object, or exceeds a limit.

    """
    try:
        document = json.loads(text)
        reader = _Reader(document["nodes"], document.get("b64ndarrays", []), limits)
        table = reader.value(_index(document["root"]))
    except MetadataError:
        raise
    except json.JSONDecodeError as error:
        raise MetadataError(f"the metadata is not valid JSON: {error}") from None
    except TensorFormatError as error:
        raise MetadataError(f"the metadata contains an invalid constant: {error}") from None
    except RecursionError:
        raise MetadataError("the metadata is not in TVM's format: its JSON is nested too deeply") from None
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise MetadataError(f"the metadata is not in TVM's format: {type(error).__name__}: {error}") from None
    if not isinstance(table, Mapping):
        raise MetadataError(f"the root of the metadata must be a table, got a {type(table).__name__}")
    entries = cast("Mapping[object, object]", table)
    return {str(key): cast("list[object]", entry) for key, entry in entries.items() if isinstance(entry, list)}


class _Reader:
    """Converts nodes to values, each once and without recursion."""

    def __init__(self, nodes: Sequence[_Node], tensors: Sequence[str], limits: TextLimits) -> None:
        self._nodes = nodes
        self._tensors = tensors
        self._limits = limits
        self._values_by_index: dict[int, object] = {_NULL: None}
        # The number of values and the nesting of each value as a tree, in which a shared node occurs several times.
        self._sizes: dict[int, int] = {_NULL: 1}
        self._depths: dict[int, int] = {_NULL: 0}

    def value(self, root: int) -> object:
        """Return the value of a node."""
        values, stack, entered = self._values_by_index, [root], set[int]()
        while stack:
            index = stack[-1]
            if index in values:
                stack.pop()
                continue
            node = self._node(index)
            references = _references(node)
            pending = [reference for reference in references if reference not in values]
            if not pending:
                stack.pop()
                self._measure(index, references)
                values[index] = self._make(node)
            elif index in entered:
                raise MetadataError(f"the metadata is not in TVM's format: node {index} contains itself")
            else:
                entered.add(index)
                stack += pending
        return values[root]

    def _node(self, index: int) -> _Node:
        if not 0 <= index < len(self._nodes):
            raise MetadataError(
                f"the metadata is not in TVM's format: there is no node {index}; it has {len(self._nodes)}"
            )
        return self._nodes[index]

    def _measure(self, index: int, references: Sequence[int]) -> None:
        """Check the size and the nesting of a value against the limits."""
        size = self._sizes[index] = 1 + sum(self._sizes[reference] for reference in references)
        depth = self._depths[index] = 1 + max((self._depths[reference] for reference in references), default=0)
        if size > max(self._limits.values, len(self._nodes)):
            raise MetadataError(
                f"node {index} of the metadata expands to {size} values through shared arrays; "
                f"the limit TextLimits.values is {self._limits.values}"
            )
        if depth > self._limits.nesting + _TABLE_DEPTH:
            raise MetadataError(
                f"node {index} of the metadata is nested {depth} levels deep; "
                f"the limit TextLimits.nesting is {self._limits.nesting}"
            )

    def _make(self, node: _Node) -> object:
        key = node["type_key"]
        if key == "Array":
            return self._values(node)
        if key in _MAPS:
            return dict(zip(map(str, _list_of(node, "keys")), self._values(node), strict=True))
        if key == "runtime.String":
            return _text_of(node["repr_str"])
        return self._object(str(key), _fields_of(node))

    def _values(self, node: _Node) -> list[object]:
        return [self._values_by_index[index] for index in _references(node)]

    def _value_of(self, index: str) -> object:
        return self._values_by_index[_index(index)]

    def _object(self, key: str, attrs: Mapping[str, str]) -> object:
        if key == "relay.Constant":
            return Constant(tensor_from_base64(self._tensors[_index(attrs["data"])]))
        if key in _SHAPE_VARS:
            return ShapeVar(str(self._value_of(attrs["name"])))
        if key == "GlobalVar":
            return GlobalVar(str(self._value_of(attrs["name_hint"])))
        if key == "tir.Any":
            return Any()
        if key == "IntImm":
            return attrs["value"] in {"True", "1"} if attrs["dtype"] in {"bool", "uint1"} else int(attrs["value"])
        if key == "FloatImm":
            return float(attrs["value"])
        return self._attrs(key, attrs)

    def _attrs(self, key: str, attrs: Mapping[str, str]) -> Attrs:
        values = {name: frozen(self._value_of(index)) for name, index in attrs.items()}
        kind = attrs_type_of(key)
        return DictAttrs(values) if kind is DictAttrs else kind(**values)


_MAPS: Final = frozenset({"Map", "StrMap"})
_SHAPE_VARS: Final = frozenset({"tir.Var", "tir.SizeVar"})
_NAME_FIELDS: Final[Mapping[str, str]] = {**dict.fromkeys(_SHAPE_VARS, "name"), "GlobalVar": "name_hint"}
_LEAVES: Final = frozenset({"runtime.String", "relay.Constant", "tir.Any", "IntImm", "FloatImm"})
_TABLE_DEPTH: Final = 3
"""Levels of the table above a value of an attribute: the table, a list of objects, and the object."""


def _references(node: _Node) -> list[int]:
    """Return the indices of the nodes that a node contains."""
    key = node["type_key"]
    if key == "Array" or key in _MAPS:
        return list(map(_index, _list_of(node, "data")))
    if key in _LEAVES:
        return []
    fields = _fields_of(node)
    if key in _NAME_FIELDS:
        return [_index(fields[_NAME_FIELDS[str(key)]])]
    return list(map(_index, fields.values()))


def _fields_of(node: _Node) -> dict[str, str]:
    attrs = node.get("attrs") or {}
    return {name: str(field) for name, field in attrs.items()} if isinstance(attrs, dict) else {}


def _index(item: object) -> int:
    if isinstance(item, int | str):
        return int(item)
    raise MetadataError(f"the metadata is not in TVM's format: expected the number of a node, got {item!r:.50}")


def _text_of(item: object) -> str:
    if not isinstance(item, str):
        raise MetadataError(f"the metadata is not in TVM's format: expected a string, got {item!r:.50}")
    try:
        item.encode()
    except UnicodeEncodeError as error:
        raise MetadataError(f"a string of the metadata is not valid Unicode: {error.reason}") from None
    return item


def _list_of(node: _Node, name: str) -> "list[_Json]":
    items = node.get(name)
    if isinstance(items, list):
        return items
    raise MetadataError(f"the metadata is not in TVM's format: a node of type {node['type_key']} has no {name}")


def frozen(value: object) -> object:
    """Return a value with lists converted to tuples, as attributes require."""
    return tuple(map(frozen, cast("list[object]", value))) if isinstance(value, list) else value
