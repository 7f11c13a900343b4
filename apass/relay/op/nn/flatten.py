"""nn.batch_flatten: joins all dimensions but the first."""

from collections.abc import Sequence
from math import prod

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.dims import product
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import tensors

__all__ = ["batch_flatten"]


def _relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.batch_flatten", types)
    if data is None:
        return None
    if not data.shape:
        raise TypeInferenceError(f"nn.batch_flatten: the data must have a batch dimension, got the scalar {data}")
    return [None, TensorType((data.shape[0], product(data.shape[1:])), data.dtype)]


def _compute(data: Array) -> Array:
    return data.reshape(data.shape[0], prod(data.shape[1:]))


_BATCH_FLATTEN = register_op(
    "nn.batch_flatten",
    arguments=("data",),
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.INJECTIVE,
    level=2,
    description="The data with all dimensions but the first joined.",
)


def batch_flatten(data: Expr) -> Call:
    """Return the data as a matrix, with all dimensions but the first joined."""
    return Call(_BATCH_FLATTEN, (data,))
