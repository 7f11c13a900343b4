"""Changes of a graph: replaced values, inserted nodes, removed nodes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.facts import Facts, subgraphs
from apass.adapters.onnx.rewrites.kernels import Array

__all__ = ["Editor", "WouldChangeError"]

INITIALIZERS_SINCE: Final = 4
"""The IR version from which an initializer need not be an input of the model."""


class WouldChangeError(Exception):
    """Raised instead of the first change of a model that must not be changed."""


class Editor:
    """Changes the graphs of a private copy of a model.

    Parameters:
        graph: the main graph, or the graph of a function.
        facts: the facts, which are kept up to date.
        ir_version: the IR version of the model.
        is_main: whether it is the main graph; a function has no initializers.
        dry: whether to raise WouldChangeError instead of the first change.

    """

    def __init__(self, graph: ir.Graph, facts: Facts, ir_version: int, *, is_main: bool, dry: bool = False) -> None:
        self.facts = facts
        self.modified = False
        """Whether anything was changed."""
        self.added: list[ir.Node] = []
        """New nodes, to which no rule was applied yet."""
        self._graph = graph
        self._is_main = is_main
        self._dry = dry
        self._ir_version = ir_version
        self._names: Counter[str] | None = None
        self._shared: dict[tuple[object, ...], ir.Value] = {}

    def start_change(self) -> None:
        """Record that the model is about to change.

        Raises:
            WouldChangeError: if the model must not be changed.

        """
        if self._dry:
            raise WouldChangeError
        self.modified = True

    def bypass(self, node: ir.Node, value: ir.Value) -> bool:
        """Use `value` instead of the result of `node`; return whether it is possible."""
        return self.replace(node, {node.outputs[0]: value})

    def replace(self, node: ir.Node, values: Mapping[ir.Value, ir.Value]) -> bool:
        """Use other values instead of results of `node`, and remove what is unused then.

        An output of a graph keeps its name: the other value is renamed. This is impossible if that value is an input,
        an initializer, another output, or a value of an outer graph. Nothing is changed then.
        """
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        renamed = [old for old in values if old.is_graph_output()]
        if any(not self._can_be_output(values[old], graph) for old in renamed) or len(renamed) > 1:
            return False
        self.start_change()
        for old, new in values.items():
            if old in renamed:
                self._rename(old, new, graph)
            old.replace_all_uses_with(new)
        self.remove_unused(node)
        return True

    def replace_outputs(self, node: ir.Node, values: Sequence[ir.Value]) -> None:
        """Use other values instead of the first results of `node`, and remove it.

        An Identity is inserted for an output of the graph that cannot be renamed.
        """
        self.start_change()
        graph = node.graph
        assert isinstance(graph, ir.Graph)
        for old, new in zip(node.outputs, values, strict=False):
            if not old.is_graph_output():
                old.replace_all_uses_with(new)
                continue
            chosen = new
            if not self._can_be_output(new, graph):
                chosen = self.add(node, "Identity", [new]).outputs[0]
            self._rename(old, chosen, graph)
            old.replace_all_uses_with(chosen)
        self.remove_unused(node)

    def inlined_name(self, name: str) -> str:
        """Return the name of a value that moves to an outer graph: if unique, its own."""
        names = self._all_names()
        if names[name] < 2:
            return name
        names[name] -= 1
        return self._fresh_name(name)

    def add(
        self,
        before: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        outputs: int = 1,
    ) -> ir.Node:
        """Insert a node, and record its facts."""
        self.start_change()
        node = ir.node(op_type, inputs, dict(attributes or {}), num_outputs=outputs)
        for output in node.outputs:
            output.name = self._fresh_name(before.outputs[0].name or "value")
        graph = before.graph
        assert graph is not None
        graph.insert_before(before, node)
        self.facts.record(node)
        self.added.append(node)
        for output in node.outputs:
            dtype = self.facts.dtype(output)
            if dtype is not None:
                output.type = ir.TensorType(dtype)
        return node

    def substitute(
        self,
        node: ir.Node,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
    ) -> bool:
        """Replace a node with one result by another node."""
        new = self.add(node, op_type, inputs, attributes)
        old = node.outputs[0]
        new.name, new.doc_string = node.name, node.doc_string
        new.metadata_props.update(node.metadata_props)
        new.outputs[0].type, new.outputs[0].shape = old.type, old.shape
        self.facts.copy(old, new.outputs[0])
        return self.bypass(node, new.outputs[0])

    def constant(self, before: ir.Node, numbers: Array | Sequence[int]) -> ir.Value:
        """Return a value with these numbers (64-bit integers for a sequence)."""
        array = np.array(numbers, np.int64) if not isinstance(numbers, np.ndarray) else numbers
        key = (id(before.graph), array.dtype, array.shape, array.tobytes())
        if key not in self._shared:
            name = self._fresh_name(f"{before.outputs[0].name}_constant")
            self._shared[key] = self.hold(before, ir.Tensor(array, name=name), name)
        return self._shared[key]

    def can_hold(self, node: ir.Node) -> bool:
        """Return whether the graph of a node can have new initializers."""
        return self._ir_version >= INITIALIZERS_SINCE and (self._is_main or node.graph is not self._graph)

    def hold(self, before: ir.Node, tensor: ir.TensorProtocol, name: str) -> ir.Value:
        """Return a value with this tensor: an initializer, or else a Constant node."""
        self.start_change()
        graph = before.graph
        assert isinstance(graph, ir.Graph)
        if self.can_hold(before):
            shape = ir.Shape(tensor.shape.numpy())
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
            graph.register_initializer(value)
        else:
            node = ir.node("Constant", [], {"value": tensor})
            value = node.outputs[0]
            value.name = name
            value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
            graph.insert_before(before, node)
            self.facts.record(node)
        return value

    def remove_unused(self, node: ir.Node) -> None:
        """Remove a node without uses, and then those of its producers that have none left."""
        waiting = [node]
        while waiting:
            candidate = waiting.pop()
            graph = candidate.graph
            if graph is None or any(value.uses() or value.is_graph_output() for value in candidate.outputs):
                continue
            self.start_change()
            producers = [value.producer() for value in candidate.inputs if value is not None]
            producers += _detach(candidate)
            graph.remove(candidate, safe=True)
            # A producer in an outer graph may come later in the order of removal; it has its own graph.
            waiting += [producer for producer in dict.fromkeys(producers) if producer is not None]

    def remove_unused_constants(self) -> None:
        """Remove the initializers that no node uses, except inputs and outputs."""
        for graph in (self._graph, *self._graph.subgraphs()):
            for name, value in list(graph.initializers.items()):
                if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
                    graph.initializers.pop(name)

    def set_input(self, node: ir.Node, index: int, value: ir.Value | None) -> None:
        """Replace an operand, and remove what is unused then."""
        self.start_change()
        old = node.inputs[index]
        node.replace_input_with(index, value)
        producer = None if old is None else old.producer()
        if producer is not None:
            self.remove_unused(producer)

    def _can_be_output(self, value: ir.Value, graph: ir.Graph) -> bool:
        return value.producer() is not None and value.graph is graph and not value.is_graph_output()

    def _rename(self, old: ir.Value, new: ir.Value, graph: ir.Graph) -> None:
        """Make `new` the output that `old` is, with its name and its declared type."""
        name = old.name
        for index, output in enumerate(graph.outputs):
            if output is old:
                graph.outputs[index] = new
        old.name = None
        new.name = name
        new.type, new.shape = old.type or new.type, old.shape if old.shape is not None else new.shape

    def _fresh_name(self, base: str) -> str:
        names = self._all_names()
        name, count = base, 0
        while names[name]:
            count += 1
            name = f"{base}_{count}"
        names[name] += 1
        return name

    def _all_names(self) -> Counter[str]:
        # Most models need no new names.
        if self._names is None:
            self._names = Counter(_names(self._graph))
        return self._names


def _detach(node: ir.Node) -> list[ir.Node | None]:
    """Remove the operands in the subgraphs of a node; return their outer producers."""
    inner = list(chain.from_iterable(graph.all_nodes() for graph in subgraphs(node)))
    producers: dict[ir.Node | None, None] = {}
    for item in inner:
        for index, value in enumerate(item.inputs):
            if value is not None:
                producers[value.producer()] = None
                item.replace_input_with(index, None)
    within = set(inner)
    return [producer for producer in producers if producer not in within]


def _names(graph: ir.Graph) -> Iterable[str]:
    for owner in (graph, *graph.subgraphs()):
        for value in (*owner.inputs, *owner.initializers.values()):
            yield value.name or ""
        for node in owner:
            for value in node.outputs:
                yield value.name or ""
