"""Slices of tensors: strided_slice, strided_set, slice_like."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import Call, Expr, const
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType
from apass.relay.op.define.arguments import Ints, computed_expr, static_ints
from apass.relay.op.define.attrs import always_printed
from apass.relay.op.define.dims import axis_of, ints, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, one_dtype

__all__ = ["SliceLikeAttrs", "StridedSliceAttrs", "slice_like", "slices_of", "strided_set", "strided_slice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StridedSliceAttrs(Attrs):
    """The attributes of strided_slice."""

    begin: tuple[int, ...]
    """The first index of each slice; negative numbers are counted from the end."""
    end: tuple[int, ...]
    """The end of each slice, exclusive; its size if `slice_mode` is `size`."""
    strides: tuple[int, ...] = always_printed((1,))
    """The step of each slice; missing numbers are 1."""
    slice_mode: str = "end"
    """The meaning of `end`: `end`, or `size`. A size of -1 is the rest of the axis, and strides are ignored."""
    axes: tuple[int, ...] | None = always_printed(None)
    """The axes that are sliced; None for the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLikeAttrs(Attrs):
    """The attributes of slice_like."""

    axes: tuple[int, ...] | None = always_printed(None)
    """The axes that are shortened to the size in the other tensor; None for all."""


def slices_of(begin: Sequence[int], end: Sequence[int], strides: Sequence[int], slice_mode: str) -> list[slice]:
    """Return Python slices of the first axes; a missing bound leaves a slice open.

    Raises:
        ValueError: if a stride is 0, or `slice_mode` is neither `end` nor `size`.

    """
    if 0 in strides or slice_mode not in ("end", "size"):
        raise ValueError(
            f"strides must not be 0 and slice_mode must be end or size, got {shape_text(strides)} and {slice_mode!r}"
        )
    count = max(len(begin), len(end))
    bounds = list(zip_longest(begin, end, strides))[:count]
    if slice_mode == "size":
        return [_sized(first or 0, -1 if size is None else size) for first, size, _ in bounds]
    return [slice(first, last, 1 if stride is None else stride) for first, last, stride in bounds]


def _sized(begin: int, size: int) -> slice:
    # A slice that begins at a negative index and reaches the end of the axis has no integer end: 0 is the start.
    to_end = size < 0 or begin < 0 <= begin + size
    return slice(begin, None if to_end else begin + size, 1)


def _slices(rank: int, attrs: StridedSliceAttrs) -> dict[int, slice]:
    """Return the slice of each sliced axis.

    Raises:
        ValueError: if the numbers of bounds do not fit the axes, or there are more than dimensions.

    """
    slices = slices_of(attrs.begin, attrs.end, attrs.strides, attrs.slice_mode)
    axes = range(len(slices)) if attrs.axes is None else [axis_of(rank, axis) for axis in attrs.axes]
    uneven = attrs.axes is not None and {len(attrs.begin), len(attrs.end)} != {len(axes)}
    if uneven or len(axes) > rank:
        bounds = f"begin {shape_text(attrs.begin)}, end {shape_text(attrs.end)} and axes {shape_text(axes)}"
        raise ValueError(f"{bounds} must have the same length, at most {rank}, the number of dimensions")
    return dict(zip(axes, slices, strict=True))


def _length(dim: Dim, bounds: slice) -> Dim:
    return len(range(*bounds.indices(dim))) if isinstance(dim, int) else Any()


def _relate_slice(data: TensorType, attrs: StridedSliceAttrs) -> TensorType:
    slices = _slices(len(data.shape), attrs)
    shape = [_length(dim, slices[axis]) if axis in slices else dim for axis, dim in enumerate(data.shape)]
    return TensorType(shape, data.dtype)


def _strided_slice(attrs: StridedSliceAttrs, data: Array) -> Array:
    slices = _slices(data.ndim, attrs)
    return data[tuple(slices.get(axis, slice(None)) for axis in range(data.ndim))]


def _relate_set(
    data: TensorType, v: TensorType, begin: TensorType, end: TensorType, strides: TensorType, attrs: None
) -> TensorType:
    one_dtype(data, v)
    bounds = (begin, end, strides)
    if any(len(bound.shape) != 1 for bound in bounds) or len(v.shape) != len(data.shape):
        types = ", ".join(map(str, (v, *bounds)))
        raise ValueError(
            f"v must have the {len(data.shape)} dimensions of the data, and begin, end and strides one, got {types}"
        )
    return data


def _strided_set(data: Array, v: Array, begin: Array, end: Array, strides: Array) -> Array:
    result = data.copy()
    result[tuple(slices_of(begin.tolist(), end.tolist(), strides.tolist(), "end"))] = v
    return result


