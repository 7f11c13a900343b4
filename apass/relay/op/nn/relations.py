"""What the type relations of the neural network operators share: checks that speak."""

from collections.abc import Iterable, Sequence

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.dims import axis_of, clash, shape_text
from apass.relay.op.define.layout import Layout, convert_shape, parse_layout
from apass.relay.op.define.relations import tensor_of
from apass.relay.ty import Dim, TensorType, Type

__all__ = [
    "along",
    "axis_in",
    "layout_like",
    "must_be",
    "must_divide",
    "must_fit",
    "out_type",
    "relaid",
    "tensors",
    "with_rank",
]


def tensors(op: str, types: Sequence[Type]) -> list[TensorType | None]:
    """Return the types of the arguments and of the result, None in the place of one that is not known.

    Raises:
        TypeInferenceError: if an argument is known, but not to be a tensor.

    """
    *arguments, result = types
    known = [tensor_of(op, f"argument {place}", one) for place, one in enumerate(arguments)]
    return [*known, result if isinstance(result, TensorType) else None]


def with_rank(op: str, what: str, given: TensorType, rank: int) -> TensorType:
    """Return the type of an operand if it has so many dimensions.

    Raises:
        TypeInferenceError: if it has not.

    """
    if len(given.shape) != rank:
        raise TypeInferenceError(f"{op}: {what} must have {rank} dimensions, but it is a {given}")
    return given


def axis_in(op: str, given: TensorType, axis: int) -> int:
    """Return an axis of a tensor counted from 0, negative ones being counted from the end.

    Raises:
        TypeInferenceError: if there is no such axis.

    """
    try:
        return axis_of(len(given.shape), axis)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {given}: {error}") from error


def must_fit(op: str, what: str, given: TensorType | None, wanted: TensorType) -> TensorType:
    """Return the type of an operand: `wanted`, or what is given where that says more or has its own element type.

    Raises:
        TypeInferenceError: if the shape of what is given is not the wanted one.

    """
    if given is None:
        return wanted
    if len(given.shape) != len(wanted.shape) or any(map(clash, given.shape, wanted.shape)):
        shape = shape_text(wanted.shape)
        raise TypeInferenceError(f"{op}: {what} must have the shape {shape}, but it is a {given}")
    pairs = zip(given.shape, wanted.shape, strict=True)
    return TensorType([b if isinstance(b, int) else a for a, b in pairs], given.dtype)


def must_be(op: str, what: str, given: TensorType | None, wanted: TensorType) -> TensorType:
    """Return the type of an operand as `must_fit` does, but its element type is that which is wanted.

    Raises:
        TypeInferenceError: if the shape or the element type of what is given is not the wanted one.

    """
    if given is not None and given.dtype != wanted.dtype:
        raise TypeInferenceError(
            f"{op}: {what} must be of {wanted.dtype}, as the data is, but it is a {given}; cast it"
        )
    return must_fit(op, what, given, wanted)


def along(vector: Array, rank: int, axis: int) -> Array:
    """Return a vector shaped to be broadcast along an axis of a tensor of so many dimensions."""
    return vector.reshape([-1 if place == axis % rank else 1 for place in range(rank)])


def must_divide(op: str, what: str, dim: Dim, by: int) -> None:
    """Raise TypeInferenceError if `dim` is a number that `by` does not divide."""
    if by < 1 or (isinstance(dim, int) and dim % by):
        raise TypeInferenceError(f"{op}: {what} is {dim}, which {by} does not divide")


def layout_like(op: str, what: str, text: str, like: Layout) -> Layout:
    """Return the layout that an attribute names.

    Raises:
        TypeInferenceError: if it is not one, or has other axes than `like`.

    """
    try:
        layout = parse_layout(text)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {what}: {error}") from error
    if not layout.converts_to(like):
        raise TypeInferenceError(f"{op}: {what} {text} has other axes than {like}; reorder or split those of {like}")
    return layout


def relaid(op: str, what: str, shape: tuple[Dim, ...], src: Layout, dst: Layout) -> tuple[Dim, ...]:
    """Return a shape in another layout.

    Raises:
        TypeInferenceError: if it has not the rank of `src`, or the blocks of a layout do not divide it.

    """
    try:
        return convert_shape(shape, src, dst)
    except ValueError as error:
        raise TypeInferenceError(f"{op}: {what} of shape {shape_text(shape)}: {error}") from error


def out_type(shape: Iterable[Dim], out_dtype: str, data: TensorType) -> TensorType:
    """Return a result's type: the element type is `out_dtype`, that of the data if it is empty."""
    return TensorType(shape, out_dtype or data.dtype)
