"""Evaluation of constant parts of a model in a worker process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx.rewrites.editing import Editor
from apass.adapters.onnx.rewrites.engine import MAX_BYTES, MAX_TOTAL
from apass.adapters.onnx.rewrites.facts import Facts, constant_tensor, is_onnx
from apass.adapters.onnx.rewrites.growth import SMALL
from apass.adapters.onnx.rewrites.kernels import Array

__all__ = ["ConstantPart", "constant_part", "evaluate_part", "replace_part"]

_EXCLUDED: Final = frozenset(
    {
        "Bernoulli",
        "Constant",
        "DequantizeLinear",
        "Dropout",
        "If",
        "Loop",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
    }
    | {"RandomUniformLike", "Scan", "SequenceMap", "ImageDecoder"}
)
"""Operators that are random, have subgraphs, or need other libraries; and DequantizeLinear.

Dequantized weights would be four times as large, and runtimes could not compute with integers.
"""


@dataclass(frozen=True, slots=True)
class ConstantPart:
    """The nodes of a model that can be computed in advance."""

    model: bytes
    """A model of these nodes, without inputs."""
    outputs: Mapping[str, tuple[tuple[int, ...], ir.DataType]]
    """Shape and type of each value that the other nodes use."""


def constant_part(model: ir.Model, max_bytes: int = MAX_BYTES) -> ConstantPart | None:
    """Return the part of the main graph that is constant, or None if there is none.

    Values of unknown size, or of more than `max_bytes` bytes, are not computed.
    """
    graph = model.graph
    facts = Facts(graph, max_bytes, max_bytes * MAX_TOTAL, is_main=True)
    if not facts.version:
        return None
    nodes: list[ir.Node] = []
    computed: dict[ir.Value, int] = {}
    """Each computed value, with the number of bytes of the operands that it comes from."""
    operands: dict[ir.Value, Array] = {}
    for node in graph:
        facts.record(node)
        if node.op_type in _EXCLUDED or not is_onnx(node) or not any(node.inputs):
            continue
        arrays = {
            value: None if constant_tensor(value) is None else facts.constant(value)
            for value in node.inputs
            if value is not None and value not in computed
        }
        if any(array is None for array in arrays.values()):
            continue
        sizes = {value: facts.size(value) for value in node.outputs if value.name}
        if any(size is None or size > max_bytes for size in sizes.values()):
            continue
        room = sum(array.nbytes for array in arrays.values() if array is not None)
        room += sum(computed[value] for value in node.inputs if value in computed)
        nodes.append(node)
        operands.update({value: array for value, array in arrays.items() if array is not None})
        computed.update(dict.fromkeys(sizes, room))
    chosen = set(nodes)
    results = {
        value: (cast("tuple[int, ...]", facts.shape(value)), dtype)
        for value, room in computed.items()
        if (value.is_graph_output() or any(use.node not in chosen for use in value.uses()))
        and (dtype := facts.dtype(value)) is not None
        # A result that is larger than the operands that it comes from would make the model larger.
        and (facts.size(value) or 0) <= max(room, SMALL)
    }
    freed = sum(array.nbytes for value, array in operands.items() if all(use.node in chosen for use in value.uses()))
    if not results or sum(facts.size(value) or 0 for value in results) > freed + SMALL * len(results):
        return None
    proto = onnx.helper.make_model(
        onnx.helper.make_graph(
            [ir.to_proto(node) for node in nodes],
            "constants",
            [],
            [onnx.helper.make_tensor_value_info(value.name or "", results[value][1].value, None) for value in results],
            [ir.to_proto(ir.Tensor(array, facts.dtype(value), name=value.name)) for value, array in operands.items()],
        ),
        ir_version=model.ir_version,
        opset_imports=[onnx.helper.make_opsetid("", facts.version)],
    )
    return ConstantPart(proto.SerializeToString(), {value.name or "": result for value, result in results.items()})


def evaluate_part(model: bytes) -> list[Array] | None:
    """Return the outputs of a model without inputs, or None if it cannot be evaluated.

    onnxruntime evaluates it if it is installed and supports it, otherwise the reference evaluator of onnx.
    """
    # The evaluators are imported in the worker only.
    from apass.adapters.onnx.outputs.evaluation import LOADERS

    for engine in ("onnxruntime", "reference"):
        outputs = LOADERS[engine](model)({}).outputs
        if outputs is not None and all(isinstance(output, np.ndarray) for output in outputs):
            return list(outputs)
    return None


def replace_part(model: ir.Model, part: ConstantPart, arrays: list[Array]) -> bool:
    """Replace the values of a part in a private copy; return whether any changed."""
    graph = model.graph
    facts = Facts(graph, MAX_BYTES, MAX_BYTES, is_main=True)
    editor = Editor(graph, facts, model.ir_version, is_main=True)
    values = {value.name: value for node in graph for value in node.outputs}
    for (name, (shape, dtype)), array in zip(part.outputs.items(), arrays, strict=True):
        value = values[name]
        node = value.producer()
        if node is None or node.graph is None or array.shape != shape or array.dtype != dtype.numpy():
            continue
        tensor = ir.Tensor(array, dtype)
        if value.is_graph_output():
            if len(node.outputs) == 1:
                editor.substitute(node, "Constant", [], {"value": tensor})
            continue
        value.name = f"{name}_evaluated"
        editor.replace(node, {value: editor.hold(node, ir.Tensor(array, dtype, name=name), name)})
    return editor.modified
