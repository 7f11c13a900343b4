"""Random inputs of a model, for the types of the inputs and their operators."""

from collections.abc import Mapping, Sequence
from itertools import islice
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx
from onnx.helper import tensor_dtype_to_np_dtype

from apass.adapters.onnx.outputs.input_sizes import candidate_sizes, dim_label

__all__ = ["declared_inputs", "parsed", "random_inputs", "random_values"]

Role = tuple[str, int]
"""The operator that uses an input, and the index of the operand."""

WORDS: Final = ("", "a", "Monday", "pass", "ß", "two words")
"""The values of random strings, if the model has no strings itself, such as the labels of an encoder."""

MAX_WORDS: Final = 64
"""Maximum number of the model's own strings that are drawn."""

MAX_ELEMENTS: Final = 2**28
"""Maximum number of elements of a random tensor. Models can declare inputs of any size."""

_SHAPE_INPUTS: Final = frozenset({("ConstantOfShape", 0), ("Expand", 1), ("Tile", 1), ("Loop", 0), ("TopK", 1)})
"""Operands that determine a size, such as a shape or a number of iterations."""

_AXES_INPUTS: Final = frozenset(
    {("Squeeze", 1), ("Unsqueeze", 1), ("Slice", 3), ("CumSum", 1)}
    | {(f"Reduce{name}", 1) for name in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum")}
)
"""Operands that are axes."""


_NO_SHAPES: Final[Mapping[str, Sequence[int]]] = MappingProxyType({})


def random_inputs(
    model: bytes | onnx.ModelProto, seed: int = 0, shapes: Mapping[str, Sequence[int]] = _NO_SHAPES
) -> dict[str, Any]:
    """Return a value for each input of a model that has no default.

    The values depend only on the model, the shapes and `seed`.

    - Dynamic dimensions get small sizes; dimensions of one name get the same size.
    - Integers are 0 or 1, so that they are valid indices.
    - Shapes and axes are valid for the operator that uses them.

    Parameters:
        model: the model.
        seed: seed of the values.
        shapes: the shapes of inputs by name, in place of the declared ones.

    Raises:
        ValueError: if the type or the shape of an input is not supported, or `model` is not an ONNX model.

    """
    proto = parsed(model)
    infos = declared_inputs(proto, shapes)
    return random_values(proto, infos, next(candidate_sizes(proto, infos)), seed)


def parsed(model: bytes | onnx.ModelProto) -> onnx.ModelProto:
    """Return the message of a model.

    Raises:
        ValueError: if the bytes are not an ONNX model.

    """
    try:
        return onnx.ModelProto.FromString(model) if isinstance(model, bytes) else model
    except Exception as error:
        # protobuf's DecodeError has no type stubs.
        raise ValueError(f"not an ONNX model: {error}") from error


def declared_inputs(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]] = _NO_SHAPES
) -> list[onnx.ValueInfoProto]:
    """Return the inputs without a default; `shapes` replace the declared ones.

    Raises:
        ValueError: if a shape is given for another name, or has another rank than declared.

    """
    defaults = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in defaults]
    unknown = shapes.keys() - {info.name for info in infos}
    if unknown:
        names = ", ".join(repr(info.name) for info in infos) or "none"
        raise ValueError(f"a shape is given for {min(unknown)!r}, which is no input of the model; its inputs: {names}")
    return [_with_shape(info, shapes[info.name]) if info.name in shapes else info for info in infos]


def _with_shape(info: onnx.ValueInfoProto, shape: Sequence[int]) -> onnx.ValueInfoProto:
    result = onnx.ValueInfoProto()
    result.CopyFrom(info)
    tensor = result.type.tensor_type
    if tensor.HasField("shape") and len(tensor.shape.dim) != len(shape):
        rank = len(tensor.shape.dim)
        raise ValueError(f"the shape {list(shape)} is given for input {info.name!r}, expected {rank} dimensions")
    tensor.shape.ClearField("dim")
    for size in shape:
        tensor.shape.dim.add(dim_value=size)
    return result


