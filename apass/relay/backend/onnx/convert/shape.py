"""Dimensions: reshape, transpose, layouts, broadcasting, shapes of tensors."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay.backend.onnx.graph import GraphBuilder, Tensor
from apass.relay.backend.onnx.site import Site, Table
from apass.relay.ir.ty import Dim
from apass.relay.op.define.dims import axes_of, axis_of
from apass.relay.op.define.layout import Layout, parse_layout
from apass.relay.op.dyn.dyn import DynExpandDimsAttrs, DynReshapeAttrs
from apass.relay.op.shape.axes import (
    ExpandDimsAttrs,
    LayoutTransformAttrs,
    ReverseAttrs,
    SqueezeAttrs,
    TransposeAttrs,
)
from apass.relay.op.shape.broadcast import RepeatAttrs, TileAttrs
from apass.relay.op.shape.create import MeshgridAttrs
from apass.relay.op.shape.reshape import ReshapeAttrs, ReshapeLikeAttrs

__all__ = ["TABLE", "expanded", "flat", "in_layout", "reversed_along", "with_dims"]


def with_dims(site: Site, tensor: Tensor, dims: Sequence[int | Tensor]) -> Tensor:
    """Return a tensor with other dimensions, some of which may be computed."""
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(dims) and (0 not in known or site.builder.opset < 14):
        return site.builder.reshape(tensor, known)
    allows_zero = 1 if 0 in known else None
    return site.builder.emit("Reshape", tensor, site.builder.joined(dims), allowzero=allows_zero)


def flat(site: Site, tensor: Tensor) -> Tensor:
    """Return all elements as a vector."""
    return site.builder.reshape(tensor, [-1])


def to_result_shape(site: Site, tensor: Tensor) -> Tensor | None:
    """Return a tensor in the shape of the result.

    Return None if two of its dimensions are unknown.
    """
    shape = site.result.shape
    unknown = [dim for dim in shape if not isinstance(dim, int)]
    if len(unknown) > 1 or (unknown and 0 in shape):
        return None
    return with_dims(site, tensor, [dim if isinstance(dim, int) else -1 for dim in shape])


def reshape(site: Site) -> Tensor:
    """Return the data in the shape that TVM's codes describe."""
    attrs = site.attrs(ReshapeAttrs)
    known = to_result_shape(site, site[0])
    if known is not None:
        return known
    return with_dims(site, site[0], _dims_of_codes(site, attrs.newshape))


def _dims_of_codes(site: Site, codes: Sequence[int]) -> list[int | Tensor]:
    """Return the dimensions that the codes of a reshape describe."""
    builder, data = site.builder, site[0]
    result: list[int | Tensor] = []
    taken, position = 0, 0
    while position < len(codes):
        code = codes[position]
        position += 1
        if code > 0 or code == -1:
            result.append(code)
        elif code == 0:
            result.append(site.dim(0, taken))
        elif code == -2:
            result += [site.dim(0, axis) for axis in range(taken, site.rank())]
            taken = site.rank()
            continue
        elif code == -3:
            pair = [builder.joined([site.dim(0, axis)]) for axis in (taken, taken + 1)]
            result.append(builder.emit("Mul", *pair))
            taken += 1
        else:
            halves = codes[position : position + 2]
            whole = builder.joined([builder.dim(data, taken)])
            other = builder.ints([max(halves)])
            rest = builder.emit("Div", whole, other)
            result += [rest if half == -1 else half for half in halves]
            position += 2
        taken += 1
    return result


def reverse_reshape(site: Site) -> Tensor:
    """Return the data in the shape of the result."""
    known = to_result_shape(site, site[0])
    if known is None:
        raise site.unsupported("at most one dimension of the result may be unknown")
    return known


def reshape_like(site: Site) -> Tensor:
    """Return the data with some dimensions of another tensor."""
    known = to_result_shape(site, site[0])
    if known is not None:
        return known
    attrs = site.attrs(ReshapeLikeAttrs)
    begin, end, _ = slice(attrs.lhs_begin, attrs.lhs_end).indices(site.rank())
    own, other = site.dims(0), site.dims(1)
    return with_dims(site, site[0], [*own[:begin], *other[attrs.rhs_begin : attrs.rhs_end], *own[end:]])


def dyn_reshape(site: Site) -> Tensor:
    """Return the data in a computed shape."""
    allows_zero = 1 if site.attrs(DynReshapeAttrs).allowzero else None
    return site.builder.emit("Reshape", site[0], site.builder.cast(site[1], "int64"), allowzero=allows_zero)


