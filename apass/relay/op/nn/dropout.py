"""nn.dropout: at inference, the unchanged data and a mask of ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr, TupleGetItem, TupleWrapper
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TupleType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import tensors

__all__ = ["DropoutAttrs", "dropout", "dropout_raw"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropoutAttrs(Attrs):
    """The attributes of nn.dropout."""

    rate: float = 0.5
    """The fraction of the elements that training drops."""


def _relation(types: Sequence[Type], attrs: DropoutAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.dropout", types)
    return None if data is None else [None, TupleType([data, data])]


def _compute(attrs: DropoutAttrs, data: Array) -> tuple[Array, ...]:
    return data, np.ones_like(data)


_DROPOUT = register_op(
    "nn.dropout",
    arguments=("data",),
    attrs_type=DropoutAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.OPAQUE,
    level=1,
    # FoldConstant must leave it: at training, its result depends on chance.
    stateful=True,
    description="The data and the mask of the elements that are kept: at inference, all of them.",
)


def dropout(data: Expr, rate: float = 0.5) -> TupleGetItem:
    """Return the data after dropout, the first field of `dropout_raw`."""
    return TupleWrapper(dropout_raw(data, rate), 2)[0]


def dropout_raw(data: Expr, rate: float = 0.5) -> Call:
    """Return a tuple of the data after dropout and the mask."""
    return Call(_DROPOUT, (data,), DropoutAttrs(rate=float(rate)))
