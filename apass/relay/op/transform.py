"""The operators of TVM's `relay.op.transform`."""

from apass.relay.op.elementwise.convert import cast, cast_like, reinterpret
from apass.relay.op.index.diagonal import matrix_set_diag
from apass.relay.op.index.gather import adv_index, gather, gather_nd, take, where
from apass.relay.op.index.scatter import one_hot, scatter, scatter_add, scatter_nd, sparse_to_dense
from apass.relay.op.index.search import argwhere, invert_permutation, unique, unravel_index
from apass.relay.op.index.sequence import reverse_sequence, sequence_mask
from apass.relay.op.reduction.scan import cumprod, cumsum
from apass.relay.op.shape.axes import expand_dims, layout_transform, reverse, squeeze, transpose
from apass.relay.op.shape.broadcast import (
    broadcast_to,
    broadcast_to_like,
    collapse_sum_like,
    collapse_sum_to,
    repeat,
    tile,
)
from apass.relay.op.shape.create import arange, full, full_like, meshgrid
from apass.relay.op.shape.join import split
from apass.relay.op.shape.reshape import reshape, reshape_like, reverse_reshape
from apass.relay.op.shape.slicing import slice_like, strided_set, strided_slice

__all__ = [
    "adv_index",
    "arange",
    "argwhere",
    "broadcast_to",
    "broadcast_to_like",
    "cast",
    "cast_like",
    "collapse_sum_like",
    "collapse_sum_to",
    "cumprod",
    "cumsum",
    "expand_dims",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "invert_permutation",
    "layout_transform",
    "matrix_set_diag",
    "meshgrid",
    "one_hot",
    "reinterpret",
    "repeat",
    "reshape",
    "reshape_like",
    "reverse",
    "reverse_reshape",
    "reverse_sequence",
    "scatter",
    "scatter_add",
    "scatter_nd",
    "sequence_mask",
    "slice_like",
    "sparse_to_dense",
    "split",
    "squeeze",
    "strided_set",
    "strided_slice",
    "take",
    "tile",
    "transpose",
    "unique",
    "unravel_index",
    "where",
]
