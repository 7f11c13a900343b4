"""Inputs that reach the branches of an If.

Only the part of a model that computes the conditions is evaluated. It is small: it compares an input, such as a sample
rate, or a size with a constant.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, Final

import numpy as np
import onnx
from onnx.numpy_helper import to_array

from apass.adapters.onnx.outputs.evaluation import LoadedModel, load_reference

__all__ = ["Conditions"]

MAX_NODES: Final = 64
"""Conditions that are computed by more nodes are not evaluated."""

MAX_ATTEMPTS: Final = 64
"""Maximum number of assignments of interesting values that are evaluated."""

Reached = frozenset[tuple[int, bool]]
"""The conditions by index, each with the value that it has had."""


class Conditions:
    """The conditions of the If nodes of a main graph.

    Parameters:
        model: the model.

    """

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = model.graph
        computed = {name for node in graph.node for name in node.output}
        self.names = [
            node.name or node.output[0] for node in graph.node if node.op_type == "If" and node.input[0] in computed
        ]
        """The names of the If nodes whose conditions are computed."""
        results = [node.input[0] for node in graph.node if node.op_type == "If" and node.input[0] in computed]
        self._part = _part(model, results) if results else None
        self._run: LoadedModel | None = None if self._part is None else load_reference(self._part)

    @property
    def count(self) -> int:
        """Number of conditions that can be evaluated."""
        return 0 if self._part is None else len(self.names)

    def reached(self, inputs: Mapping[str, Any]) -> Reached:
        """Return the values of the conditions for these inputs."""
        outputs = None if self._run is None else self._run(inputs).outputs
        if outputs is None:
            return frozenset()
        return frozenset((index, bool(value.all())) for index, value in enumerate(outputs) if value.size)

    def missing(self, reached: Reached) -> str:
        """Return the name of a branch that was not reached; empty if all were."""
        for index, name in enumerate(self.names if self._part is not None else ()):
            for value, branch in ((True, "then"), (False, "else")):
                if (index, value) not in reached:
                    return f"the {branch} branch of {name!r}"
        return ""

    def attempts(self, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Iterate over values that replace some of `inputs`, and may reach other branches.

        They are the constants in the computation of the conditions, and their neighbours.
        """
        if self._part is None:
            return
        numbers = sorted({0, 1, *_constants(self._part)})
        nearby = [*numbers, *sorted({number + step for number in numbers for step in (-1, 1)} - set(numbers))]
        used = {name for node in self._part.graph.node for name in node.input}
        choices: list[list[tuple[str, Any]]] = []
        for name in inputs.keys() & used:
            # Sequences have no dtype.
            kind = getattr(getattr(inputs[name], "dtype", None), "kind", "")
            if kind in ("i", "u", "f", "b") and inputs[name].size:
                choices.append([(name, number) for number in ([False, True] if kind == "b" else nearby)])
        for assignment in islice(product(*choices), MAX_ATTEMPTS):
            replaced: dict[str, Any] = {}
            for name, number in assignment:
                try:
                    replaced[name] = np.full_like(inputs[name], number)
                except OverflowError:  # a number that the type does not have
                    break
            else:
                yield replaced


def _constants(part: onnx.ModelProto) -> Iterator[int]:
    """Iterate over the integers that are single constants of a model."""
    tensors = [
        *part.graph.initializer,
        *(attr.t for node in part.graph.node for attr in node.attribute if attr.name == "value"),
    ]
    for tensor in tensors:
        if tensor.data_type not in (onnx.TensorProto.UNDEFINED, onnx.TensorProto.STRING):
            array = to_array(tensor)
            if array.size == 1 and array.dtype.kind in "iuf" and np.isfinite(array.astype(np.float64)).all():
                yield int(array.reshape(()).item())


def _part(model: onnx.ModelProto, results: Sequence[str]) -> onnx.ModelProto | None:
    """Return the model of the nodes that compute values.

    Return None if there are many nodes, or some have subgraphs.
    """
    graph = model.graph
    producers = {name: node for node in graph.node for name in node.output}
    needed: dict[int, onnx.NodeProto] = {}
    waiting = list(results)
    while waiting:
        node = producers.get(waiting.pop())
        if node is None or id(node) in needed:
            continue
        if len(needed) == MAX_NODES or any(attr.HasField("g") or attr.graphs for attr in node.attribute):
            return None
        needed[id(node)] = node
        waiting += node.input
    names = {name for node in needed.values() for name in node.input}
    part = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    part.graph.name = "conditions"
    part.graph.node.extend(node for node in graph.node if id(node) in needed)
    part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in names)
    part.graph.input.extend(info for info in graph.input if info.name in names)
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(results))
    return part
