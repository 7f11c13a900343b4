"""Random inputs of a model, for the types of the inputs and their operators."""

from math import prod
from typing import Any, Final

import numpy as np
import onnx
from onnx.helper import tensor_dtype_to_np_dtype

__all__ = ["random_inputs"]

Role = tuple[str, int]
"""The operator that uses an input, and the index of the operand."""

SYMBOLIC_SIZES: Final = (2, 3, 4)
"""Sizes of symbolic dimensions, used in rotation. A dimension without a name has size 2."""

WORDS: Final = ("", "a", "Monday", "pass", "ß", "two words")
"""The values of random strings."""

MAX_ELEMENTS: Final = 2**28
"""Maximum number of elements of a random tensor. Models can declare inputs of any size."""

_SHAPE_INPUTS: Final = frozenset({("ConstantOfShape", 0), ("Expand", 1), ("Tile", 1), ("Loop", 0), ("TopK", 1)})
"""Operands that determine a size, such as a shape or a number of iterations."""

_AXES_INPUTS: Final = frozenset(
    {("Squeeze", 1), ("Unsqueeze", 1), ("Slice", 3), ("CumSum", 1)}
    | {(f"Reduce{name}", 1) for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")}
)
"""Operands that are axes."""


def random_inputs(model: bytes | onnx.ModelProto, seed: int = 0) -> dict[str, Any]:
    """Return a value for each input of a model that has no default.

    The values depend only on the model and on `seed`.

    - Symbolic dimensions get small sizes; dimensions of one name get the same size.
    - Integers are 0 or 1, so that they are valid indices.
    - Shapes and axes are valid for the operator that uses them.

    Raises:
        ValueError: if the type or the shape of an input is not supported, or `model` is not an ONNX model.

    """
    try:
        graph = (onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model).graph
    except Exception as error:
        # protobuf's DecodeError has no type stubs.
        raise ValueError(f"not an ONNX model: {error}") from error
    rng = np.random.default_rng(seed)
    roles = {name: (node.op_type, index) for node in graph.node for index, name in enumerate(node.input)}
    defaults = {tensor.name for tensor in graph.initializer}
    sizes: dict[str, int] = {}
    return {
        info.name: _value(info.name, info.type, rng, sizes, roles.get(info.name, ("", 0)))
        for info in graph.input
        if info.name not in defaults
    }


def _value(
    name: str, tp: onnx.TypeProto, rng: np.random.Generator, sizes: dict[str, int], role: tuple[str, int]
) -> Any:
    kind = tp.WhichOneof("value")
    if kind == "tensor_type" and tp.tensor_type.elem_type:
        shape = [dim.dim_value for dim in tp.tensor_type.shape.dim]
        if min(shape, default=0) < 0 or prod(filter(None, shape)) > MAX_ELEMENTS:
            raise ValueError(f"input {name!r} has the shape {shape}, expected at most {MAX_ELEMENTS:,} elements")
        return _tensor(tp.tensor_type, rng, sizes, role)
    if kind == "sequence_type":
        return [_value(name, tp.sequence_type.elem_type, rng, sizes, role) for _ in range(2)]
    if kind == "optional_type":
        return _value(name, tp.optional_type.elem_type, rng, sizes, role)
    raise ValueError(f"cannot create a random value for input {name!r} of type {kind or 'unknown'}")


def _tensor(tp: Any, rng: np.random.Generator, sizes: dict[str, int], role: Role) -> Any:
    shape = tuple(_size(dim, sizes) for dim in tp.shape.dim) if tp.HasField("shape") else (2,)
    if tp.elem_type == onnx.TensorProto.STRING:
        return rng.choice(np.array(WORDS, dtype=object), shape)
    dtype = tensor_dtype_to_np_dtype(tp.elem_type)
    if dtype == np.bool_:
        # The condition of a Loop must be true, otherwise its body would not run.
        return np.ones(shape, dtype) if role == ("Loop", 1) else rng.integers(0, 2, shape).astype(dtype)
    if tp.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
        return _integers(shape, rng, role).astype(dtype)
    if dtype.kind in "iu":
        return rng.integers(0, 10, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _integers(shape: tuple[int, ...], rng: np.random.Generator, role: Role) -> Any:
    if role in _SHAPE_INPUTS:
        # The K of TopK must not exceed the size of the axis, which may be 1.
        return np.full(shape, 1 if role[0] == "TopK" else 2)
    if role in _AXES_INPUTS:
        return np.arange(int(np.prod(shape))).reshape(shape)
    if role == ("Reshape", 1):
        # -1, 1, 1, ... is a valid shape for any number of elements.
        return np.array([-1] + [1] * (int(np.prod(shape)) - 1))
    return rng.integers(0, 2, shape)


def _size(dim: Any, sizes: dict[str, int]) -> int:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return sizes.setdefault(dim.dim_param, SYMBOLIC_SIZES[len(sizes) % len(SYMBOLIC_SIZES)]) if dim.dim_param else 2
