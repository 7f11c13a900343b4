"""Selection of elements: slices, take, gather, scatter, sorting."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from apass.relay.backend.onnx.convert.shape import flat
from apass.relay.backend.onnx.graph import INT64_MAX, Tensor
from apass.relay.backend.onnx.site import Outputs, Site, Table
from apass.relay.ir.ty import Dim
from apass.relay.op.define.dims import axis_of
from apass.relay.op.dyn.dyn import DynStridedSliceAttrs
from apass.relay.op.index.gather import GatherAttrs, GatherNDAttrs, TakeAttrs
from apass.relay.op.index.scatter import OneHotAttrs, ScatterAddAttrs, ScatterAttrs, ScatterNDAttrs
from apass.relay.op.index.sequence import ReverseSequenceAttrs, SequenceMaskAttrs
from apass.relay.op.index.sort import ArgsortAttrs, TopkAttrs
from apass.relay.op.shape.slicing import SliceLikeAttrs, StridedSliceAttrs, slices_of

__all__ = ["TABLE"]

_INT64_MIN: Final = int(np.iinfo(np.int64).min)


def strided_slice(site: Site) -> Tensor:
    """Return the elements between two bounds of each axis."""
    attrs = site.attrs(StridedSliceAttrs)
    slices = slices_of(attrs.begin, attrs.end, attrs.strides, attrs.slice_mode)
    axes = range(len(slices)) if attrs.axes is None else [axis_of(site.rank(), axis) for axis in attrs.axes]
    bounds = [_bounds(site.shape()[axis], part) for axis, part in zip(axes, slices, strict=True)]
    return _sliced(site, bounds, list(axes))


def _bounds(dim: Dim, part: slice) -> tuple[int, int, int]:
    """Return the start, the end and the step of a slice in ONNX's form."""
    if isinstance(dim, int):
        start, end, step = part.indices(dim)
        if not range(start, end, step):
            # ONNX moves a start before the first element to that element.
            return 0, 0, 1
        # Counting down, the end before the first element is -1, which ONNX counts from the end.
        return start, end if end >= 0 else _INT64_MIN, step
    step = 1 if part.step is None else int(part.step)
    first, last = (0, INT64_MAX) if step > 0 else (INT64_MAX, _INT64_MIN)
    return first if part.start is None else int(part.start), last if part.stop is None else int(part.stop), step


def _sliced(site: Site, bounds: Sequence[tuple[int, int, int]], axes: Sequence[int]) -> Tensor:
    chosen = [
        (*bound, axis)
        for bound, axis in zip(bounds, axes, strict=True)
        if not (bound[0] == 0 and bound[2] == 1 and bound[1] in (site.shape()[axis], INT64_MAX))
    ]
    starts, ends, steps, used = ([item[index] for item in chosen] for index in range(4))
    return site.builder.slice(site[0], starts, ends, used, steps)


def dyn_strided_slice(site: Site) -> Tensor:
    """Return the elements between computed bounds of the first axes."""
    builder = site.builder
    counts = [site.shape(index)[0] for index in (1, 2, 3)]
    if site.attrs(DynStridedSliceAttrs).slice_mode != "end" or counts[0] != counts[1]:
        raise site.unsupported("slice_mode must be end, and begin and end must have the same length")
    count = site.static_dims([counts[0]])[0]
    strides = builder.cast(site[3], "int64")
    if counts[2] != count:
        missing = count - site.static_dims([counts[2]])[0]
        strides = builder.joined([strides, builder.ints([1] * missing)])
    bounds = [builder.cast(site[index], "int64") for index in (1, 2)]
    return builder.emit("Slice", site[0], *bounds, builder.ints(range(count)), strides)


def slice_like(site: Site) -> Tensor:
    """Return the first elements along axes, as many as another tensor has."""
    chosen = site.attrs(SliceLikeAttrs).axes
    # A tensor of lower rank shortens the first axes.
    count = min(site.rank(), site.rank(1))
    axes = range(count) if chosen is None else [axis_of(site.rank(), axis) for axis in chosen]
    if not axes:
        return site[0]
    builder = site.builder
    ends = builder.joined([site.dim(1, axis) for axis in axes])
    return builder.emit("Slice", site[0], builder.ints([0] * len(axes)), ends, builder.ints(axes))