def batch_flatten(site: Site) -> Tensor:
    """Return the data as a matrix, with all dimensions but the first joined."""
    return site.builder.emit("Flatten", site[0], axis=1)


def expand_dims(site: Site) -> Tensor:
    """Return the data with dimensions of size 1 inserted."""
    attrs = site.attrs(ExpandDimsAttrs)
    position = attrs.axis if attrs.axis >= 0 else site.rank() + attrs.axis + 1
    return site.builder.unsqueeze(site[0], range(position, position + attrs.num_newaxis))


def dyn_expand_dims(site: Site) -> Tensor:
    """Return the data with dimensions inserted at a computed position."""
    builder = site.builder
    if site.attrs(DynExpandDimsAttrs).num_newaxis != 1:
        raise site.unsupported("num_newaxis must be 1")
    return builder.emit("Unsqueeze", site[0], builder.reshape(builder.cast(site[1], "int64"), [1]))


def squeeze(site: Site) -> Tensor:
    """Return the data without dimensions of size 1."""
    axis = site.attrs(SqueezeAttrs).axis
    ones = [position for position, dim in enumerate(site.shape()) if dim == 1]
    return site.builder.squeeze(site[0], ones if axis is None else axes_of(site.rank(), axis))


def dyn_squeeze(site: Site) -> Tensor:
    """Return the data without the dimensions that a tensor names."""
    builder = site.builder
    return builder.emit("Squeeze", site[0], builder.reshape(builder.cast(site[1], "int64"), [-1]))


def transpose(site: Site) -> Tensor:
    """Return the data with its dimensions in another order."""
    axes = site.attrs(TransposeAttrs).axes
    order = range(site.rank())[::-1] if axes is None else [axis_of(site.rank(), axis) for axis in axes]
    return site.builder.transpose(site[0], order)


def reverse(site: Site) -> Tensor:
    """Return the data with the order along an axis reversed."""
    return reversed_along(site.builder, site[0], site.axis(site.attrs(ReverseAttrs).axis))


def reversed_along(builder: GraphBuilder, data: Tensor, axis: int) -> Tensor:
    """Return a tensor with the order along an axis reversed."""
    return builder.slice(data, [-1], [int(np.iinfo(np.int64).min)], [axis], [-1])


def layout_transform(site: Site) -> Tensor:
    """Return the data in another layout."""
    attrs = site.attrs(LayoutTransformAttrs)
    return in_layout(site, site[0], site.shape(), parse_layout(attrs.src_layout), parse_layout(attrs.dst_layout))