def random_values(
    model: onnx.ModelProto,
    infos: Sequence[onnx.ValueInfoProto],
    sizes: Mapping[str, int],
    seed: int = 0,
    *,
    narrow: bool = False,
    limit: int = MAX_ELEMENTS,
) -> dict[str, Any]:
    """Return random values of inputs.

    Parameters:
        model: the model, whose operators decide how integers are chosen.
        infos: the inputs.
        sizes: the size of each dynamic dimension, by its label (`dim_label`).
        seed: seed of the values.
        narrow: whether integers of 8 and 16 bits are 0 or 1 too, as indices are.
        limit: maximum number of elements of an input.

    Raises:
        ValueError: if the type or the shape of an input is not supported.

    """
    rng = np.random.default_rng(seed)
    roles = {name: (node.op_type, index) for node in model.graph.node for index, name in enumerate(node.input)}
    draw = _Draw(rng, sizes, narrow, limit, _own_words(model) or WORDS)
    return {info.name: draw.value(info.name, info.type, roles.get(info.name, ("", 0))) for info in infos}


def _own_words(model: onnx.ModelProto) -> list[str]:
    """Return strings of the model: labels, keys, or the words of a dictionary."""
    found = (text for node in model.graph.node for attr in node.attribute for text in attr.strings)
    return list(dict.fromkeys(text.decode(errors="replace") for text in islice(found, MAX_WORDS)))


class _Draw:
    """Draws values of types."""

    def __init__(
        self, rng: np.random.Generator, sizes: Mapping[str, int], narrow: bool, limit: int, words: Sequence[str]
    ) -> None:
        self._rng = rng
        self._sizes = sizes
        self._end = 2 if narrow else 10
        self._limit = limit
        self._words = words

    def value(self, name: str, tp: onnx.TypeProto, role: Role) -> Any:
        """Return a value of a tensor, a sequence or an optional."""
        kind = tp.WhichOneof("value")
        if kind == "tensor_type" and tp.tensor_type.elem_type:
            return self._tensor(name, tp.tensor_type, role)
        if kind == "sequence_type":
            return [self.value(name, tp.sequence_type.elem_type, role) for _ in range(2)]
        if kind == "optional_type":
            return self.value(name, tp.optional_type.elem_type, role)
        raise ValueError(f"cannot create a random value for input {name!r} of type {kind or 'unknown'}")

    def _tensor(self, name: str, tp: Any, role: Role) -> Any:
        rng = self._rng
        shape: tuple[int, ...] = (2,)
        if tp.HasField("shape"):
            labels = [dim_label(name, axis, dim) for axis, dim in enumerate(tp.shape.dim)]
            # The inner types of sequences and optionals have dimensions that no candidate has.
            shape = tuple(
                dim.dim_value if label is None else self._sizes.get(label, 2)
                for label, dim in zip(labels, tp.shape.dim, strict=True)
            )
        if prod(filter(None, shape)) > self._limit:
            raise ValueError(f"input {name!r} has the shape {list(shape)}, expected at most {self._limit:,} elements")
        if tp.elem_type == onnx.TensorProto.STRING:
            return rng.choice(np.array(self._words, dtype=object), shape)
        dtype = tensor_dtype_to_np_dtype(tp.elem_type)
        if dtype == np.bool_:
            # The condition of a Loop must be true, otherwise its body would not run.
            return np.ones(shape, dtype) if role == ("Loop", 1) else rng.integers(0, 2, shape).astype(dtype)
        if tp.elem_type in (onnx.TensorProto.INT32, onnx.TensorProto.INT64):
            return _integers(shape, rng, role).astype(dtype)
        if dtype.kind in "iu":
            return rng.integers(0, self._end, shape).astype(dtype)
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