def _index(site: Site, tensor: Tensor) -> Tensor:
    """Return indices of a type that ONNX accepts."""
    return tensor if tensor.dtype in ("int32", "int64") else site.builder.cast(tensor, "int64")


def take(site: Site) -> Tensor:
    """Return the slices at indices along an axis."""
    attrs, builder = site.attrs(TakeAttrs), site.builder
    if attrs.axis is None:
        data, axis, dim = flat(site, site[0]), 0, _element_count(site)
    else:
        data, axis = site[0], site.axis(attrs.axis)
        dim = site.dim(0, axis)
    indices = _within(site, _index(site, site[1]), dim, attrs.mode)
    batch = attrs.batch_dims + site.rank(1) if attrs.batch_dims < 0 else attrs.batch_dims
    if batch == 0:
        return builder.gather(data, indices, axis)
    order = [other for other in range(site.rank()) if other != axis]
    order.insert(batch, axis)
    columns = builder.unsqueeze(builder.cast(indices, "int64"), [site.rank(1)])
    picked = builder.emit("GatherND", builder.transpose(data, order), columns, batch_dims=batch)
    new, moved = site.rank(1) - batch, axis - batch
    back = [*range(batch), *range(batch + new, batch + new + moved), *range(batch, batch + new)]
    return builder.transpose(picked, [*back, *range(len(back), site.rank() + new - 1)])


def _element_count(site: Site) -> int | Tensor:
    ty = site.type()
    if ty.is_static:
        return int(np.prod(ty.concrete_shape))
    return site.builder.reshape(site.builder.emit("Size", site[0], dtype="int64"), [1])


def _within(site: Site, indices: Tensor, dim: int | Tensor, mode: str) -> Tensor:
    """Return indices that are clipped or wrapped to a dimension."""
    builder = site.builder
    if mode == "fast":
        return indices
    if indices.value is not None and isinstance(dim, int):
        positions = indices.value.astype("int64")
        inside = np.clip(positions, 0, dim - 1) if mode == "clip" else np.mod(positions, dim)
        return builder.constant(inside.astype(np.dtype(indices.dtype)))
    if mode == "wrap":
        whole = builder.constant(dim, indices.dtype) if isinstance(dim, int) else builder.cast(dim, indices.dtype)
        return builder.emit("Mod", indices, whole)
    last = dim - 1 if isinstance(dim, int) else builder.emit("Sub", dim, builder.ints([1]))
    # A vector of one element would add a dimension to a scalar index.
    last = last if isinstance(last, int) else builder.squeeze(last, [0])
    return builder.bounded(indices, 0, last)


def gather(site: Site) -> Tensor:
    """Return one element along an axis for each index."""
    axis = site.axis(site.attrs(GatherAttrs).axis)
    return site.builder.emit("GatherElements", site[0], _index(site, site[1]), axis=axis)


def _columns_last(site: Site, index: int) -> Tensor:
    """Return indices with the coordinates in the last axis instead of the first."""
    rank = site.rank(index)
    return site.builder.transpose(site.builder.cast(site[index], "int64"), [*range(1, rank), 0])


def gather_nd(site: Site) -> Tensor:
    """Return the elements or slices at the indices in columns."""
    batch = site.attrs(GatherNDAttrs).batch_dims
    return site.builder.emit("GatherND", site[0], _columns_last(site, 1), batch_dims=batch or None)


def adv_index(site: Site) -> Tensor:
    """Return the first tensor indexed by the others, which are broadcast."""
    builder, (data, *indices) = site.builder, site.fields()
    wide = [builder.cast(index, "int64") for index in indices]
    total = wide[0]
    for index in wide[1:]:
        total = builder.emit("Add", total, index)
    shape = builder.shape(total)
    rank = len(site.result.shape) - (len(site.field_type().shape) - len(indices))
    columns = [builder.unsqueeze(builder.emit("Expand", index, shape), [rank]) for index in wide]
    return builder.emit("GatherND", data, builder.concat(columns, rank))


def scatter(site: Site) -> Tensor:
    """Return the data with the elements at indices along an axis replaced."""
    return _scattered(site, site.attrs(ScatterAttrs).axis, None)


