"""Matrix products: nn.dense, nn.matmul, nn.batch_matmul."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType, Type
from apass.relay.op.define.dims import dims_differ
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import must_fit, out_type, tensors, with_rank

__all__ = ["BatchMatmulAttrs", "DenseAttrs", "MatmulAttrs", "batch_matmul", "dense", "matmul"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseAttrs(Attrs):
    """The attributes of nn.dense."""

    units: int | None
    """The number of output features; None for that of the weight."""
    out_dtype: str = ""
    """The element type of the result; empty for that of the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulAttrs(Attrs):
    """The attributes of nn.matmul."""

    units: int | None
    """The number of columns of the result; None for that of the second matrix."""
    out_dtype: str = ""
    """The element type of the result; empty for that of the first matrix."""
    transpose_a: bool = False
    """Whether the first matrix is transposed before the product."""
    transpose_b: bool = False
    """Whether the second matrix is transposed before the product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMatmulAttrs(Attrs):
    """The attributes of nn.batch_matmul."""

    out_dtype: str = ""
    """The element type of the result; empty for that of the first operand."""
    transpose_a: bool = False
    """Whether the matrices of the first operand are transposed before the product."""
    transpose_b: bool = False
    """Whether the matrices of the second operand are transposed before the product."""


def _dense_relation(types: Sequence[Type], attrs: DenseAttrs) -> Sequence[Type | None] | None:
    return _relate("nn.dense", types, attrs.units, attrs.out_dtype, transpose_a=False, transpose_b=True)


def _matmul_relation(types: Sequence[Type], attrs: MatmulAttrs) -> Sequence[Type | None] | None:
    sides = (attrs.transpose_a, attrs.transpose_b)
    return _relate("nn.matmul", types, attrs.units, attrs.out_dtype, transpose_a=sides[0], transpose_b=sides[1])


def _relate(
    op: str, types: Sequence[Type], units: int | None, out_dtype: str, *, transpose_a: bool, transpose_b: bool
) -> Sequence[Type | None] | None:
    a, b, _ = tensors(op, types)
    if a is None or (b is None and units is None):
        return None
    if len(a.shape) < 1 + transpose_a:
        raise TypeInferenceError(f"{op}: the first operand must be a matrix, got {a}")
    *lead, reduced = _transposed(a.shape) if transpose_a else a.shape
    columns: Dim = units if units is not None else _columns(op, b, transpose_b=transpose_b)
    expected = TensorType((columns, reduced) if transpose_b else (reduced, columns), a.dtype)
    return [None, must_fit(op, "the second operand", b, expected), out_type((*lead, columns), out_dtype, a)]


def _transposed(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def _columns(op: str, b: TensorType | None, *, transpose_b: bool) -> Dim:
    if b is None:
        return Any()
    rows, columns = with_rank(op, "the second operand", b, 2).shape
    return rows if transpose_b else columns


def _batch_relation(types: Sequence[Type], attrs: BatchMatmulAttrs) -> Sequence[Type | None] | None:
    op = "nn.batch_matmul"
    a, b, _ = tensors(op, types)
    if a is None or b is None:
        return None
    (batch, rows, left) = _batch_shape(with_rank(op, "the first operand", a, 3), transpose=attrs.transpose_a)
    (other, right, columns) = _batch_shape(with_rank(op, "the second operand", b, 3), transpose=attrs.transpose_b)
    if dims_differ(left, right):
        raise TypeInferenceError(f"{op}: the inner dimensions of {a} and {b} must be equal, got {left} and {right}")
    if dims_differ(batch, other) and 1 not in {batch, other}:
        raise TypeInferenceError(f"{op}: the batches of {a} and {b} must be equal or 1, got {batch} and {other}")
    both = other if batch == 1 or not isinstance(batch, int) else batch
    return [None, None, out_type((both, rows, columns), attrs.out_dtype, a)]


def _batch_shape(operand: TensorType, *, transpose: bool) -> tuple[Dim, ...]:
    return _transposed(operand.shape) if transpose else operand.shape


def _multiply(a: Array, b: Array, out_dtype: str) -> Array:
    """Return the product with element type `out_dtype`; empty for that of `a`."""
    dtype = out_dtype or str(a.dtype)
    wide = accumulator(dtype)
    out: Array = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
    return out.astype(dtype, copy=False)


def _dense(attrs: DenseAttrs, data: Array, weight: Array) -> Array:
    return _multiply(data, weight.T, attrs.out_dtype)


def _matmul(attrs: MatmulAttrs, a: Array, b: Array) -> Array:
    left = a.swapaxes(-1, -2) if attrs.transpose_a else a
    return _multiply(left, b.T if attrs.transpose_b else b, attrs.out_dtype)


def _batch_matmul(attrs: BatchMatmulAttrs, a: Array, b: Array) -> Array:
    left = a.swapaxes(1, 2) if attrs.transpose_a else a
    return _multiply(left, b.swapaxes(1, 2) if attrs.transpose_b else b, attrs.out_dtype)


_DENSE = register_op(
    "nn.dense",
    arguments=("data", "weight"),
    attrs_type=DenseAttrs,
    relation=_dense_relation,
    compute=_dense,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=1,
    description="The product of the data and the transposed weight.",
)

_MATMUL = register_op(
    "nn.matmul",
    arguments=("tensor_a", "tensor_b"),
    attrs_type=MatmulAttrs,
    relation=_matmul_relation,
    compute=_matmul,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=1,
    description="The product of two matrices, each of which may be transposed.",
)

_BATCH_MATMUL = register_op(
    "nn.batch_matmul",
    arguments=("tensor_a", "tensor_b"),
    attrs_type=BatchMatmulAttrs,
    relation=_batch_relation,
    compute=_batch_matmul,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=10,
    description="The products of the matrices of two batches.",
)


def dense(data: Expr, weight: Expr, units: int | None = None, out_dtype: str = "") -> Call:
    """Return `data @ weight.T`; the data may have any number of leading dimensions.

    If the weight has no type yet, `units` determines it: `(units, last dimension of the data)`.
    """
    return Call(_DENSE, (data, weight), DenseAttrs(units=None if units is None else int(units), out_dtype=out_dtype))


def matmul(
    tensor_a: Expr,
    tensor_b: Expr,
    units: int | None = None,
    out_dtype: str = "",
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Call:
    """Return the product of two matrices, each transposed if requested.

    The first operand may have leading dimensions.
    """
    attrs = MatmulAttrs(
        units=None if units is None else int(units),
        out_dtype=out_dtype,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    return Call(_MATMUL, (tensor_a, tensor_b), attrs)


def batch_matmul(
    tensor_a: Expr, tensor_b: Expr, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = True
) -> Call:
    """Return the products of the matrices of two batches.

    If one batch has size 1, its matrix is multiplied with every matrix of the other. By default, the matrices of the
    second operand are transposed, as in TVM.
    """
    attrs = BatchMatmulAttrs(out_dtype=out_dtype, transpose_a=transpose_a, transpose_b=transpose_b)
    return Call(_BATCH_MATMUL, (tensor_a, tensor_b), attrs)
