"""nn.contrib_dense_pack: nn.dense with a weight whose rows are in blocks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.layout import convert_array, parse_layout
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import layout_like, must_fit, out_type, shape_in_layout, tensors, with_rank

__all__ = ["DensePackAttrs", "contrib_dense_pack"]

_PLAIN = parse_layout("NC")


@dataclass(frozen=True, slots=True, kw_only=True)
class DensePackAttrs(Attrs):
    """The attributes of nn.contrib_dense_pack."""

    units: int | None
    """The number of output features; None for that of the weight."""
    out_dtype: str = ""
    """The element type of the result; empty for that of the data."""
    weight_layout: str = "NC"
    """The layout of the weight: N for output features, C for input features; NC8n has blocks of 8 output features."""


def _relation(types: Sequence[Type], attrs: DensePackAttrs) -> Sequence[Type | None] | None:
    op = "nn.contrib_dense_pack"
    data, weight, _ = tensors(op, types)
    if data is None or weight is None:
        return None
    layout = layout_like(op, "weight_layout", attrs.weight_layout, _PLAIN)
    rows, reduced = with_rank(op, "the data", data, 2).shape
    units, _ = shape_in_layout(op, "the weight", weight.shape, layout, _PLAIN)
    units = units if attrs.units is None else attrs.units
    expected = TensorType(shape_in_layout(op, "the weight", (units, reduced), _PLAIN, layout), weight.dtype)
    return [None, must_fit(op, "the weight", weight, expected), out_type((rows, units), attrs.out_dtype, data)]


def _compute(attrs: DensePackAttrs, data: Array, weight: Array) -> Array:
    dtype = attrs.out_dtype or str(data.dtype)
    wide = accumulator(dtype)
    matrix = convert_array(weight, parse_layout(attrs.weight_layout), _PLAIN)
    out: Array = np.matmul(data.astype(wide, copy=False), matrix.astype(wide, copy=False).T)
    return out.astype(dtype, copy=False)


_DENSE_PACK = register_op(
    "nn.contrib_dense_pack",
    arguments=("data", "weight"),
    attrs_type=DensePackAttrs,
    relation=_relation,
    compute=_compute,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=10,
    description="The product of the data and the transposed weight, whose rows are in blocks.",
)


def contrib_dense_pack(
    data: Expr, weight: Expr, weight_layout: str = "NC", units: int | None = None, out_dtype: str = ""
) -> Call:
    """Return `data @ weight.T` for a weight in a layout such as NC8n."""
    attrs = DensePackAttrs(units=units, out_dtype=out_dtype, weight_layout=weight_layout)
    return Call(_DENSE_PACK, (data, weight), attrs)