def scatter_add(site: Site) -> Tensor:
    """Return the data with updates added to the elements at indices along an axis."""
    return _scattered(site, site.attrs(ScatterAddAttrs).axis, "add")


def _scattered(site: Site, axis: int, reduction: str | None) -> Tensor:
    indices, (data, updates) = _index(site, site[1]), _summands(site, reduction)
    result = site.builder.emit("ScatterElements", data, indices, updates, axis=site.axis(axis), reduction=reduction)
    return site.builder.cast(result, site.result.dtype)


def _summands(site: Site, reduction: str | None) -> tuple[Tensor, Tensor]:
    """Return the data and the updates of a scatter, in a type that onnxruntime adds."""
    if reduction is not None and site.type().dtype in ("float16", "bfloat16"):
        return site.builder.cast(site[0], "float32"), site.builder.cast(site[2], "float32")
    return site[0], site[2]


def scatter_nd(site: Site) -> Tensor:
    """Return the data with the elements or slices at the columns of indices updated."""
    reduction = "add" if site.attrs(ScatterNDAttrs).mode == "add" else None
    data, updates = _summands(site, reduction)
    result = site.builder.emit("ScatterND", data, _columns_last(site, 1), updates, reduction=reduction)
    return site.builder.cast(result, site.result.dtype)


def one_hot(site: Site) -> Tensor:
    """Return one value at an index along a new axis, another elsewhere."""
    attrs = site.attrs(OneHotAttrs)
    return _one_hot(site, attrs, site.builder.ints(range(attrs.depth)))


def dyn_one_hot(site: Site) -> Tensor:
    """Return `one_hot` with a computed size of the new axis."""
    builder = site.builder
    depth = builder.reshape(builder.cast(site[3], "int64"), [])
    limits = (builder.constant(0, "int64"), depth, builder.constant(1, "int64"))
    return _one_hot(site, site.attrs(OneHotAttrs), builder.emit("Range", *limits))


def _one_hot(site: Site, attrs: OneHotAttrs, positions: Tensor) -> Tensor:
    # ONNX's OneHot counts a negative index from the end; Relay has no 1 there.
    builder, rank = site.builder, site.rank()
    axis = attrs.axis % (rank + 1)
    column = builder.unsqueeze(positions, range(1, rank - axis + 1))
    indices = builder.unsqueeze(builder.cast(site[0], "int64"), [axis])
    is_hot = builder.emit("Equal", indices, column, dtype="bool")
    return builder.cast(builder.where(is_hot, site[1], site[2]), site.result.dtype)


def _topk(site: Site, k: int | Tensor, axis: int, ascend: bool) -> list[Tensor]:
    builder = site.builder
    count = builder.ints([k]) if isinstance(k, int) else k
    largest = None if not ascend else 0
    data = builder.ordered(site[0])
    if builder.opset < 10 and isinstance(k, int):
        values, indices = builder.emit_all("TopK", [data], [None, "int64"], axis=axis, k=k, largest=largest)
    else:
        values, indices = builder.emit_all("TopK", [data, count], [None, "int64"], axis=axis, largest=largest)
    return [builder.restored(values, site[0].dtype), indices]


def sort(site: Site) -> Tensor:
    """Return the elements in order along an axis."""
    attrs = site.attrs(ArgsortAttrs)
    axis = site.axis(attrs.axis)
    return _topk(site, site.dim(0, axis), axis, attrs.is_ascend)[0]


def argsort(site: Site) -> Tensor:
    """Return the indices of the elements in order along an axis."""
    attrs = site.attrs(ArgsortAttrs)
    axis = site.axis(attrs.axis)
    return site.builder.cast(_topk(site, site.dim(0, axis), axis, attrs.is_ascend)[1], site.result.dtype)


def topk(site: Site) -> Outputs:
    """Return the largest elements along an axis, and their indices."""
    attrs = site.attrs(TopkAttrs)
    axis = site.axis(attrs.axis)
    return _chosen(site, _topk(site, attrs.k if attrs.k >= 1 else site.dim(0, axis), axis, attrs.is_ascend))


