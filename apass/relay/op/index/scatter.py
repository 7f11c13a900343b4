"""Operators that write at indices: scatter, scatter_nd, one_hot and others."""

from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import Call, Compute, Expr, Op, const
from apass.relay.ir.immediates import Integer
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.arguments import Ints, computed_expr, static_ints
from apass.relay.op.define.dims import axis_of, dims_differ, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import Rule, forward, one_dtype
from apass.relay.op.index.gather import along_axis

__all__ = [
    "OneHotAttrs",
    "ScatterAddAttrs",
    "ScatterAttrs",
    "ScatterNDAttrs",
    "SparseToDenseAttrs",
    "one_hot",
    "scatter",
    "scatter_add",
    "scatter_nd",
    "sparse_to_dense",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAttrs(Attrs):
    """The attributes of scatter."""

    axis: Integer = 0
    """The axis that is indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAddAttrs(Attrs):
    """The attributes of scatter_add."""

    axis: Integer = 0
    """The axis that is indexed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterNDAttrs(Attrs):
    """The attributes of scatter_nd."""

    mode: str = "update"
    """`update` to replace elements, `add` to add to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneHotAttrs(Attrs):
    """The attributes of one_hot."""

    depth: int = 1
    """The size of the new axis."""
    axis: int = -1
    """The position of the new axis."""
    dtype: str = ""
    """The element type of the result; empty for that of the two values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseToDenseAttrs(Attrs):
    """The attributes of sparse_to_dense."""

    output_shape: tuple[int, ...]
    """The shape of the result."""


def _relate_scatter(
    data: TensorType, indices: TensorType, updates: TensorType, attrs: ScatterAttrs | ScatterAddAttrs
) -> TensorType:
    axis_of(len(data.shape), attrs.axis)
    one_dtype(data, updates)
    if len(indices.shape) != len(data.shape) or len(updates.shape) != len(data.shape):
        raise ValueError(f"indices and updates must have as many dimensions as {data}, got {indices} and {updates}")
    if any(map(dims_differ, indices.shape, updates.shape)):
        raise ValueError(f"indices and updates must have the same shape, got {indices} and {updates}")
    return data


def _scatter(attrs: ScatterAttrs, data: Array, indices: Array, updates: Array) -> Array:
    result = data.copy()
    result[along_axis(indices, attrs.axis % data.ndim)] = updates
    return result


def _scatter_add(attrs: ScatterAddAttrs, data: Array, indices: Array, updates: Array) -> Array:
    result = data.copy()
    np.add.at(result, along_axis(indices, attrs.axis % data.ndim), updates)
    return result


def _relate_scatter_nd(data: TensorType, indices: TensorType, updates: TensorType, attrs: ScatterNDAttrs) -> TensorType:
    one_dtype(data, updates)
    count = indices.shape[0] if indices.shape else 0
    if attrs.mode not in ("update", "add"):
        raise ValueError(f"mode must be update or add, got {attrs.mode!r}")
    if not isinstance(count, int):
        raise ValueError(f"the first dimension of the indices must be known, got {indices}")
    if not 0 < count <= len(data.shape):
        raise ValueError(f"the columns of the indices must name from 1 to {len(data.shape)} axes, got {count}")
    expected = (*indices.shape[1:], *data.shape[count:])
    if len(expected) != len(updates.shape) or any(map(dims_differ, expected, updates.shape)):
        raise ValueError(f"the updates must have the shape {shape_text(expected)}, got {updates}")
    return data


def _scatter_nd(attrs: ScatterNDAttrs, data: Array, indices: Array, updates: Array) -> Array:
    result = data.copy()
    positions = tuple(indices.astype("int64"))
    if attrs.mode == "add":
        np.add.at(result, positions, updates)
    else:
        result[positions] = updates
    return result


def _relate_one_hot(indices: TensorType, on_value: TensorType, off_value: TensorType, attrs: OneHotAttrs) -> TensorType:
    if on_value.shape or off_value.shape:
        raise ValueError(f"on_value and off_value must be scalars, got {on_value} and {off_value}")
    if attrs.depth < 1:
        raise ValueError(f"depth must be 1 or more, got {attrs.depth}")
    axis = axis_of(len(indices.shape) + 1, attrs.axis)
    shape = (*indices.shape[:axis], attrs.depth, *indices.shape[axis:])
    return TensorType(shape, attrs.dtype or one_dtype(on_value, off_value))


def _one_hot(attrs: OneHotAttrs, indices: Array, on_value: Array, off_value: Array) -> Array:
    axis = attrs.axis % (indices.ndim + 1)
    positions = np.arange(attrs.depth).reshape(-1, *(1 for _ in range(indices.ndim - axis)))
    hot = np.equal(np.expand_dims(indices.astype("int64"), axis), positions)
    return np.where(hot, on_value, off_value).astype(attrs.dtype or on_value.dtype)


def _relate_dense(
    sparse_indices: TensorType, sparse_values: TensorType, default_value: TensorType, attrs: SparseToDenseAttrs
) -> TensorType:
    if len(sparse_indices.shape) > 2 or len(sparse_values.shape) > 1 or default_value.shape:
        values = f"{sparse_indices}, {sparse_values} and {default_value}"
        raise ValueError(f"expected indices of at most 2 dimensions, values of at most 1 and a scalar, got {values}")
    return TensorType(attrs.output_shape, sparse_values.dtype)


def _sparse_to_dense(
    attrs: SparseToDenseAttrs, sparse_indices: Array, sparse_values: Array, default_value: Array
) -> Array:
    result = np.full(attrs.output_shape, default_value, sparse_values.dtype)
    positions = sparse_indices.astype("int64").reshape(-1, len(attrs.output_shape))
    result[tuple(positions.T)] = sparse_values
    return result


_SCATTER_ARGUMENTS = ("data", "indices", "updates")


def _define(name: str, attrs_type: type[Attrs], relate: Rule, compute: Compute, level: int, description: str) -> Op:
    return register_op(
        name,
        arguments=_SCATTER_ARGUMENTS,
        attrs_type=attrs_type,
        relation=forward(name, _SCATTER_ARGUMENTS, relate),
        compute=compute,
        level=level,
        description=description,
    )


_SCATTER = _define(
    "scatter",
    ScatterAttrs,
    _relate_scatter,
    _scatter,
    10,
    "The tensor with the elements at indices along an axis replaced.",
)
_SCATTER_ADD = _define(
    "scatter_add",
    ScatterAddAttrs,
    _relate_scatter,
    _scatter_add,
    10,
    "The tensor with updates added to the elements at indices along an axis.",
)
_SCATTER_ND = _define(
    "scatter_nd",
    ScatterNDAttrs,
    _relate_scatter_nd,
    _scatter_nd,
    3,
    "The tensor with the elements or slices at the columns of the indices replaced or added to.",
)
_ONE_HOT_ARGUMENTS = ("indices", "on_value", "off_value")
_ONE_HOT = register_op(
    "one_hot",
    arguments=_ONE_HOT_ARGUMENTS,
    attrs_type=OneHotAttrs,
    relation=forward("one_hot", _ONE_HOT_ARGUMENTS, _relate_one_hot),
    compute=_one_hot,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=10,
    description="One value at an index along a new axis, another elsewhere.",
)
_SPARSE_ARGUMENTS = ("sparse_indices", "sparse_values", "default_value")
_SPARSE_TO_DENSE = register_op(
    "sparse_to_dense",
    arguments=_SPARSE_ARGUMENTS,
    attrs_type=SparseToDenseAttrs,
    relation=forward("sparse_to_dense", _SPARSE_ARGUMENTS, _relate_dense),
    compute=_sparse_to_dense,
    level=3,
    description="A tensor of one value, except for the elements at indices.",
)


def scatter(data: Expr, indices: Expr, updates: Expr, axis: int) -> Call:
    """Return the data with the elements at the indices along `axis` replaced.

    For axis 0 of two, `out[indices[i, j], j] = updates[i, j]`.
    """
    return Call(_SCATTER, (data, indices, updates), ScatterAttrs(axis=axis))


def scatter_add(data: Expr, indices: Expr, updates: Expr, axis: int) -> Call:
    """Return the data with updates added to the elements at the indices along `axis`.

    For axis 0 of two, `out[indices[i, j], j] += updates[i, j]`.
    """
    return Call(_SCATTER_ADD, (data, indices, updates), ScatterAddAttrs(axis=axis))


def scatter_nd(data: Expr, indices: Expr, updates: Expr, mode: str = "update") -> Call:
    """Return the data with the elements or slices at the columns of `indices` updated.

    For two rows of indices, `out[indices[0, i], indices[1, i]] = updates[i]`, or `+=` in mode `add`.
    """
    return Call(_SCATTER_ND, (data, indices, updates), ScatterNDAttrs(mode=mode))


def one_hot(indices: Expr, on_value: Expr, off_value: Expr, depth: int | Expr, axis: int, dtype: str) -> Call:
    """Return a tensor with a new axis: `on_value` at the index, else `off_value`."""
    expression = computed_expr(depth)
    if expression is not None:
        return call_op("dyn.one_hot", indices, on_value, off_value, expression, axis=axis, dtype=dtype)
    (size,) = static_ints("one_hot", "depth", depth)
    return Call(_ONE_HOT, (indices, on_value, off_value), OneHotAttrs(depth=size, axis=axis, dtype=dtype))


def sparse_to_dense(
    sparse_indices: Expr, output_shape: Ints, sparse_values: Expr, default_value: Expr | float = 0
) -> Call:
    """Return a tensor of `default_value` except for the values at the indices.

    Each row of the indices holds one position. A Python number as `default_value` has the element type int32.
    """
    default = default_value if isinstance(default_value, Expr) else const(default_value)
    shape = computed_expr(output_shape)
    if shape is not None:
        return call_op("dyn.sparse_to_dense", sparse_indices, sparse_values, default, shape)
    attrs = SparseToDenseAttrs(output_shape=static_ints("sparse_to_dense", "output_shape", output_shape))
    return Call(_SPARSE_TO_DENSE, (sparse_indices, sparse_values, default), attrs)
