"""`upgraded`: JSON of TVM 0.6 and 0.7 as JSON of TVM 0.8.

See TVM's `tvm.ir.json_compact`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from apass.relay.errors import SerializationError, shortened

__all__ = ["upgraded"]

_RENAMED: Final[Mapping[str, str]] = {
    "relay.GlobalTypeVar": "GlobalTypeVar",
    "relay.FuncType": "FuncType",
    "relay.GlobalVar": "GlobalVar",
    "relay.IncompleteType": "IncompleteType",
    "relay.Module": "IRModule",
    "relay.Op": "Op",
    "relay.SourceName": "SourceName",
    "relay.Span": "Span",
    "relay.TupleType": "TupleType",
    "relay.TypeCall": "TypeCall",
    "relay.TypeRelation": "TypeRelation",
    "relay.TypeVar": "TypeVar",
    "StringImm": "runtime.String",
    "StrMap": "Map",
    "SizeVar": "tir.SizeVar",
    "Variable": "tir.Var",
}
"""The type keys of classes that had another name, by the old name."""


def upgraded(nodes: Sequence[object], attrs: object) -> Sequence[object]:
    """Return the nodes of a document as TVM 0.8 would have written them.

    `attrs` are the attributes of the document, which contain the version that wrote it.

    Raises:
        SerializationError: if the version is older than 0.6.

    """
    version = str(cast("dict[str, object]", attrs).get("tvm_version", "")) if isinstance(attrs, dict) else ""
    if re.match(r"0\.[1-5]\b", version):
        raise SerializationError(f"cannot read JSON of TVM {shortened(version, 20)}; expected 0.6 or later")
    return [_upgraded_node(node, nodes) for node in nodes]


def _upgraded_node(node: object, nodes: Sequence[object]) -> object:
    if not isinstance(node, dict):
        return node
    parts = cast("dict[str, object]", node)
    key = parts.get("type_key")
    if "global_key" in parts:
        parts = {**parts, "repr_str": parts["global_key"]}
    if not isinstance(key, str) or key not in _RENAMED:
        return parts
    attrs = parts.get("attrs")
    entries = cast("dict[str, object]", attrs) if isinstance(attrs, dict) else {}
    if key == "StringImm":
        return {"type_key": "runtime.String", "repr_str": entries.get("value", "")}
    if key in {"relay.TypeVar", "relay.GlobalTypeVar"} and "var" in entries:
        # The name was that of a variable of TIR, in another node.
        entries = {**entries, "name_hint": _name_of(entries["var"], nodes)}
    return {**parts, "type_key": _RENAMED[key], "attrs": entries}


def _name_of(number: object, nodes: Sequence[object]) -> object:
    digits = str(number)
    node = nodes[int(digits)] if digits.isdecimal() and len(digits) < 10 and int(digits) < len(nodes) else None
    attrs = cast("dict[str, object]", node).get("attrs") if isinstance(node, dict) else None
    name = cast("dict[str, object]", attrs).get("name") if isinstance(attrs, dict) else None
    if name is None:
        raise SerializationError(f"there is no variable in node {shortened(digits, 20)}")
    return name
