"""What of an ONNX model can be left out, for `reduce`: nodes, outputs, initializers, inputs and functions."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

import onnx_ir as ir

__all__ = ["Change", "inner_nodes", "leave_out", "shrinkable"]

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


def inner_nodes(graph: ir.Graph, functions: Iterable[ir.Function]) -> list[tuple[ir.Node, ir.Value | None]]:
    """Return the nodes within functions and subgraphs, each with the value that can stand for what it computes.

    That is the first that it is given, or else the first that its function is. There is none for a node whose results
    nobody needs; one that has none but is needed is not among them. The order is the same for a copy.
    """
    # Its outermost nodes are another matter: what they compute may become an input of the model.
    outermost = ((node, None) for node in _all_of(graph) if node.graph is not graph)
    others = ((node, next(iter(one.inputs), None)) for one in functions for node in _all_of(one))
    found = ((node, next(filter(None, node.inputs), given)) for node, given in chain(outermost, others))
    return [(node, value) for node, value in found if _can_go(node, value)]


def leave_out(nodes: Iterable[tuple[ir.Node, ir.Value | None]]) -> None:
    """Take nodes that `inner_nodes` gave out of their graphs, in place; those graphs have as many outputs as before."""
    for node, given in nodes:
        # An earlier node that is gone too has left its own stand-in.
        value = next(filter(None, node.inputs), given)
        for output in node.outputs:
            if value is not None:
                _put(node, output, value)
        if node.graph is not None:
            node.graph.remove(node)


def _put(node: ir.Node, output: ir.Value, value: ir.Value) -> None:
    """Put another value in the place of an output of a node; an Identity, where it cannot be the graph's output."""
    graph = node.graph
    if graph is not None and output.is_graph_output() and (value.graph is not graph or value.is_graph_output()):
        named = ir.Value(name=output.name, type=output.type, shape=output.shape)
        graph.insert_before(node, ir.Node("", "Identity", [value], outputs=[named]))
        value = named
    output.replace_all_uses_with(value, replace_graph_outputs=True)


def _can_go(node: ir.Node, value: ir.Value | None) -> bool:
    outputs = [one for one in node.outputs if one.is_graph_output()]
    if value is None:
        return not outputs and not any(one.uses() for one in node.outputs)
    # Nor does an Identity that another would have to stand for.
    return not (outputs and node.op_type == "Identity" and (value.graph is not node.graph or value.is_graph_output()))


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
