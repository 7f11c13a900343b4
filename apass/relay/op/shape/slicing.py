"""Parts of a tensor between places along its axes: strided_slice, strided_set, slice_like."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.ndarray import Array
from apass.relay.make import const
from apass.relay.op.define.arguments import Ints, computed, static_ints
from apass.relay.op.define.attrs import shown
from apass.relay.op.define.dims import axis_of, ints, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, one_dtype
from apass.relay.ty import Any, Dim, TensorType

__all__ = ["SliceLikeAttrs", "StridedSliceAttrs", "slice_like", "slices_of", "strided_set", "strided_slice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StridedSliceAttrs(Attrs):
    """The attributes of strided_slice."""

    begin: tuple[int, ...]
    """Where each slice begins; negative places are counted from the end."""
    end: tuple[int, ...]
    """The place before which each slice ends; its size if `slice_mode` is `size`."""
    strides: tuple[int, ...] = shown((1,))
    """The distance between the elements that are taken; 1 where fewer are given than places."""
    slice_mode: str = "end"
    """What `end` means: `end`, or `size`, where -1 is all the rest and strides do not count."""
    axes: tuple[int, ...] | None = shown(None)
    """The axes that are sliced; None for the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLikeAttrs(Attrs):
    """The attributes of slice_like."""

    axes: tuple[int, ...] | None = shown(None)
    """The axes that are cut to the size of the other tensor's; None for all."""


def slices_of(begin: Sequence[int], end: Sequence[int], strides: Sequence[int], slice_mode: str) -> list[slice]:
    """Return the slices of the first axes, in Python's sense; where places are missing, a slice is open.

    Raises:
        ValueError: if a stride is 0, or the mode is neither `end` nor `size`.

    """
    if 0 in strides or slice_mode not in ("end", "size"):
        raise ValueError(f"strides {shape_text(strides)} must not be 0, and slice_mode {slice_mode!r} be end or size")
    count = max(len(begin), len(end))
    places = list(zip_longest(begin, end, strides))[:count]
    if slice_mode == "size":
        return [_sized(first or 0, -1 if size is None else size) for first, size, _ in places]
    return [slice(first, last, 1 if stride is None else stride) for first, last, stride in places]


def _sized(begin: int, size: int) -> slice:
    # A slice that begins at a negative place and reaches the end has no number for its end.
    to_end = size < 0 or begin < 0 <= begin + size
    return slice(begin, None if to_end else begin + size, 1)


def _slices(rank: int, attrs: StridedSliceAttrs) -> dict[int, slice]:
    """Return the slice of each axis that is sliced.

    Raises:
        ValueError: if there are more places than axes, or other than as many as `axes` says.

    """
    slices = slices_of(attrs.begin, attrs.end, attrs.strides, attrs.slice_mode)
    axes = range(len(slices)) if attrs.axes is None else [axis_of(rank, axis) for axis in attrs.axes]
    uneven = attrs.axes is not None and {len(attrs.begin), len(attrs.end)} != {len(axes)}
    if uneven or len(axes) > rank:
        places = f"begin {shape_text(attrs.begin)}, end {shape_text(attrs.end)}, axes {shape_text(axes)}"
        raise ValueError(f"{places} do not fit {rank} dimensions; give as many of each, at most one for a dimension")
    return dict(zip(axes, slices, strict=True))


def _length(dim: Dim, places: slice) -> Dim:
    return len(range(*places.indices(dim))) if isinstance(dim, int) else Any()


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
    places = (begin, end, strides)
    if any(len(one.shape) != 1 for one in places) or len(v.shape) != len(data.shape):
        given = ", ".join(map(str, (v, *places)))
        raise ValueError(
            f"v must have the {len(data.shape)} dimensions of the data, and the places one, but are {given}"
        )
    return data


def _strided_set(data: Array, v: Array, begin: Array, end: Array, strides: Array) -> Array:
    made = data.copy()
    made[tuple(slices_of(begin.tolist(), end.tolist(), strides.tolist(), "end"))] = v
    return made


def _shorter(data: Sequence[Dim], like: Sequence[Dim], attrs: SliceLikeAttrs) -> tuple[Dim, ...]:
    axes = range(len(data)) if attrs.axes is None else [axis_of(len(data), axis) for axis in attrs.axes]
    if any(axis >= len(like) for axis in axes):
        raise ValueError(f"{shape_text(data)} cannot be cut along the axes {shape_text(axes)} like {shape_text(like)}")
    shape = tuple(like[axis] if axis in axes else dim for axis, dim in enumerate(data))
    if any(isinstance(a, int) and isinstance(b, int) and a > b for a, b in zip(shape, data, strict=True)):
        raise ValueError(f"{shape_text(data)} has not enough elements to be cut to {shape_text(shape)}")
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
    description="The elements between two places of each axis.",
)
_SET_ARGUMENTS = ("data", "v", "begin", "end", "strides")
_STRIDED_SET = register_op(
    "strided_set",
    arguments=_SET_ARGUMENTS,
    relation=forward("strided_set", _SET_ARGUMENTS, _relate_set),
    compute=_strided_set,
    pattern=OpPattern.INJECTIVE,
    level=4,
    description="The tensor with the elements between two places of each axis replaced.",
)
_SLICE_LIKE = register_op(
    "slice_like",
    arguments=("data", "shape_like"),
    attrs_type=SliceLikeAttrs,
    relation=forward("slice_like", ("data", "shape_like"), _relate_like),
    compute=_slice_like,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="The first elements along axes, as many as another tensor has.",
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

    Places mean what they mean in a slice of Python's: negative ones are counted from the end, and those beyond are
    moved to it. Where places are missing, for the last axes, slices are open, unless `axes` says which are sliced. With
    `slice_mode="size"`, `end` holds sizes, -1 for all the rest, and strides do not count.

    Places may also be expressions: then they are not part of the type, and `axes` cannot be given.

    Raises:
        TypeError: if `axes` is given along with such an expression.

    """
    places = (begin, end, (1,) if strides is None else strides)
    if axes is None and any(map(computed, places)):
        return call_op("dyn.strided_slice", data, *map(_as_expr, places), slice_mode=slice_mode)
    attrs = StridedSliceAttrs(
        begin=static_ints("strided_slice", "begin", begin),
        end=static_ints("strided_slice", "end", end),
        strides=(1,) if strides is None else static_ints("strided_slice", "strides", strides),
        slice_mode=slice_mode,
        axes=None if axes is None else static_ints("strided_slice", "axes", axes),
    )
    return Call(_STRIDED_SLICE, (data,), attrs)


def _as_expr(places: Ints) -> Expr:
    return places if isinstance(places, Expr) else const(list(ints(places)), "int64")


def strided_set(
    data: Expr,
    v: Expr,
    begin: Expr | Iterable[int],
    end: Expr | Iterable[int],
    strides: Expr | Iterable[int] | None = None,
) -> Call:
    """Return the tensor with `v` for the elements from `begin` to before `end`, `strides` apart, of each axis."""
    places = [one if isinstance(one, Expr) else const(list(one), "int32") for one in (begin, end, strides or (1,))]
    return Call(_STRIDED_SET, (data, v, *places))


def slice_like(data: Expr, shape_like: Expr, axes: Iterable[int] | None = None) -> Call:
    """Return the first elements along `axes`, as many as the other tensor has along them; all axes for None."""
    chosen = None if axes is None else static_ints("slice_like", "axes", axes)
    return Call(_SLICE_LIKE, (data, shape_like), SliceLikeAttrs(axes=chosen))
