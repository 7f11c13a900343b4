"""Pooling to a given size: nn.adaptive_max_pool and adaptive_avg_pool."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Dim, TensorType, Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.pool.kernel import averaged, summable
from apass.relay.op.nn.relations import layout_like, shape_in_layout, tensors
from apass.relay.op.nn.windows import DATA_LAYOUTS, ints

__all__ = [
    "AdaptivePool1DAttrs",
    "AdaptivePool2DAttrs",
    "AdaptivePool3DAttrs",
    "AdaptivePoolAttrs",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "bins_of",
    "sizes_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptivePoolAttrs(Attrs):
    """The attributes that adaptive pooling of all ranks shares."""

    output_size: tuple[int, ...] = ()
    """The spatial dimensions of the result: none to keep those of the data, one number for all of them."""
    layout: str
    """The layout of the data."""
    out_layout: str = ""
    """The layout of the result; empty for that of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptivePool1DAttrs(AdaptivePoolAttrs):
    """The attributes of adaptive pooling of sequences."""

    layout: str = "NCW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptivePool2DAttrs(AdaptivePoolAttrs):
    """The attributes of adaptive pooling of images."""

    layout: str = "NCHW"
    """The layout of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptivePool3DAttrs(AdaptivePoolAttrs):
    """The attributes of adaptive pooling of volumes."""

    layout: str = "NCDHW"
    """The layout of the data."""


def _define(name: str, attrs_type: type[AdaptivePoolAttrs], rank: int, compute: Compute, statistic: str) -> Op:
    def relation(types: Sequence[Type], attrs: AdaptivePoolAttrs) -> Sequence[Type | None] | None:
        data, _ = tensors(name, types)
        return None if data is None else [None, _pooled(name, rank, data, attrs)]

    return register_op(
        name,
        arguments=("data",),
        attrs_type=attrs_type,
        relation=relation,
        compute=compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        level=10,
        description=f"The {statistic} of each bin over {rank} spatial dimension{'s' * (rank > 1)}.",
    )


def _pooled(op: str, rank: int, data: TensorType, attrs: AdaptivePoolAttrs) -> TensorType:
    plain = DATA_LAYOUTS[rank]
    src = layout_like(op, "layout", attrs.layout, plain)
    dst = layout_like(op, "out_layout", attrs.out_layout or attrs.layout, plain)
    batch, channels, *lengths = shape_in_layout(op, "the data", data.shape, src, plain)
    if len(attrs.output_size) not in {0, 1, rank} or any(size < 1 for size in attrs.output_size):
        raise TypeInferenceError(
            f"{op}: output_size must be {rank} positive number{'s' * (rank > 1)}, got {attrs.output_size}"
        )
    shape = (batch, channels, *sizes_of(lengths, attrs))
    return TensorType(shape_in_layout(op, "the result", shape, plain, dst), data.dtype)


def sizes_of(lengths: Sequence[Dim], attrs: AdaptivePoolAttrs) -> Sequence[Dim]:
    """Return the spatial dimensions of the result for those of the data."""
    if not attrs.output_size:
        return lengths
    return attrs.output_size * (len(lengths) // len(attrs.output_size))


def bins_of(length: int, count: int) -> list[slice]:
    """Return the bins of a dimension. They cover it, and may overlap by one element."""
    return [slice(i * length // count, -(-(i + 1) * length // count)) for i in range(count)]


def _max(attrs: AdaptivePoolAttrs, data: Array) -> Array:
    out = _images(attrs, data)
    for axis, bins in _all_bins(attrs, out):
        out = _fold(np.maximum, out, axis, bins)
    return _in_out_layout(attrs, out)


def _avg(attrs: AdaptivePoolAttrs, data: Array) -> Array:
    images = _images(attrs, data)
    out = images.astype(summable(str(data.dtype)), copy=False)
    count: Array = np.ones((), "int64")
    for axis, bins in _all_bins(attrs, images):
        out = _fold(np.add, out, axis, bins)
        count = np.multiply.outer(count, np.array([part.stop - part.start for part in bins]))
    return _in_out_layout(attrs, averaged(out, count, str(data.dtype)))


def _images(attrs: AdaptivePoolAttrs, data: Array) -> Array:
    layout = parse_layout(attrs.layout)
    return convert_array(data, layout, DATA_LAYOUTS[len(layout.primal) - 2])


def _in_out_layout(attrs: AdaptivePoolAttrs, out: Array) -> Array:
    return convert_array(out, DATA_LAYOUTS[out.ndim - 2], parse_layout(attrs.out_layout or attrs.layout))


def _all_bins(attrs: AdaptivePoolAttrs, images: Array) -> list[tuple[int, list[slice]]]:
    sizes = [size for size in sizes_of(images.shape[2:], attrs) if isinstance(size, int)]
    return [(axis, bins_of(images.shape[axis], size)) for axis, size in enumerate(sizes, 2)]


def _fold(rule: np.ufunc, data: Array, axis: int, bins: Sequence[slice]) -> Array:
    lead = (slice(None),) * axis
    parts: list[Array] = [rule.reduce(data[(*lead, part)], axis=axis) for part in bins]
    return np.stack(parts, axis)


_ADAPTIVE_MAX_POOL1D = _define("nn.adaptive_max_pool1d", AdaptivePool1DAttrs, 1, _max, "maximum")
_ADAPTIVE_MAX_POOL2D = _define("nn.adaptive_max_pool2d", AdaptivePool2DAttrs, 2, _max, "maximum")
_ADAPTIVE_MAX_POOL3D = _define("nn.adaptive_max_pool3d", AdaptivePool3DAttrs, 3, _max, "maximum")
_ADAPTIVE_AVG_POOL1D = _define("nn.adaptive_avg_pool1d", AdaptivePool1DAttrs, 1, _avg, "mean")
_ADAPTIVE_AVG_POOL2D = _define("nn.adaptive_avg_pool2d", AdaptivePool2DAttrs, 2, _avg, "mean")
_ADAPTIVE_AVG_POOL3D = _define("nn.adaptive_avg_pool3d", AdaptivePool3DAttrs, 3, _avg, "mean")


def _size(output_size: int | Iterable[int] | None) -> tuple[int, ...]:
    return () if output_size is None else ints(output_size, 1)


def adaptive_max_pool1d(
    data: Expr, output_size: int | Iterable[int] | None = None, layout: str = "NCW", out_layout: str = ""
) -> Call:
    """Return the maximum of each of `output_size` bins of a sequence."""
    attrs = AdaptivePool1DAttrs(output_size=_size(output_size), layout=layout, out_layout=out_layout)
    return Call(_ADAPTIVE_MAX_POOL1D, (data,), attrs)


def adaptive_max_pool2d(
    data: Expr, output_size: int | Iterable[int] | None = None, layout: str = "NCHW", out_layout: str = ""
) -> Call:
    """Return the maximum of each of `output_size` bins of images.

    If `output_size` is None, the result has the size of the data. The same holds for all adaptive pooling.
    """
    attrs = AdaptivePool2DAttrs(output_size=_size(output_size), layout=layout, out_layout=out_layout)
    return Call(_ADAPTIVE_MAX_POOL2D, (data,), attrs)


def adaptive_max_pool3d(
    data: Expr, output_size: int | Iterable[int] | None = None, layout: str = "NCDHW", out_layout: str = ""
) -> Call:
    """Return the maximum of each of `output_size` bins of volumes."""
    attrs = AdaptivePool3DAttrs(output_size=_size(output_size), layout=layout, out_layout=out_layout)
    return Call(_ADAPTIVE_MAX_POOL3D, (data,), attrs)


def adaptive_avg_pool1d(
    data: Expr, output_size: int | Iterable[int] | None = None, layout: str = "NCW", out_layout: str = ""
) -> Call:
    """Return the mean of each of `output_size` bins of a sequence."""
    attrs = AdaptivePool1DAttrs(output_size=_size(output_size), layout=layout, out_layout=out_layout)
    return Call(_ADAPTIVE_AVG_POOL1D, (data,), attrs)


def adaptive_avg_pool2d(
    data: Expr, output_size: int | Iterable[int] | None = None, layout: str = "NCHW", out_layout: str = ""
) -> Call:
    """Return the mean of each of `output_size` bins of images."""
    attrs = AdaptivePool2DAttrs(output_size=_size(output_size), layout=layout, out_layout=out_layout)
    return Call(_ADAPTIVE_AVG_POOL2D, (data,), attrs)


def adaptive_avg_pool3d(
    data: Expr, output_size: int | Iterable[int] | None = None, layout: str = "NCDHW", out_layout: str = ""
) -> Call:
    """Return the mean of each of `output_size` bins of volumes."""
    attrs = AdaptivePool3DAttrs(output_size=_size(output_size), layout=layout, out_layout=out_layout)
    return Call(_ADAPTIVE_AVG_POOL3D, (data,), attrs)
