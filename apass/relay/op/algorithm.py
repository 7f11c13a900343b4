"""The operators of TVM's `relay.op.algorithm`."""

from apass.relay.op.index.sort import argsort, searchsorted, sort, topk

__all__ = [
    "argsort",
    "searchsorted",
    "sort",
    "topk",
]
