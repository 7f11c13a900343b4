"""Reductions over axes, cumulative operators, and global pooling."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.node import Converter, Node, Table
from apass.relay.ir.expr import Expr
from apass.relay.op import nn

__all__ = ["TABLE"]

Reduce: TypeAlias = Callable[[Node, Expr, tuple[int, ...], bool], Expr]
"""Reduces an expression over axes; the last argument is `keepdims`."""


def reduction(make: Reduce, axes_as_input: int) -> Converter:
    """Return the converter of a reduction.

    Its axes are an input since the version `axes_as_input`, and an attribute before.
    """
    return partial(_reduce, make, axes_as_input)


def _reduce(make: Reduce, axes_as_input: int, node: Node) -> Expr:
    data = node[0]
    axes = node.ints(1) if node.version >= axes_as_input else node.integers("axes")
    if axes or not node.integer("noop_with_empty_axes", 0):
        rank = node.rank(data)
        chosen = range(rank) if not axes else (node.normal_axis(axis, rank) for axis in axes)
        return make(node, data, tuple(sorted(chosen)), bool(node.integer("keepdims", 1)))
    return make(node, data, (), True)


def reduced_sum(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the sum."""
    return op.sum(data, axis=axes, keepdims=keepdims) if axes else data


def reduced_mean(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the mean."""
    return op.mean(data, axis=axes, keepdims=keepdims) if axes else data


def reduced_prod(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the product."""
    return op.prod(data, axis=axes, keepdims=keepdims) if axes else data


def reduced_max(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the maximum; over an empty axis, the smallest number of the type."""
    if not axes:
        return data
    if node.dtype(data) == "bool":
        return op.any(data, axis=axes, keepdims=keepdims)
    if _is_empty(node, data, axes):
        return _full(node, data, axes, keepdims, greatest=False)
    return op.max(data, axis=axes, keepdims=keepdims)


def reduced_min(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the minimum; over an empty axis, the largest number of the type."""
    if not axes:
        return data
    if node.dtype(data) == "bool":
        return op.all(data, axis=axes, keepdims=keepdims)
    if _is_empty(node, data, axes):
        return _full(node, data, axes, keepdims, greatest=True)
    return op.min(data, axis=axes, keepdims=keepdims)


def _is_empty(node: Node, data: Expr, axes: tuple[int, ...]) -> bool:
    return any(node.shape(data)[axis] == 0 for axis in axes)


def _full(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool, *, greatest: bool) -> Expr:
    """Return the result of a maximum or minimum over an empty axis."""
    shape = node.static_shape(data)
    dims = [1 if axis in axes else dim for axis, dim in enumerate(shape) if keepdims or axis not in axes]
    if node.is_float(data):
        return op.full(node.constant(np.inf if greatest else -np.inf, data), tuple(dims), node.dtype(data))
    info = np.iinfo(node.dtype(data))
    return op.full(node.constant(info.max if greatest else info.min, data), tuple(dims), node.dtype(data))


def reduced_l1(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the sum of the absolute values."""
    return reduced_sum(node, op.abs(data), axes, keepdims)


def reduced_l2(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the root of the sum of squares; integers are converted to floats."""
    squares = reduced_sum(node, op.multiply(data, data), axes, keepdims)
    return as_dtype(node, op.sqrt(_as_float(node, squares)), node.dtype(data))


def reduced_sum_square(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the sum of squares."""
    return reduced_sum(node, op.multiply(data, data), axes, keepdims)


def reduced_log_sum(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the logarithm of the sum; integers are converted to floats."""
    total = reduced_sum(node, data, axes, keepdims)
    return as_dtype(node, op.log(_as_float(node, total)), node.dtype(data))


def reduced_log_sum_exp(node: Node, data: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """Return the logarithm of the sum of exponentials, without overflow."""
    floats = _as_float(node, data)
    if not axes:
        return data
    if _is_empty(node, data, axes):
        return as_dtype(node, _full(node, floats, axes, keepdims, greatest=False), node.dtype(data))
    top = op.max(floats, axis=axes, keepdims=True)
    # An infinite maximum would give inf - inf.
    shift = op.where(op.isinf(top), node.constant(0, top), top)
    total = op.log(op.sum(op.exp(op.subtract(floats, shift)), axis=axes, keepdims=True))
    result = op.add(total, shift)
    return as_dtype(node, result if keepdims else op.squeeze(result, axis=axes), node.dtype(data))


def _as_float(node: Node, data: Expr) -> Expr:
    return data if node.is_float(data) else op.cast(data, "float64")


def arg_extreme(make: Callable[..., Expr], node: Node) -> Expr:
    """Return the index of the maximum or minimum along an axis."""
    data = node[0]
    indices = make(
        data,
        axis=node.axis(data, 0),
        keepdims=bool(node.integer("keepdims", 1)),
        select_last_index=bool(node.integer("select_last_index", 0)),
    )
    return as_dtype(node, indices, "int64")


def accumulated(make: Callable[..., Expr], node: Node) -> Expr:
    """Return the cumulative sum or product along an axis."""
    data, axes = node[0], node.ints(1)
    if not axes:
        raise node.unsupported("input 1 (the axis) is missing")
    axis = node.normal_axis(axes[0], node.rank(data))
    is_reverse = bool(node.integer("reverse", 0))
    operand = op.reverse(data, axis=axis) if is_reverse else data
    total = make(operand, axis=axis, dtype=node.dtype(data), exclusive=bool(node.integer("exclusive", 0)))
    return op.reverse(total, axis=axis) if is_reverse else total


def global_pool(make: Callable[..., Expr], image: Callable[[Expr], Expr], node: Node) -> Expr:
    """Return a reduction of each channel; `image` is the operator for images."""
    data = node[0]
    if node.rank(data) == 4:
        return image(data)
    return make(data, axis=tuple(range(2, node.rank(data))), keepdims=True)


def global_lp_pool(node: Node) -> Expr:
    """Return the p-norm of each channel."""
    data = node[0]
    p = node.number("p", 2.0) if node.version < 2 else float(node.integer("p", 2))
    powers = op.power(op.abs(data), node.constant(p, data))
    total = op.sum(powers, axis=tuple(range(2, node.rank(data))), keepdims=True)
    return op.power(total, node.constant(1 / p, data))


TABLE: Final[Table] = {
    ("", "ArgMax", 1): partial(arg_extreme, op.argmax),
    ("", "ArgMin", 1): partial(arg_extreme, op.argmin),
    ("", "CumProd", 26): partial(accumulated, op.cumprod),
    ("", "CumSum", 11): partial(accumulated, op.cumsum),
    ("", "GlobalAveragePool", 1): partial(global_pool, op.mean, nn.global_avg_pool2d),
    ("", "GlobalLpPool", 1): global_lp_pool,
    ("", "GlobalMaxPool", 1): partial(global_pool, op.max, nn.global_max_pool2d),
    ("", "ReduceL1", 1): reduction(reduced_l1, 18),
    ("", "ReduceL2", 1): reduction(reduced_l2, 18),
    ("", "ReduceLogSum", 1): reduction(reduced_log_sum, 18),
    ("", "ReduceLogSumExp", 1): reduction(reduced_log_sum_exp, 18),
    ("", "ReduceMax", 1): reduction(reduced_max, 18),
    ("", "ReduceMean", 1): reduction(reduced_mean, 18),
    ("", "ReduceMin", 1): reduction(reduced_min, 18),
    ("", "ReduceProd", 1): reduction(reduced_prod, 18),
    ("", "ReduceSum", 1): reduction(reduced_sum, 13),
    ("", "ReduceSumSquare", 1): reduction(reduced_sum_square, 18),
}
"""The converters of this module."""
