"""The operators that TVM has in `relay.op.transform`."""

from apass.relay.op.axes import expand_dims, layout_transform, reverse, squeeze, transpose
from apass.relay.op.broadcast import broadcast_to, broadcast_to_like, collapse_sum_like, collapse_sum_to, repeat, tile
from apass.relay.op.convert import cast, cast_like, reinterpret
from apass.relay.op.create import arange, full, full_like, meshgrid
from apass.relay.op.diagonal import matrix_set_diag
from apass.relay.op.indexing import adv_index, gather, gather_nd, take, where
from apass.relay.op.join import split
from apass.relay.op.reshape import reshape, reshape_like, reverse_reshape
from apass.relay.op.scan import cumprod, cumsum
from apass.relay.op.scatter import one_hot, scatter, scatter_add, scatter_nd, sparse_to_dense
from apass.relay.op.search import argwhere, invert_permutation, unique, unravel_index
from apass.relay.op.sequence import reverse_sequence, sequence_mask
from apass.relay.op.slicing import slice_like, strided_set, strided_slice

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