def in_layout(site: Site, data: Tensor, shape: Sequence[Dim], src: Layout, dst: Layout) -> Tensor:
    """Return a tensor of a shape in layout `src`, converted to layout `dst`.

    Blocks are joined to whole axes, which are then reordered and split.
    """
    if src.axes == dst.axes:
        return data
    builder = site.builder
    whole: dict[str, Dim] = {}
    letters = [letter for capital in src.primal for letter in (capital, capital.lower()) if src.index(letter) >= 0]
    for capital in src.primal:
        dim, block = shape[src.index(capital)], src.factor(capital)
        whole[capital] = dim * block if isinstance(dim, int) else dim
    joined = builder.transpose(data, [src.index(letter) for letter in letters])
    if src.rank > len(src.primal):
        joined = builder.reshape(joined, site.static_dims(list(whole.values())))
    ordered = builder.transpose(joined, [src.primal.index(letter) for letter in dst.primal])
    if dst.rank == len(dst.primal):
        return ordered
    order: list[str] = []
    sizes: list[int] = []
    for letter, dim in zip(dst.primal, site.static_dims([whole[letter] for letter in dst.primal]), strict=True):
        block = dst.factor(letter)
        is_split = dst.index(letter.lower()) >= 0
        order += [letter, letter.lower()] if is_split else [letter]
        sizes += [dim // block, block] if is_split else [dim]
    return builder.transpose(builder.reshape(ordered, sizes), [order.index(letter) for letter, _ in dst.axes])


def expanded(site: Site, data: Tensor, dims: Sequence[int | Tensor]) -> Tensor:
    """Return a tensor broadcast to dimensions, some of which may be computed."""
    return site.builder.emit("Expand", data, site.builder.joined(dims))


def broadcast_to(site: Site) -> Tensor:
    """Return the data broadcast to a shape."""
    return expanded(site, site[0], site.static_dims(site.result.shape))


def broadcast_to_like(site: Site) -> Tensor:
    """Return the data broadcast to the shape of another tensor."""
    return expanded(site, site[0], site.dims(1))


def dyn_broadcast_to(site: Site) -> Tensor:
    """Return the data broadcast to a computed shape."""
    return site.builder.emit("Expand", site[0], site.builder.cast(site[1], "int64"))


def collapse_sum(site: Site) -> Tensor:
    """Return the sums over the axes that were broadcast."""
    shape, target = site.static_shape(), site.static_dims(site.result.shape)
    missing = len(shape) - len(target)
    axes = [axis for axis in range(len(shape)) if axis < missing or target[axis - missing] == 1]
    total = site.builder.reduce("ReduceSum", site[0], axes, keepdims=True)
    return site.builder.reshape(total, target)


def tile(site: Site) -> Tensor:
    """Return copies of the data along all axes."""
    reps = site.attrs(TileAttrs).reps
    rank = max(site.rank(), len(reps))
    data = site.builder.unsqueeze(site[0], range(rank - site.rank()))
    return site.builder.emit("Tile", data, site.builder.ints([*[1] * (rank - len(reps)), *reps]))


def dyn_tile(site: Site) -> Tensor:
    """Return copies of the data, with computed numbers of them."""
    count = site.shape(1)[0] if site.shape(1) else 1
    if count != site.rank():
        raise site.unsupported(f"the number of repetitions must be that of the dimensions, got {count}")
    return site.builder.emit("Tile", site[0], site.builder.reshape(site.builder.cast(site[1], "int64"), [-1]))


def repeat(site: Site) -> Tensor:
    """Return the data with each element repeated along an axis."""
    attrs, builder = site.attrs(RepeatAttrs), site.builder
    data, axis, dims = site[0], attrs.axis, site.dims() if attrs.axis is not None else []
    if axis is None:
        data, axis, dims = flat(site, data), 0, [-1]
    axis = axis % len(dims)
    copies = [1] * (len(dims) + 1)
    copies[axis + 1] = attrs.repeats
    tiled = builder.emit("Tile", builder.unsqueeze(data, [axis + 1]), builder.ints(copies))
    known = to_result_shape(site, tiled)
    return known if known is not None else with_dims(site, tiled, [*dims[:axis], -1, *dims[axis + 1 :]])


def meshgrid(site: Site) -> list[Tensor]:
    """Return the coordinates of a grid: one tensor for each vector."""
    builder, vectors = site.builder, [flat(site, vector) for vector in site.fields()]
    axes = list(range(len(vectors)))
    if site.attrs(MeshgridAttrs).indexing == "xy":
        axes[:2] = axes[1::-1]
    sizes: list[int | Tensor] = [builder.shape(vector) for vector in vectors]
    shape = builder.joined([sizes[axes[position]] for position in range(len(vectors))])
    return [
        builder.emit("Expand", builder.unsqueeze(vector, [other for other in axes if other != axes[index]]), shape)
        for index, vector in enumerate(vectors)
    ]


def shape_of(site: Site) -> Tensor:
    """Return the shape as a vector."""
    return site.builder.cast(site.builder.shape(site[0]), site.result.dtype)


def size(site: Site) -> Tensor:
    """Return the number of elements."""
    return site.builder.cast(site.builder.emit("Size", site[0], dtype="int64"), site.result.dtype)


TABLE: Final[Table] = {
    "broadcast_to": broadcast_to,
    "broadcast_to_like": broadcast_to_like,
    "collapse_sum_like": collapse_sum,
    "collapse_sum_to": collapse_sum,
    "contrib_reverse_reshape": reverse_reshape,
    "dyn.broadcast_to": dyn_broadcast_to,
    "dyn.expand_dims": dyn_expand_dims,
    "dyn.reshape": dyn_reshape,
    "dyn.squeeze": dyn_squeeze,
    "dyn.tile": dyn_tile,
    "expand_dims": expand_dims,
    "layout_transform": layout_transform,
    "meshgrid": meshgrid,
    "ndarray_size": size,
    "nn.batch_flatten": batch_flatten,
    "repeat": repeat,
    "reshape": reshape,
    "reshape_like": reshape_like,
    "reverse": reverse,
    "shape_of": shape_of,
    "squeeze": squeeze,
    "tile": tile,
    "transpose": transpose,
}
"""The converters of this module."""
