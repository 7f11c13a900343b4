"""Parts of an ONNX model that `reduce` can remove."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

import onnx_ir as ir

__all__ = ["Change", "inner_nodes", "leave_out", "shrinkable"]

Change = Callable[[ir.Graph, frozenset[int]], None]
"""Removes the parts with these indices from a graph, in place."""


def shrinkable(graph: ir.Graph, typed: ir.Graph) -> Iterator[tuple[str, int, Change]]:
    """Iterate over the kinds of removable parts, with name, count and removal.

    `typed` is a graph with the same nodes, whose values have the types and shapes that could be inferred.
    """
    types = {value.name: value for node in typed for value in node.outputs}
    yield "nodes", len(graph), partial(_without_nodes, types)
    yield "outputs", len(graph.outputs), _without_outputs
    # First those that are inputs too, as in models of IR version 3. Without its initializer, an input needs a value.
    yield "inputs", len(_unused_inputs(graph)), _without_inputs
    yield "initializers", len(graph.initializers), _without_initializers


def _without_nodes(types: Mapping[str | None, ir.Value], graph: ir.Graph, indices: frozenset[int]) -> None:
    """Remove nodes.

    A value that other nodes use becomes an input. A removed output of the graph is not replaced.
    """
    removed = [node for index, node in enumerate(graph) if index in indices]
    values = {id(value) for node in removed for value in node.outputs}
    inside = {id(node) for node in _all_of(removed)}
    remaining = [value for value in graph.outputs if id(value) not in values]
    graph.outputs.clear()
    graph.outputs.extend(remaining)
    for node in removed:
        for value in node.outputs:
            if any(id(user) not in inside for user, _ in value.uses()):
                typed = types.get(value.name, value)
                new_input = ir.Value(name=value.name, type=typed.type, shape=typed.shape)
                ir.convenience.replace_all_uses_with(value, new_input)
                graph.inputs.append(new_input)
    graph.remove(removed)


def inner_nodes(graph: ir.Graph, functions: Iterable[ir.Function]) -> list[tuple[ir.Node, ir.Value | None]]:
    """Return the removable nodes in functions and subgraphs, with replacements.

    - The replacement for the outputs of a node is the first input of the node, or the first input of its function.
    - It may be None if the outputs of the node are unused.
    - A node that has no replacement, but is used, is not removable.

    The order of the nodes is the same in a copy of the model.
    """
    # Exclude the nodes of the main graph: `shrinkable` removes them, because their outputs can become inputs.
    in_subgraphs = ((node, None) for node in _all_of(graph) if node.graph is not graph)
    in_functions = ((node, next(iter(func.inputs), None)) for func in functions for node in _all_of(func))
    candidates = (
        (node, next(filter(None, node.inputs), default)) for node, default in chain(in_subgraphs, in_functions)
    )
    return [(node, value) for node, value in candidates if _is_removable(node, value)]


def leave_out(nodes: Iterable[tuple[ir.Node, ir.Value | None]]) -> None:
    """Remove nodes that `inner_nodes` returned, in place.

    The number of outputs of their graphs does not change.
    """
    for node, default in nodes:
        # Read the inputs again: removing an earlier node may have replaced them.
        value = next(filter(None, node.inputs), default)
        for output in node.outputs:
            if value is not None:
                _replace_output(node, output, value)
        if node.graph is not None:
            node.graph.remove(node)


def _replace_output(node: ir.Node, output: ir.Value, value: ir.Value) -> None:
    """Replace an output of a node by another value."""
    graph = node.graph
    # An output of a graph must be a value of that graph, and must not be listed twice. Otherwise, insert an Identity.
    if graph is not None and output.is_graph_output() and (value.graph is not graph or value.is_graph_output()):
        copied = ir.Value(name=output.name, type=output.type, shape=output.shape)
        graph.insert_before(node, ir.Node("", "Identity", [value], outputs=[copied]))
        value = copied
    output.replace_all_uses_with(value, replace_graph_outputs=True)


def _is_removable(node: ir.Node, value: ir.Value | None) -> bool:
    outputs = [output for output in node.outputs if output.is_graph_output()]
    if value is None:
        return not outputs and not any(output.uses() for output in node.outputs)
    # Keep an Identity that `_replace_output` would replace by another Identity.
    return not (outputs and node.op_type == "Identity" and (value.graph is not node.graph or value.is_graph_output()))


def _all_of(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Iterate over nodes and the nodes in their subgraphs."""
    for node in nodes:
        yield node
        for attr in node.attributes.values():
            if attr.type == ir.AttributeType.GRAPH:
                yield from _all_of(attr.as_graph())
            elif attr.type == ir.AttributeType.GRAPHS:
                yield from (inner for graph in attr.as_graphs() for inner in _all_of(graph))


def _without_outputs(graph: ir.Graph, indices: frozenset[int]) -> None:
    remaining = [value for index, value in enumerate(graph.outputs) if index not in indices]
    graph.outputs.clear()
    graph.outputs.extend(remaining)


def _without_initializers(graph: ir.Graph, indices: frozenset[int]) -> None:
    """Remove initializers. A value that is used becomes an input."""
    for index, (name, value) in enumerate(list(graph.initializers.items())):
        if index in indices:
            del graph.initializers[name]
            tensor = value.const_value
            if value.uses() and value not in graph.inputs and tensor is not None:
                value.const_value = None
                value.type = value.type or ir.TensorType(tensor.dtype)
                value.shape = value.shape or ir.Shape(tensor.shape.numpy())
                graph.inputs.append(value)


def _without_inputs(graph: ir.Graph, indices: frozenset[int]) -> None:
    """Remove unused inputs, with their initializers."""
    unused = [value for index, value in enumerate(_unused_inputs(graph)) if index in indices]
    removed = {id(value) for value in unused}
    for value in unused:
        if value.name is not None and value.name in graph.initializers:
            del graph.initializers[value.name]
    remaining = [value for value in graph.inputs if id(value) not in removed]
    graph.inputs.clear()
    graph.inputs.extend(remaining)


def _unused_inputs(graph: ir.Graph) -> list[ir.Value]:
    outputs = {id(value) for value in graph.outputs}
    return [value for value in graph.inputs if not value.uses() and id(value) not in outputs]
