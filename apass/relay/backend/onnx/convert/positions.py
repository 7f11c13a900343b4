"""Searches in tensors, and replacement of elements at positions."""

from typing import Final

import numpy as np

from apass.relay.backend.onnx.convert.shape import flat, with_dims
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Site, Table
from apass.relay.op.index.diagonal import MatrixSetDiagAttrs, diagonal_positions
from apass.relay.op.index.search import UniqueAttrs
from apass.relay.op.index.sort import SearchSortedAttrs
from apass.relay.op.shape.slicing import slices_of

__all__ = ["TABLE"]


def unique(site: Site) -> list[Tensor]:
    """Return the distinct elements of a vector, their positions and their number."""
    attrs, builder, dtype = site.attrs(UniqueAttrs), site.builder, site.type().dtype
    outputs = builder.emit_all(
        "Unique", [builder.ordered(site[0])], [None, "int64", "int64", "int64"], sorted=int(attrs.sorted)
    )
    number = builder.shape(outputs[0])
    outputs[0] = builder.restored(outputs[0], dtype)
    # Relay's results have the length of the data, with zeros at their ends.
    missing = builder.emit("Sub", builder.shape(site[0]), number)
    pads = builder.joined([0, missing])
    values, firsts, counts = (builder.emit("Pad", outputs[index], pads) for index in (0, 1, 3))
    results = [firsts, outputs[2], number, *([counts] if attrs.return_counts else [])]
    return [values, *(builder.cast(result, "int32") for result in results)]


def searchsorted(site: Site) -> Tensor:
    """Return the number of elements of sorted sequences that are before each value.

    Each value is compared with all elements of its sequence.
    """
    attrs, builder = site.attrs(SearchSortedAttrs), site.builder
    sequences, values = (builder.ordered(site[index]) for index in (0, 1))
    if site.rank() > 1:
        sequences = builder.unsqueeze(sequences, [site.rank() - 1])
    values = builder.unsqueeze(values, [site.rank(1)])
    if attrs.right:
        is_before = builder.emit("Not", builder.emit("Less", values, sequences, dtype="bool"))
    else:
        is_before = builder.emit("Less", sequences, values, dtype="bool")
    counts = builder.reduce("ReduceSum", builder.cast(is_before, "int64"), [site.rank(1)], keepdims=False)
    return builder.cast(counts, site.result.dtype)


def strided_set(site: Site) -> Tensor:
    """Return the data with the elements between two bounds of each axis replaced."""
    builder, shape = site.builder, site.static_shape()
    begin, end, strides = (site.constant_of(index) for index in (2, 3, 4))
    if begin is None or end is None or strides is None:
        raise site.unsupported("begin, end and strides must be constants")
    slices = tuple(slices_of(begin.tolist(), end.tolist(), strides.tolist(), "end"))
    positions = np.arange(np.prod(shape)).reshape(shape)[slices]
    updates = builder.emit("Expand", site[1], builder.ints(positions.shape))
    indices = builder.constant(positions.reshape(-1), "int64")
    replaced = builder.emit("ScatterElements", flat(site, site[0]), indices, flat(site, updates))
    return with_dims(site, replaced, shape)


def matrix_set_diag(site: Site) -> Tensor:
    """Return matrices with one or several diagonals replaced."""
    builder, rank = site.builder, site.rank()
    rows, columns = site.static_dims(site.shape()[-2:])
    diagonals = site.static_dims(site.shape(1)[rank - 2 :])
    batch = [site.dim(0, axis) for axis in range(rank - 2)]
    # The elements of each matrix, followed by those of its diagonals.
    sources = np.arange(rows * columns).reshape(rows, columns)
    for target, source in diagonal_positions(site.attrs(MatrixSetDiagAttrs), rows, columns, diagonals[-1]):
        sources[target] = rows * columns + np.ravel_multi_index(source[-len(diagonals) :], diagonals)
    parts = [
        with_dims(site, site[0], [*batch, rows * columns]),
        with_dims(site, site[1], [*batch, int(np.prod(diagonals))]),
    ]
    return builder.gather(builder.concat(parts, rank - 2), builder.constant(sources, "int64"), rank - 2)


def sparse_to_dense(site: Site) -> Tensor:
    """Return a tensor of one value, except for the elements at indices."""
    return _dense(site, site.builder.ints(site.static_dims(site.result.shape)))


def dyn_sparse_to_dense(site: Site) -> Tensor:
    """Return `sparse_to_dense` in a computed shape."""
    return _dense(site, site.builder.cast(site[3], "int64"))


def _dense(site: Site, shape: Tensor) -> Tensor:
    builder = site.builder
    empty = builder.emit("Expand", builder.cast(site[2], site.result.dtype), shape)
    positions = with_dims(site, builder.cast(site[0], "int64"), [-1, len(site.result.shape)])
    # One value may be that of all positions.
    values = site[1] if site.rank(1) else builder.emit("Expand", site[1], builder.dim(positions, 0))
    return builder.emit("ScatterND", empty, positions, values)


TABLE: Final[Table] = {
    "dyn.sparse_to_dense": dyn_sparse_to_dense,
    "matrix_set_diag": matrix_set_diag,
    "searchsorted": searchsorted,
    "sparse_to_dense": sparse_to_dense,
    "strided_set": strided_set,
    "unique": unique,
}
"""The converters of this module."""
