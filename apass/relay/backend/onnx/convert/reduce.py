"""Reductions, cumulative sums and products, and einsum."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay.backend.onnx.convert.shape import flat
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Converter, Site, Table
from apass.relay.op.reduce import ArgReduceAttrs, ReduceAttrs, reduce_axes
from apass.relay.op.reduction.einsum import EinsumAttrs
from apass.relay.op.reduction.scan import ScanopAttrs
from apass.relay.op.reduction.statistics import VarianceAttrs

__all__ = ["TABLE", "average"]


def _axes(site: Site, attrs: ReduceAttrs | ArgReduceAttrs | VarianceAttrs) -> tuple[int, ...]:
    return reduce_axes(site.rank(), attrs.axis, attrs.exclude)


def reduction(op_type: str) -> Converter:
    """Return the converter of a reduction that ONNX has too."""

    def convert(site: Site) -> Tensor:
        attrs = site.attrs(ReduceAttrs)
        return site.builder.reduce(op_type, site[0], _axes(site, attrs), attrs.keepdims)

    return convert


def mean(site: Site) -> Tensor:
    """Return the mean over axes; that of integers is truncated."""
    attrs = site.attrs(ReduceAttrs)
    return average(site, site[0], _axes(site, attrs), attrs.keepdims)


def average(site: Site, data: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    """Return the mean of a tensor over axes."""
    if "float" in data.dtype:
        return site.builder.reduce("ReduceMean", data, axes, keepdims)
    wide = site.builder.cast(data, "float64")
    return site.builder.cast(site.builder.reduce("ReduceMean", wide, axes, keepdims), data.dtype)


def variance(site: Site) -> Tensor:
    """Return the mean of the squared differences from a mean."""
    attrs, builder = site.attrs(VarianceAttrs), site.builder
    axes = _axes(site, attrs)
    distance = builder.emit("Sub", site[0], site[1])
    squares = builder.emit("Mul", distance, distance)
    if not attrs.unbiased:
        return average(site, squares, axes, attrs.keepdims)
    count = int(np.prod(site.static_dims([site.shape()[axis] for axis in axes])))
    return builder.emit("Div", builder.reduce("ReduceSum", squares, axes, attrs.keepdims), site.like(count - 1))


def extreme_index(op_type: str) -> Converter:
    """Return the converter of `argmax` and `argmin`; ONNX reduces one axis only."""

    def convert(site: Site) -> Tensor:
        attrs, builder = site.attrs(ArgReduceAttrs), site.builder
        axes, data, axis = _axes(site, attrs), site.builder.ordered(site[0]), 0
        last = 1 if attrs.select_last_index else None
        if len(axes) == 1:
            index = builder.emit(
                op_type, data, dtype="int64", axis=axes[0], keepdims=int(attrs.keepdims), select_last_index=last
            )
            return builder.cast(index, site.result.dtype)
        if not axes:
            return builder.cast(builder.emit("Mul", builder.cast(data, "int64"), builder.constant(0, "int64")), "int32")
        if len(axes) < site.rank():
            others = [other for other in range(site.rank()) if other not in axes]
            kept = site.static_dims([site.shape()[other] for other in others])
            data = builder.reshape(builder.transpose(data, [*others, *axes]), [*kept, -1])
            axis = len(kept)
        else:
            data = flat(site, data)
        index = builder.emit(op_type, data, dtype="int64", axis=axis, keepdims=0, select_last_index=last)
        index = builder.unsqueeze(index, axes) if attrs.keepdims else index
        return builder.cast(index, site.result.dtype)

    return convert


def truth(op_type: str) -> Converter:
    """Return the converter of `all` and `any`."""

    def convert(site: Site) -> Tensor:
        attrs, builder = site.attrs(ReduceAttrs), site.builder
        truths = builder.cast(builder.cast(site[0], "bool"), "int32")
        found = builder.reduce(op_type, truths, _axes(site, attrs), attrs.keepdims)
        # The maximum of no elements is the least number, which is not 0.
        is_true = builder.emit("Greater", found, builder.constant(0, "int32"), dtype="bool")
        return builder.cast(is_true, site.result.dtype)

    return convert


def scan(op_type: str) -> Converter:
    """Return the converter of `cumsum` and `cumprod`."""

    def convert(site: Site) -> Tensor:
        attrs, builder = site.attrs(ScanopAttrs), site.builder
        data = flat(site, site[0]) if attrs.axis is None else site[0]
        axis = builder.constant(0 if attrs.axis is None else site.axis(attrs.axis), "int64")
        exclusive = 1 if attrs.exclusive else None
        return builder.emit(op_type, builder.cast(data, site.result.dtype), axis, exclusive=exclusive)

    return convert


def einsum(site: Site) -> Tensor:
    """Return a sum of products over labelled axes."""
    return site.builder.emit("Einsum", *site.fields(), equation=site.attrs(EinsumAttrs).equation)


TABLE: Final[Table] = {
    "all": truth("ReduceMin"),
    "any": truth("ReduceMax"),
    "argmax": extreme_index("ArgMax"),
    "argmin": extreme_index("ArgMin"),
    "cumprod": scan("CumProd"),
    "cumsum": scan("CumSum"),
    "einsum": einsum,
    "max": reduction("ReduceMax"),
    "mean": mean,
    "min": reduction("ReduceMin"),
    "prod": reduction("ReduceProd"),
    "sum": reduction("ReduceSum"),
    "variance": variance,
}
"""The converters of this module."""
