"""JSON texts as TVM 0.8 writes them."""

import json
from collections.abc import Mapping, Sequence

__all__ = ["array", "document", "leaf", "node", "number", "string"]

Node = dict[str, object]


def document(*nodes: object, root: object = 1, tensors: Sequence[object] = (), version: str = "0.8.0") -> str:
    """Return a text of a list of nodes. Node 0 is null, so the first node is number 1."""
    parts = {"root": root, "nodes": [{"type_key": ""}, *nodes], "b64ndarrays": list(tensors)}
    return json.dumps({**parts, "attrs": {"tvm_version": version}})


def node(type_key: str, **attrs: object) -> Node:
    """Return a node with fields. Numbers become strings, as in TVM."""
    return {"type_key": type_key, "attrs": {name: str(value) for name, value in attrs.items()}}


def leaf(type_key: str, name: str) -> Node:
    """Return a node that is written as its name."""
    return {"type_key": type_key, "repr_str": name}


def string(text: str) -> Node:
    """Return a string."""
    return leaf("runtime.String", text)


def array(*items: int) -> Node:
    """Return an array of nodes."""
    return {"type_key": "Array", "data": list(items)} if items else {"type_key": "Array"}


def number(value: int) -> Node:
    """Return an integer."""
    return node("IntImm", dtype="int32", span=0, value=value)


def changed(text: str, index: int, changes: Mapping[str, object]) -> str:
    """Return a text with parts of a node changed."""
    parts = json.loads(text)
    parts["nodes"][index].update(changes)
    return json.dumps(parts)
