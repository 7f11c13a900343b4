"""`Affine`: a scale and a shift by constants, and the nodes that compute one."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import attributes
from apass.adapters.onnx.rewrites.facts import Facts, constant_tensor
from apass.adapters.onnx.rewrites.kernels import Array
from apass.adapters.onnx.rewrites.merging import keeps_shape
from apass.adapters.onnx.rewrites.patterns import gelu_operand

__all__ = ["FLOATS", "SMALL", "Affine", "affine_of", "is_inference", "weights_of"]

MAX_WEIGHTS: Final = 2**30
"""Maximum size in bytes of weights that are read."""

SMALL: Final = 1024
"""Weights of at most so many elements may be copied, if several nodes share them."""

FLOATS: Final = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})
"""The types that have scales and shifts."""


@dataclass(frozen=True, slots=True)
class Affine:
    """The function `scale * x + shift`, in double precision.

    Its arrays are broadcast to `x`, which keeps its shape.
    """

    scale: Array | None = None
    """None is 1."""
    shift: Array | None = None
    """None is 0."""

    @property
    def is_scalar(self) -> bool:
        """Whether it is the same for all elements."""
        return all(array is None or array.size == 1 for array in (self.scale, self.shift))

    @property
    def is_increasing(self) -> bool:
        """Whether it keeps the order of numbers."""
        return self.scale is None or bool((self.scale > 0).all())

    def per_axis(self, rank: int, axis: int, size: int) -> "Affine | None":
        """Return it with vectors for one axis of `x`; None if it varies along others.

        The axis is counted from the last one, which is -1.
        """
        arrays: list[Array | None] = []
        for array in (self.scale, self.shift):
            vector = None if array is None else _vector(array, rank, axis, size)
            if array is not None and vector is None:
                return None
            arrays.append(vector)
        return Affine(*arrays)


def _vector(array: Array, rank: int, axis: int, size: int) -> Array | None:
    """Return an array that varies only along one axis as a vector of `size` numbers."""
    if array.size == 1:
        return np.full(size, array.reshape(-1)[0])
    position = array.ndim + axis
    if array.ndim > rank or position < 0 or array.shape[position] != size or array.size != size:
        return None
    return array.reshape(-1)


def weights_of(value: ir.Value | None) -> Array | None:
    """Return constant floating-point numbers that no other node uses, or None."""
    tensor = None if value is None else constant_tensor(value)
    if value is None or tensor is None or tensor.dtype not in FLOATS or tensor.nbytes > MAX_WEIGHTS:
        return None
    if len(value.uses()) > 1 and tensor.size > SMALL:
        return None
    return tensor.numpy()


def affine_of(node: ir.Node, facts: Facts) -> tuple[ir.Value, Affine] | None:
    """Return the operand of a node, and the affine function that the node computes.

    Return None if it computes something else, or belongs to a Gelu: runtimes fuse its nodes only as they are.
    """
    result = node.outputs[0]
    if facts.dtype(result) not in FLOATS or facts.version < 7 or gelu_operand(node, facts) is not None:
        return None
    if node.op_type == "BatchNormalization":
        return _normalization(node, facts)
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
        return None
    for index in (1, 0):
        constant, source = facts.constant(node.inputs[index]), node.inputs[1 - index]
        if constant is None or source is None or not keeps_shape(facts, constant, source):
            continue
        number = constant.astype(np.float64)
        with np.errstate(all="ignore"):
            match node.op_type, index:
                case "Add", _:
                    return source, Affine(shift=number)
                case "Sub", 1:
                    return source, Affine(shift=-number)
                case "Sub", _:
                    return source, Affine(np.array(-1.0), number)
                case "Mul", _:
                    return source, Affine(number)
                case "Div", 1 if np.isfinite(1 / number).all():
                    return source, Affine(1 / number)
                case _:
                    return None
    return None


def _normalization(node: ir.Node, facts: Facts) -> tuple[ir.Value, Affine] | None:
    shape, source = facts.shape(node.inputs[0]), node.inputs[0]
    arrays = [weights_of(value) for value in node.inputs[1:5]]
    known = [array.astype(np.float64) for array in arrays if array is not None]
    if shape is None or source is None or len(shape) < 2 or len(known) != 4 or not is_inference(node, facts):
        return None
    scale, shift, mean, variance = known
    with np.errstate(all="ignore"):
        # Without variance and epsilon the factor is infinite.
        factor = scale / np.sqrt(variance + attributes(node).get("epsilon", 1e-5))
    if not np.isfinite(factor).all():
        return None
    column = (-1, *[1] * (len(shape) - 2))
    return source, Affine(factor.reshape(column), (shift - mean * factor).reshape(column))


def is_inference(node: ir.Node, facts: Facts) -> bool:
    """Return whether a BatchNormalization uses a given mean and variance per channel."""
    attrs, more = attributes(node), node.outputs[1:]
    if facts.version < 7 or attrs.get("training_mode", 0) or not attrs.get("spatial", 1):
        return False
    # Before version 14, the number of outputs selects training.
    return not any(value.name if facts.version < 14 else value.uses() or value.is_graph_output() for value in more)
