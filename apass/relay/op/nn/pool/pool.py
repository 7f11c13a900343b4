"""Pooling with sliding windows: nn.max_pool and nn.avg_pool, 1d to 3d."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.pool.kernel import Slide, average_windows, max_windows
from apass.relay.op.nn.relations import layout_like, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS, both_sides, check_windows, ints, padding_of, spans, window_count

__all__ = [
    "AvgPool1DAttrs",
    "AvgPool2DAttrs",
    "AvgPool3DAttrs",
    "MaxPool1DAttrs",
    "MaxPool2DAttrs",
    "MaxPool3DAttrs",
    "PoolAttrs",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pooled_type",
    "slides_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAttrs(Attrs):
    """The attributes that pooling with windows shares."""

    pool_size: tuple[int, ...]
    """The size of the window."""
    strides: tuple[int, ...]
    """The distance between windows."""
    dilation: tuple[int, ...]
    """The distance between the elements of a window."""
    padding: tuple[int, ...]
    """The padding before each spatial dimension, then after each; one number each for both sides."""
    layout: str
    """The layout of the data."""
    out_layout: str = ""
    """The layout of the result; empty for that of the data."""
    ceil_mode: bool = False
    """Whether a last window that extends beyond the padding is included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool1DAttrs(PoolAttrs):
    """The attributes of nn.max_pool1d."""

    strides: tuple[int, ...] = (1,)
    """The distance between windows."""
    dilation: tuple[int, ...] = (1,)
    """The distance between the elements of a window."""
    padding: tuple[int, ...] = (0,)
    """The padding on the left and on the right."""
    layout: str = "NCW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool2DAttrs(PoolAttrs):
    """The attributes of nn.max_pool2d."""

    strides: tuple[int, ...] = (1, 1)
    """The distance between windows."""
    dilation: tuple[int, ...] = (1, 1)
    """The distance between the elements of a window."""
    padding: tuple[int, ...] = (0, 0)
    """The padding at the top, left, bottom, right."""
    layout: str = "NCHW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPool3DAttrs(PoolAttrs):
    """The attributes of nn.max_pool3d."""

    strides: tuple[int, ...] = (1, 1, 1)
    """The distance between windows."""
    dilation: tuple[int, ...] = (1, 1, 1)
    """The distance between the elements of a window."""
    padding: tuple[int, ...] = (0, 0, 0)
    """The padding at the front, top, left, back, bottom, right."""
    layout: str = "NCDHW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool1DAttrs(MaxPool1DAttrs):
    """The attributes of nn.avg_pool1d."""

    count_include_pad: bool = False
    """Whether padding counts as zeros in the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool2DAttrs(MaxPool2DAttrs):
    """The attributes of nn.avg_pool2d."""

    count_include_pad: bool = False
    """Whether padding counts as zeros in the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvgPool3DAttrs(MaxPool3DAttrs):
    """The attributes of nn.avg_pool3d."""

    count_include_pad: bool = False
    """Whether padding counts as zeros in the mean."""


def _define(name: str, attrs_type: type[PoolAttrs], rank: int, statistic: str) -> Op:
    def relation(types: Sequence[Type], attrs: PoolAttrs) -> Sequence[Type | None] | None:
        data, _ = tensors(name, types)
        return None if data is None else [None, pooled_type(name, rank, data, attrs)]

    return register_op(
        name,
        arguments=("data",),
        attrs_type=attrs_type,
        relation=relation,
        compute=_compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        level=2,
        description=f"The {statistic} of each window over {rank} spatial dimension{'s' if rank > 1 else ''}.",
    )


def pooled_type(op: str, rank: int, data: TensorType, attrs: PoolAttrs) -> TensorType:
    """Return the type of the result of pooling over `rank` spatial dimensions.

    Raises:
        TypeInferenceError: if the attributes do not fit the data.

    """
    check_windows(op, rank, attrs)
    plain = DATA_LAYOUTS[rank]
    src = layout_like(op, "layout", attrs.layout, plain)
    dst = layout_like(op, "out_layout", attrs.out_layout or attrs.layout, plain)
    batch, channels, *lengths = shape_in_layout(op, "the data", data.shape, src, plain)
    shape = (batch, channels, *_counts(op, lengths, attrs))
    return TensorType(shape_in_layout(op, "the result", shape, plain, dst), data.dtype)


def _counts(op: str, lengths: Sequence[Dim], attrs: PoolAttrs) -> list[Dim]:
    extents = spans(attrs.pool_size, attrs.dilation)
    sides = both_sides(attrs.padding, len(attrs.pool_size))
    axes = zip(lengths, extents, attrs.strides, sides, strict=True)
    return [window_count(op, *axis, ceil=attrs.ceil_mode) for axis in axes]


def slides_of(lengths: Sequence[int], attrs: PoolAttrs) -> list[Slide]:
    """Return the windows along each spatial dimension."""
    counts = [count for count in _counts("pooling", lengths, attrs) if isinstance(count, int)]
    sides = both_sides(attrs.padding, len(attrs.pool_size))
    axes = zip(attrs.pool_size, attrs.strides, attrs.dilation, sides, counts, strict=True)
    return [Slide(*axis) for axis in axes]


