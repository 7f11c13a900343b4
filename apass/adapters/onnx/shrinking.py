"""What of an ONNX model can be left out, for `reduce`: nodes, outputs, initializers, inputs and functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import onnx_ir as ir

__all__ = ["Change", "shrinkable"]

Change = Callable[[ir.Graph, frozenset[int]], None]
"""Leaves parts of these numbers out of a graph, in place."""


def shrinkable(graph: ir.Graph, typed: ir.Graph) -> Iterator[tuple[str, int, Change]]:
    """Go over what can be left out of a graph: what it is, how many there are, and how.

    The values of `typed`, a graph like it, have types and shapes, as far as these can be inferred.
    """
    types = {value.name: value for node in typed for value in node.outputs}
    yield "nodes", len(graph), partial(_without_nodes, types)
    yield "outputs", len(graph.outputs), _without_outputs
    yield "initializers", len(graph.initializers), _without_initializers
    yield "inputs", len(_unused_inputs(graph)), _without_inputs


def _without_nodes(types: Mapping[str | None, ir.Value], graph: ir.Graph, numbers: frozenset[int]) -> None:
    """Leave out nodes; what others need of them becomes an input, and an output of the graph is one no more."""
    gone = [node for number, node in enumerate(graph) if number in numbers]
    values = {id(value) for node in gone for value in node.outputs}
    inside = {id(node) for node in _all_of(gone)}
    kept = [value for value in graph.outputs if id(value) not in values]
    graph.outputs.clear()
    graph.outputs.extend(kept)
    for node in gone:
        for value in node.outputs:
            if any(id(user) not in inside for user, _ in value.uses()):
                known = types.get(value.name, value)
                given = ir.Value(name=value.name, type=known.type, shape=known.shape)
                ir.convenience.replace_all_uses_with(value, given)
                graph.inputs.append(given)
    graph.remove(gone)


def _all_of(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Go over nodes, and those in their subgraphs."""
    for node in nodes:
        yield node
        for attr in node.attributes.values():
            if attr.type == ir.AttributeType.GRAPH:
                yield from _all_of(attr.as_graph())
            elif attr.type == ir.AttributeType.GRAPHS:
                yield from (one for graph in attr.as_graphs() for one in _all_of(graph))


def _without_outputs(graph: ir.Graph, numbers: frozenset[int]) -> None:
    kept = [value for number, value in enumerate(graph.outputs) if number not in numbers]
    graph.outputs.clear()
    graph.outputs.extend(kept)


def _without_initializers(graph: ir.Graph, numbers: frozenset[int]) -> None:
    """Leave out the data; where somebody needs the value, an input stands for it."""
    for number, (name, value) in enumerate(list(graph.initializers.items())):
        if number in numbers:
            del graph.initializers[name]
            tensor = value.const_value
            if value.uses() and value not in graph.inputs and tensor is not None:
                value.const_value = None
                value.type = value.type or ir.TensorType(tensor.dtype)
                value.shape = value.shape or ir.Shape(tensor.shape.numpy())
                graph.inputs.append(value)


def _without_inputs(graph: ir.Graph, numbers: frozenset[int]) -> None:
    gone = {id(value) for number, value in enumerate(_unused_inputs(graph)) if number in numbers}
    kept = [value for value in graph.inputs if id(value) not in gone]
    graph.inputs.clear()
    graph.inputs.extend(kept)


def _unused_inputs(graph: ir.Graph) -> list[ir.Value]:
    outputs = {id(value) for value in graph.outputs}
    return [value for value in graph.inputs if not value.uses() and id(value) not in outputs]
