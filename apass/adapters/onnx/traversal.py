"""Iteration over the graphs of a model; several times as fast as that of onnx_ir."""

from collections.abc import Iterator
from typing import Final, cast

import onnx_ir as ir

__all__ = [
    "SMALL_NODES",
    "TENSOR_TYPES",
    "all_graphs",
    "attribute_tensors",
    "count_nodes",
    "is_small",
    "nested_graphs",
    "owners",
    "tensors_in",
]

SMALL_NODES: Final = 64
"""Maximum number of nodes of models that are processed on the event loop; others are processed in a thread.

A pass takes about 0.05 ms per node, and a time slice is 4 ms.
"""

SMALL_BYTES: Final = 2**22
"""Maximum size in bytes of the weights of such models, because a pass may have to read all weights."""

TENSOR_TYPES: Final = frozenset({ir.AttributeType.TENSOR, ir.AttributeType.TENSORS})
"""The types of attributes that hold tensors."""

Owner = ir.Graph | ir.Function
Tensor = ir.TensorProtocol


def owners(model: ir.Model) -> Iterator[Owner]:
    """Iterate over the main graph and the functions."""
    yield model.graph
    yield from model.functions.values()


def nested_graphs(owner: Owner) -> list[ir.Graph]:
    """Return the graph of `owner` and the subgraphs in it; outer graphs come first."""
    # `isinstance` is slow for the classes of onnx_ir, which derive from protocols.
    graphs = [owner if type(owner) is ir.Graph else cast("ir.Function", owner).graph]
    for graph in graphs:  # the list grows in the loop
        for node in graph:
            # The views of the attributes themselves are slow, because they are a `UserDict`.
            for attr in node.attributes.data.values():
                if attr.type is _GRAPH and attr.value is not None:
                    graphs.append(cast("ir.Graph", attr.value))
                elif attr.type is _GRAPHS and attr.value is not None:
                    graphs += cast("tuple[ir.Graph, ...]", attr.value)
    return graphs


def all_graphs(model: ir.Model) -> list[ir.Graph]:
    """Return the main graph, the graphs of the functions, and all subgraphs."""
    return [graph for owner in owners(model) for graph in nested_graphs(owner)]


def count_nodes(model: ir.Model) -> int:
    """Return the number of nodes of a model, with subgraphs and functions."""
    return sum(map(len, all_graphs(model)))


def is_small(model: ir.Model) -> bool:
    """Return whether a pass on the model blocks the event loop only for a time slice."""
    graphs = all_graphs(model)
    if sum(map(len, graphs)) > SMALL_NODES or sum(len(graph.initializers) for graph in graphs) > SMALL_NODES:
        return False
    return sum(tensor.nbytes for graph in graphs for tensor in tensors_in(graph)) <= SMALL_BYTES


def tensors_in(graph: ir.Graph) -> Iterator[Tensor]:
    """Iterate over the tensors of initializers and attributes, not of subgraphs."""
    yield from (value.const_value for value in graph.initializers.data.values() if value.const_value is not None)
    for node in graph:
        for attr in node.attributes.data.values():
            if attr.type in TENSOR_TYPES:
                yield from attribute_tensors(attr)


def attribute_tensors(attr: ir.Attr) -> tuple[Tensor, ...]:
    """Return the tensors in the value of an attribute."""
    if attr.value is None or attr.type not in TENSOR_TYPES:
        return ()
    return (attr.value,) if attr.type is ir.AttributeType.TENSOR else cast("tuple[Tensor, ...]", attr.value)


_GRAPH: Final = ir.AttributeType.GRAPH
_GRAPHS: Final = ir.AttributeType.GRAPHS
