"""Tensors of one value, ranges, joins and parts of tensors."""

from itertools import pairwise
from typing import Final

import numpy as np

from apass.relay.backend.onnx.convert.shape import expanded
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Converter, Site, Table
from apass.relay.op.shape.join import ConcatenateAttrs, SplitAttrs, StackAttrs

__all__ = ["TABLE"]

_LARGEST: Final = 4096
"""The most elements of a filled tensor that is a constant; a larger one is computed."""


def filled(number: int) -> Converter:
    """Return the converter of `zeros` and `ones`."""

    def convert(site: Site) -> Tensor:
        return _full(site, site.builder.constant(number, site.result.dtype))

    return convert


def full(site: Site) -> Tensor:
    """Return a tensor of the value of a scalar."""
    return _full(site, site.builder.cast(site[0], site.result.dtype))


def _full(site: Site, scalar: Tensor) -> Tensor:
    shape = site.static_dims(site.result.shape)
    if scalar.value is not None and np.prod(shape) <= _LARGEST:
        return site.builder.constant(np.full(shape, scalar.value.reshape(())))
    return expanded(site, scalar, shape)


def filled_like(number: int) -> Converter:
    """Return the converter of `zeros_like` and `ones_like`."""
    return lambda site: expanded(site, site.builder.constant(number, site.result.dtype), site.dims())


def full_like(site: Site) -> Tensor:
    """Return a tensor of the value of a scalar, in the shape of another one."""
    return expanded(site, site.builder.cast(site[1], site.result.dtype), site.dims())


def dyn_filled(number: int) -> Converter:
    """Return the converter of `dyn.zeros` and `dyn.ones`."""
    return lambda site: _expanded_to(site, site.builder.constant(number, site.result.dtype), 0)


def dyn_full(site: Site) -> Tensor:
    """Return a tensor of the value of a scalar, in a computed shape."""
    return _expanded_to(site, site.builder.cast(site[0], site.result.dtype), 1)


def _expanded_to(site: Site, scalar: Tensor, index: int) -> Tensor:
    return site.builder.emit("Expand", scalar, site.builder.cast(site[index], "int64"))


def arange(site: Site) -> Tensor:
    """Return numbers at equal distances."""
    builder = site.builder
    return builder.cast(builder.emit("Range", site[0], site[1], site[2]), site.result.dtype)


def concatenate(site: Site) -> Tensor:
    """Return several tensors joined along an axis."""
    rank = len(site.field_type().shape)
    return site.builder.concat(site.fields(), site.attrs(ConcatenateAttrs).axis % rank)


def stack(site: Site) -> Tensor:
    """Return several tensors joined along a new axis."""
    axis = site.attrs(StackAttrs).axis % (len(site.field_type().shape) + 1)
    return site.builder.concat([site.builder.unsqueeze(field, [axis]) for field in site.fields()], axis)


def split(site: Site) -> list[Tensor]:
    """Return the parts of a tensor along an axis."""
    attrs = site.attrs(SplitAttrs)
    axis, cuts = site.axis(attrs.axis), attrs.indices_or_sections
    dim = site.shape()[axis]
    if isinstance(cuts, int):
        if not isinstance(dim, int):
            raise site.unsupported(f"the size of axis {axis} must be known; import the model with its shapes")
        return site.builder.split(site[0], [dim // cuts] * cuts, axis)
    if isinstance(dim, int):
        return site.builder.split(site[0], [end - start for start, end in pairwise((0, *cuts, dim))], axis)
    ends = (*cuts, int(np.iinfo(np.int64).max))
    return [site.builder.slice(site[0], [start], [end], [axis]) for start, end in zip((0, *cuts), ends, strict=True)]


TABLE: Final[Table] = {
    "arange": arange,
    "concatenate": concatenate,
    "dyn.full": dyn_full,
    "dyn.ones": dyn_filled(1),
    "dyn.zeros": dyn_filled(0),
    "full": full,
    "full_like": full_like,
    "ones": filled(1),
    "ones_like": filled_like(1),
    "split": split,
    "stack": stack,
    "zeros": filled(0),
    "zeros_like": filled_like(0),
}
"""The converters of this module."""