def _shorter(data: Sequence[Dim], like: Sequence[Dim], attrs: SliceLikeAttrs) -> tuple[Dim, ...]:
    # Without axes, a tensor of lower rank shortens the first ones.
    axes = range(min(len(data), len(like))) if attrs.axes is None else [axis_of(len(data), axis) for axis in attrs.axes]
    if any(axis >= len(like) for axis in axes):
        raise ValueError(f"{shape_text(like)} has no axes {shape_text(axes)} to shorten {shape_text(data)} to")
    shape = tuple(like[axis] if axis in axes else dim for axis, dim in enumerate(data))
    if any(isinstance(a, int) and isinstance(b, int) and a > b for a, b in zip(shape, data, strict=True)):
        raise ValueError(f"{shape_text(data)} is shorter than {shape_text(shape)}; slice_like cannot lengthen an axis")
    return shape


def _relate_like(data: TensorType, shape_like: TensorType, attrs: SliceLikeAttrs) -> TensorType:
    return TensorType(_shorter(data.shape, shape_like.shape, attrs), data.dtype)


def _slice_like(attrs: SliceLikeAttrs, data: Array, shape_like: Array) -> Array:
    shape = _shorter(data.shape, shape_like.shape, attrs)
    return data[tuple(slice(dim) for dim in shape if isinstance(dim, int))]


_STRIDED_SLICE = register_op(
    "strided_slice",
    arguments=("data",),
    attrs_type=StridedSliceAttrs,
    relation=forward("strided_slice", ("data",), _relate_slice),
    compute=_strided_slice,
    pattern=OpPattern.INJECTIVE,
    level=4,
    description="The elements between two bounds of each axis.",
)
_SET_ARGUMENTS = ("data", "v", "begin", "end", "strides")
_STRIDED_SET = register_op(
    "strided_set",
    arguments=_SET_ARGUMENTS,
    relation=forward("strided_set", _SET_ARGUMENTS, _relate_set),
    compute=_strided_set,
    pattern=OpPattern.INJECTIVE,
    level=4,
    description="The tensor with the elements between two bounds of each axis replaced.",
)
_SLICE_LIKE = register_op(
    "slice_like",
    arguments=("data", "shape_like"),
    attrs_type=SliceLikeAttrs,
    relation=forward("slice_like", ("data", "shape_like"), _relate_like),
    compute=_slice_like,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The first elements along axes, as many as in another tensor.",
)


def strided_slice(
    data: Expr,
    begin: Ints,
    end: Ints,
    strides: Ints | None = None,
    axes: Iterable[int] | None = None,
    slice_mode: str = "end",
) -> Call:
    """Return the elements from `begin` to before `end` of each axis, `strides` apart.

    Bounds have the meaning of a Python slice: negative ones are counted from the end, and those out of range are
    clipped. `axes` names the sliced axes. Without it, the first axes are sliced. With `slice_mode="size"`, `end` holds
    sizes, where -1 is the rest of the axis, and strides are ignored.

    Bounds may also be expressions that are not constants. The type of the result then does not contain its sizes, and
    `axes` cannot be set.

    Raises:
        TypeError: if `axes` is set and a bound is such an expression.

    """
    bounds = (begin, end, (1,) if strides is None else strides)
    if axes is None and any(map(computed_expr, bounds)):
        return call_op("dyn.strided_slice", data, *map(_as_expr, bounds), slice_mode=slice_mode)
    attrs = StridedSliceAttrs(
        begin=static_ints("strided_slice", "begin", begin),
        end=static_ints("strided_slice", "end", end),
        strides=(1,) if strides is None else static_ints("strided_slice", "strides", strides),
        slice_mode=slice_mode,
        axes=None if axes is None else static_ints("strided_slice", "axes", axes),
    )
    return Call(_STRIDED_SLICE, (data,), attrs)


def _as_expr(value: Ints) -> Expr:
    return value if isinstance(value, Expr) else const(list(ints(value)), "int64")


def strided_set(
    data: Expr,
    v: Expr,
    begin: Expr | Iterable[int],
    end: Expr | Iterable[int],
    strides: Expr | Iterable[int] | None = None,
) -> Call:
    """Return the tensor with the elements from `begin` to `end` replaced by `v`.

    On each axis, `end` is exclusive and the elements are `strides` apart.
    """
    values = (begin, end, strides or (1,))
    bounds = [value if isinstance(value, Expr) else const(list(value), "int32") for value in values]
    return Call(_STRIDED_SET, (data, v, *bounds))


def slice_like(data: Expr, shape_like: Expr, axes: Iterable[int] | None = None) -> Call:
    """Return the first elements along `axes`, as many as the other tensor has.

    If `axes` is None, this applies to all axes.
    """
    chosen = None if axes is None else static_ints("slice_like", "axes", axes)
    return Call(_SLICE_LIKE, (data, shape_like), SliceLikeAttrs(axes=chosen))
