"""Products of matrices, and biases."""

from typing import Final

from apass.relay.backend.onnx.convert.shape import in_layout
from apass.relay.backend.onnx.graph import Tensor
from apass.relay.backend.onnx.site import Site, Table
from apass.relay.op.define.layout import parse_layout
from apass.relay.op.nn.dense.bias import BiasAddAttrs
from apass.relay.op.nn.dense.dense import BatchMatmulAttrs, DenseAttrs, MatmulAttrs
from apass.relay.op.nn.dense.pack import DensePackAttrs

__all__ = ["TABLE", "along"]


def along(site: Site, vector: Tensor, axis: int) -> Tensor:
    """Return a vector in the shape that broadcasts it along an axis of the data."""
    return site.builder.unsqueeze(vector, range(1, site.rank() - axis % site.rank()))


def dense(site: Site) -> Tensor:
    """Return the product of the data and the transposed weight."""
    return _product(site, site[1], site.attrs(DenseAttrs).out_dtype, transpose_b=True)


def dense_pack(site: Site) -> Tensor:
    """Return `dense` for a weight with blocks of rows."""
    attrs = site.attrs(DensePackAttrs)
    weight = in_layout(site, site[1], site.shape(1), parse_layout(attrs.weight_layout), parse_layout("NC"))
    return _product(site, weight, attrs.out_dtype, transpose_b=True)


def matmul(site: Site) -> Tensor:
    """Return the product of two matrices, each transposed if requested."""
    attrs = site.attrs(MatmulAttrs)
    return _product(site, site[1], attrs.out_dtype, transpose_a=attrs.transpose_a, transpose_b=attrs.transpose_b)


def _product(
    site: Site, right: Tensor, out_dtype: str, *, transpose_a: bool = False, transpose_b: bool = False
) -> Tensor:
    builder, dtype, rank = site.builder, out_dtype or site.type().dtype, site.rank()
    left, right = builder.cast(site[0], dtype), builder.cast(right, dtype)
    if transpose_b and builder.is_transposed(right, [1, 0]):
        right, transpose_b = builder.transpose(right, [1, 0]), False
    # Gemm adds a third operand before version 11.
    if rank == 2 and dtype in ("float32", "float64") and builder.opset >= 11 and (transpose_a or transpose_b):
        return builder.emit("Gemm", left, right, transA=int(transpose_a), transB=int(transpose_b))
    if transpose_a:
        left = builder.transpose(left, [*range(rank - 2), rank - 1, rank - 2])
    return builder.emit("MatMul", left, builder.transpose(right, [1, 0]) if transpose_b else right)


def batch_matmul(site: Site) -> Tensor:
    """Return the products of the matrices of two batches."""
    attrs, builder = site.attrs(BatchMatmulAttrs), site.builder
    dtype = attrs.out_dtype or site.type().dtype
    sides = ((site[0], attrs.transpose_a), (site[1], attrs.transpose_b))
    operands = [
        builder.transpose(builder.cast(side, dtype), [0, 2, 1] if is_transposed else [0, 1, 2])
        for side, is_transposed in sides
    ]
    return builder.emit("MatMul", *operands)


def bias_add(site: Site) -> Tensor:
    """Return the data plus a bias along an axis."""
    return site.builder.emit("Add", site[0], along(site, site[1], site.attrs(BiasAddAttrs).axis))


TABLE: Final[Table] = {
    "nn.batch_matmul": batch_matmul,
    "nn.bias_add": bias_add,
    "nn.contrib_dense_pack": dense_pack,
    "nn.dense": dense,
    "nn.matmul": matmul,
}
"""The converters of this module."""