def _compute(attrs: PoolAttrs, data: Array) -> Array:
    plain, src = DATA_LAYOUTS[len(attrs.pool_size)], parse_layout(attrs.layout)
    images = convert_array(data, src, plain)
    slides = slides_of(images.shape[2:], attrs)
    if isinstance(attrs, AvgPool1DAttrs | AvgPool2DAttrs | AvgPool3DAttrs):
        out = average_windows(images, slides, include_pad=attrs.count_include_pad)
    else:
        out = max_windows(images, slides)
    return convert_array(out, plain, parse_layout(attrs.out_layout) if attrs.out_layout else src)


_MAX_POOL1D = _define("nn.max_pool1d", MaxPool1DAttrs, 1, "maximum")
_MAX_POOL2D = _define("nn.max_pool2d", MaxPool2DAttrs, 2, "maximum")
_MAX_POOL3D = _define("nn.max_pool3d", MaxPool3DAttrs, 3, "maximum")
_AVG_POOL1D = _define("nn.avg_pool1d", AvgPool1DAttrs, 1, "mean")
_AVG_POOL2D = _define("nn.avg_pool2d", AvgPool2DAttrs, 2, "mean")
_AVG_POOL3D = _define("nn.avg_pool3d", AvgPool3DAttrs, 3, "mean")


@dataclass(frozen=True, slots=True)
class _Window:
    """The parameters of a window: one number for all dimensions, or one for each."""

    size: int | Iterable[int]
    strides: int | Iterable[int]
    dilation: int | Iterable[int]
    padding: int | Iterable[int]

    def attrs(self, attrs_type: type[PoolAttrs], rank: int, layout: str, out_layout: str, **flags: bool) -> PoolAttrs:
        return attrs_type(
            pool_size=ints(self.size, rank),
            strides=ints(self.strides, rank),
            dilation=ints(self.dilation, rank),
            padding=padding_of(self.padding, rank),
            layout=layout,
            out_layout=out_layout,
            **flags,
        )


def max_pool1d(
    data: Expr,
    pool_size: int | Iterable[int] = (1,),
    strides: int | Iterable[int] = (1,),
    dilation: int | Iterable[int] = (1,),
    padding: int | Iterable[int] = (0,),
    layout: str = "NCW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the maximum of each window over a sequence; see `max_pool2d`."""
    window = _Window(pool_size, strides, dilation, padding)
    attrs = window.attrs(MaxPool1DAttrs, 1, layout, out_layout, ceil_mode=ceil_mode)
    return Call(_MAX_POOL1D, (data,), attrs)


def max_pool2d(
    data: Expr,
    pool_size: int | Iterable[int] = (1, 1),
    strides: int | Iterable[int] = (1, 1),
    dilation: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the maximum of each window over images.

    `padding` is one number for all sides, two for top and bottom, left and right, or four for top, left, bottom, right.
    It is ignored by the maximum. With `ceil_mode`, a last window that extends beyond the padding is included.

    Raises:
        ValueError: if `padding` has another number of sides than 1, 2 or 4.

    """
    window = _Window(pool_size, strides, dilation, padding)
    attrs = window.attrs(MaxPool2DAttrs, 2, layout, out_layout, ceil_mode=ceil_mode)
    return Call(_MAX_POOL2D, (data,), attrs)


def max_pool3d(
    data: Expr,
    pool_size: int | Iterable[int] = (1, 1, 1),
    strides: int | Iterable[int] = (1, 1, 1),
    dilation: int | Iterable[int] = (1, 1, 1),
    padding: int | Iterable[int] = (0, 0, 0),
    layout: str = "NCDHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """Return the maximum of each window over volumes; see `max_pool2d`."""
    window = _Window(pool_size, strides, dilation, padding)
    attrs = window.attrs(MaxPool3DAttrs, 3, layout, out_layout, ceil_mode=ceil_mode)
    return Call(_MAX_POOL3D, (data,), attrs)


def avg_pool1d(
    data: Expr,
    pool_size: int | Iterable[int] = (1,),
    strides: int | Iterable[int] = (1,),
    dilation: int | Iterable[int] = (1,),
    padding: int | Iterable[int] = (0,),
    layout: str = "NCW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the mean of each window over a sequence; see `avg_pool2d`."""
    window = _Window(pool_size, strides, dilation, padding)
    attrs = window.attrs(
        AvgPool1DAttrs, 1, layout, out_layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad
    )
    return Call(_AVG_POOL1D, (data,), attrs)


def avg_pool2d(
    data: Expr,
    pool_size: int | Iterable[int] = (1, 1),
    strides: int | Iterable[int] = (1, 1),
    dilation: int | Iterable[int] = (1, 1),
    padding: int | Iterable[int] = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the mean of each window over images.

    The parameters are those of `max_pool2d`. With `count_include_pad`, padding counts as zeros. Elements beyond the
    padding, which exist with `ceil_mode`, never count.
    """
    window = _Window(pool_size, strides, dilation, padding)
    attrs = window.attrs(
        AvgPool2DAttrs, 2, layout, out_layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad
    )
    return Call(_AVG_POOL2D, (data,), attrs)


def avg_pool3d(
    data: Expr,
    pool_size: int | Iterable[int] = (1, 1, 1),
    strides: int | Iterable[int] = (1, 1, 1),
    dilation: int | Iterable[int] = (1, 1, 1),
    padding: int | Iterable[int] = (0, 0, 0),
    layout: str = "NCDHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """Return the mean of each window over volumes; see `avg_pool2d`."""
    window = _Window(pool_size, strides, dilation, padding)
    attrs = window.attrs(
        AvgPool3DAttrs, 3, layout, out_layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad
    )
    return Call(_AVG_POOL3D, (data,), attrs)
