"""The `apass.plugins.Node` values of ONNX graphs, and artificial locations."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

import onnx_ir as ir

from apass.adapters.nodes import Node
from apass.adapters.onnx.model_fingerprint import contents_of_attribute, tensor_digest
from apass.adapters.onnx.storage import private_copy, with_parts
from apass.adapters.onnx.traversal import all_graphs, nested_graphs

__all__ = ["LOCATION", "function_nodes", "with_metadata"]

LOCATION: Final = "apass.location"
"""The key of `metadata_props` of an artificial location."""

_LOCATIONS: Final = (LOCATION, "pkg.torch.onnx.stack_trace", "pkg.onnxscript.stack_trace")
"""Keys of `metadata_props` with a location; the others are those of the exporter of PyTorch."""

_LISTS: Final = frozenset({ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS})
"""The types of attributes that are lists of plain values."""

_FEW: Final = 16
"""Longer lists in attributes have a digest."""

_LONG: Final = 200
"""Longer texts in attributes have a digest."""


def function_nodes(owner: ir.Graph | ir.Function) -> Iterator[Node]:
    """Iterate over the initializers and the nodes of a graph and of its subgraphs.

    A node without a name of its own is named after its first output. The types of values are no part of a node, because
    shape inference would otherwise change all of them.
    """
    graphs = nested_graphs(owner)
    counts = Counter(node.name for graph in graphs for node in graph)
    taken = {""}
    numbers: Counter[str] = Counter()

    def unique(candidates: Iterable[str], kind: str) -> tuple[str, bool]:
        """Return a name, and whether it is given."""
        # The subgraphs of an If may use the same names, and a node may have the name of an initializer.
        name = next((name for name in candidates if name not in taken), None)
        given = name is not None
        while name is None or name in taken:
            name = f"{kind}#{numbers[kind]}"
            numbers[kind] += 1
        taken.add(name)
        return name, given

    for graph in graphs:
        for initializer, value in graph.initializers.data.items():
            if value.const_value is not None:
                name, given = unique((initializer,), "initializer")
                yield _initializer(name, initializer, value.const_value, is_named=given)
        for node in graph:
            made = tuple(value.name for value in node.outputs if value.name)
            own = (node.name,) if node.name and counts[node.name] == 1 else ()
            name, given = unique((*own, *made), node.op_type)
            yield Node(
                name=name,
                text=_text(node),
                operands=tuple("" if value is None else value.name or "" for value in node.inputs),
                results=made,
                location=_location(node),
                is_named=given,
            )


def _initializer(name: str, value: str, tensor: ir.TensorProtocol, *, is_named: bool) -> Node:
    is_short = tensor.size <= 1 and not isinstance(tensor, ir.StringTensor)
    # `repr` of an array rounds.
    contents = tensor.numpy().tolist() if is_short else f"#{tensor_digest(tensor)[:16]}"
    text = f"initializer {tensor.dtype.name}{list(tensor.shape)} {contents}"
    return Node(name=name, text=text, results=(value,), is_named=is_named, has_location=False)


def _text(node: ir.Node) -> str:
    """Return operator and attributes."""
    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    operator = f"{operator}:{node.overload}" if node.overload else operator
    attributes = [f"{name}={_value(attr)}" for name, attr in sorted(node.attributes.data.items())]
    return f"{operator}{{{', '.join(attributes)}}}" if attributes else operator


def _value(attr: ir.Attr) -> str:
    if attr.ref_attr_name:
        return f"@{attr.ref_attr_name}"
    value: Any = attr.value
    if attr.type is ir.AttributeType.GRAPH or attr.type is ir.AttributeType.GRAPHS:
        # The nodes of subgraphs are nodes of their own.
        return "graph"
    values = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (cast("object", value),)
    if len(values) <= _FEW and all(isinstance(item, str | int | float) for item in values):
        text = repr(values if attr.type in _LISTS else values[0])
        if len(text) <= _LONG:
            return text
    return f"#{contents_of_attribute(attr)[:16]}"


def _location(node: ir.Node) -> str:
    props = node.metadata_props
    return next((props[key] for key in _LOCATIONS if props.get(key)), "") if props else ""


def with_metadata(mod: ir.Model) -> ir.Model:
    """Return a model in which each node without a location has one in its metadata."""
    graph = private_copy(mod.graph)
    result = with_parts(mod, graph, [private_copy(func) for func in mod.functions.values()])
    all_nodes = [node for part in all_graphs(result) for node in part]
    for number, node in enumerate(all_nodes):
        if not _location(node):
            node.metadata_props[LOCATION] = f"apass:{number}"
    return result