def dyn_topk(site: Site) -> Outputs:
    """Return `topk` with a computed number of elements."""
    attrs, builder = site.attrs(TopkAttrs), site.builder
    count = builder.reshape(builder.cast(site[1], "int64"), [1])
    return _chosen(site, _topk(site, count, site.axis(attrs.axis), attrs.is_ascend))


def _chosen(site: Site, outputs: Sequence[Tensor]) -> Outputs:
    attrs = site.attrs(TopkAttrs)
    values, indices = outputs[0], site.builder.cast(outputs[1], attrs.dtype or "int32")
    return [values, indices] if attrs.ret_type == "both" else values if attrs.ret_type == "values" else indices


def argwhere(site: Site) -> Tensor:
    """Return the coordinates of the elements that are not zero."""
    builder = site.builder
    # onnxruntime lacks the type for 64-bit floats and unsigned numbers.
    data = builder.cast(site[0], "bool") if site.type().dtype in ("float64", "uint64") else site[0]
    return builder.cast(builder.transpose(builder.emit("NonZero", data, dtype="int64"), [1, 0]), "int32")


def where(site: Site) -> Tensor:
    """Return elements of one tensor where a condition is true, else of another."""
    return site.builder.where(site.builder.cast(site[0], "bool"), site[1], site[2])


def reverse_sequence(site: Site) -> Tensor:
    """Return the data with the first elements of each sequence reversed."""
    attrs, builder, rank = site.attrs(ReverseSequenceAttrs), site.builder, site.rank()
    batch, time = site.axis(attrs.batch_axis), site.axis(attrs.seq_axis)
    order = [batch, time, *(axis for axis in range(rank) if axis not in (batch, time))]
    back = [order.index(axis) for axis in range(rank)]
    size = site.dim(0, time)
    lengths = builder.bounded(builder.cast(site[1], "int64"), 1, size)
    data = builder.transpose(site[0], order)
    return builder.transpose(builder.emit("ReverseSequence", data, lengths, batch_axis=0, time_axis=1), back)


def sequence_mask(site: Site) -> Tensor:
    """Return the data with the elements after the end of each sequence replaced."""
    attrs, builder = site.attrs(SequenceMaskAttrs), site.builder
    time = site.static_dims([site.shape()[attrs.axis]])[0]
    inner = list(range(2, site.rank()))
    positions = builder.unsqueeze(builder.ints(range(time)), [1 - attrs.axis, *inner])
    lengths = builder.unsqueeze(builder.cast(site[1], "int64"), [attrs.axis, *inner])
    is_valid = builder.emit("Less", positions, lengths, dtype="bool")
    return builder.where(is_valid, site[0], site.like(attrs.mask_value))


def unravel_index(site: Site) -> Tensor:
    """Return the coordinates of positions in a flattened tensor of a constant shape."""
    shape = site.constant_of(1)
    if shape is None:
        raise site.unsupported("the shape must be a constant")
    builder, rest = site.builder, site[0]
    coordinates: list[Tensor] = []
    for size in reversed(shape.astype("int64").tolist()):
        divisor = site.like(size)
        coordinates.insert(0, builder.unsqueeze(builder.emit("Mod", rest, divisor), [0]))
        rest = builder.emit("Div", rest, divisor)
    return builder.concat(coordinates, 0)


def invert_permutation(site: Site) -> Tensor:
    """Return the inverse of a permutation."""
    return site.builder.cast(_topk(site, site.dim(0, 0), 0, ascend=True)[1], site.type().dtype)


TABLE: Final[Table] = {
    "adv_index": adv_index,
    "argsort": argsort,
    "argwhere": argwhere,
    "dyn.one_hot": dyn_one_hot,
    "dyn.strided_slice": dyn_strided_slice,
    "dyn.topk": dyn_topk,
    "gather": gather,
    "gather_nd": gather_nd,
    "invert_permutation": invert_permutation,
    "one_hot": one_hot,
    "reverse_sequence": reverse_sequence,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "scatter_nd": scatter_nd,
    "sequence_mask": sequence_mask,
    "slice_like": slice_like,
    "sort": sort,
    "strided_slice": strided_slice,
    "take": take,
    "topk": topk,
    "unravel_index": unravel_index,
    "where": where,
}
"""The converters of this module."""
