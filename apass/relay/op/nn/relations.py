"""Checks that the type relations of neural network operators share."""

from collections.abc import Iterable, Sequence

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.op.define.dims import axis_of, dims_differ, shape_text
from apass.relay.op.define.layout import Layout, convert_shape, parse_layout
from apass.relay.op.define.relations import tensor_of

__all__ = [
    "axis_in",
    "broadcast_along",
    "layout_like",
    "must_be",
    "must_divide",
    "must_fit",
    "out_type",
    "shape_in_layout",
    "tensors",
    "with_rank",
]


def tensors(op: str, types: Sequence[Type]) -> list[TensorType | None]:
    """Return the types of the arguments and of the result; None for an unknown one.

    Raises:
        TypeInferenceError: if an argument is known and is not a tensor.

    """
    *arguments, result = types
    known = [tensor_of(op, f"argument {index}", ty) for index, ty in enumerate(arguments)]
    return [*known, result if isinstance(result, TensorType) else None]


def with_rank(op: str, operand: str, ty: TensorType, rank: int) -> TensorType:
    """Return the type of an operand that must have `rank` dimensions.

    Raises:
        TypeInferenceError: if it has another number of dimensions.

    """
    if len(ty.shape) != rank:
        raise TypeInferenceError(f"{op}: {operand} must have {rank} dimensions, got {ty}")
    return ty


def axis_in(op: str, ty: TensorType, axis: int) -> int:
    """Return an axis of a tensor counted from 0; a negative axis counts from the end.

    Raises:
        TypeInferenceError: if the axis is out of range.

    """
    try:
        return axis_of(len(ty.shape), axis)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {ty}: {error}") from error


def must_fit(op: str, operand: str, actual: TensorType | None, expected: TensorType) -> TensorType:
    """Return the type of an operand, whose shape must be the expected one.

    Symbolic dimensions of one type are replaced by those of the other. The element type is that of the operand, if it
    is known.

    Raises:
        TypeInferenceError: if the shapes differ.

    """
    if actual is None:
        return expected
    if len(actual.shape) != len(expected.shape) or any(map(dims_differ, actual.shape, expected.shape)):
        raise TypeInferenceError(f"{op}: {operand} must have the shape {shape_text(expected.shape)}, got {actual}")
    pairs = zip(actual.shape, expected.shape, strict=True)
    return TensorType([b if isinstance(b, int) else a for a, b in pairs], actual.dtype)


def must_be(op: str, operand: str, actual: TensorType | None, expected: TensorType) -> TensorType:
    """Return the type of an operand as `must_fit` does; its element type must fit too.

    Raises:
        TypeInferenceError: if the shapes or the element types differ.

    """
    if actual is not None and actual.dtype != expected.dtype:
        raise TypeInferenceError(
            f"{op}: {operand} must have the element type of the data, {expected.dtype}, got {actual}; cast it"
        )
    return must_fit(op, operand, actual, expected)


def broadcast_along(vector: Array, rank: int, axis: int) -> Array:
    """Return a vector reshaped to broadcast along an axis of a tensor."""
    return vector.reshape([-1 if dim == axis % rank else 1 for dim in range(rank)])


def must_divide(op: str, quantity: str, dim: Dim, by: int) -> None:
    """Raise TypeInferenceError if `dim` is a number that `by` does not divide."""
    if by < 1 or (isinstance(dim, int) and dim % by):
        raise TypeInferenceError(f"{op}: {quantity} must be a multiple of {by}, got {dim}")


def layout_like(op: str, attribute: str, text: str, like: Layout) -> Layout:
    """Return the layout that an attribute contains.

    Raises:
        TypeInferenceError: if the text is not a layout, or has other axes than `like`.

    """
    try:
        layout = parse_layout(text)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {attribute}: {error}") from error
    if not layout.converts_to(like):
        raise TypeInferenceError(
            f"{op}: {attribute} must have the axes of {like}, got {text}; reorder or split the axes of {like}"
        )
    return layout


def shape_in_layout(op: str, operand: str, shape: tuple[Dim, ...], src: Layout, dst: Layout) -> tuple[Dim, ...]:
    """Return a shape converted to another layout.

    Raises:
        TypeInferenceError: if it has another rank than `src`, or the size of a block does not divide an axis.

    """
    try:
        return convert_shape(shape, src, dst)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {operand} of shape {shape_text(shape)}: {error}") from error


def out_type(shape: Iterable[Dim], out_dtype: str, data: TensorType) -> TensorType:
    """Return the type of a result; an empty `out_dtype` means that of the data."""
    return TensorType(shape, out_dtype or data.dtype)
