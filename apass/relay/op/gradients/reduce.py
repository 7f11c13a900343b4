"""Gradients of the reductions, cumsum and cumprod."""

from collections.abc import Sequence
from math import prod

from apass.relay.ir.calls import attrs_of, scalar_like, tensor_type
from apass.relay.ir.expr import Call, Expr
from apass.relay.op.define.dims import static_dims
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.compare import equal
from apass.relay.op.elementwise.convert import cast_like, ones_like, zeros_like
from apass.relay.op.elementwise.logical import logical_and
from apass.relay.op.gradients.support import rank_of, register_zero, scaled
from apass.relay.op.index.gather import where
from apass.relay.op.reduce import ReduceAttrs, reduce_axes
from apass.relay.op.reduce import prod as prod_of
from apass.relay.op.reduce import sum as sum_of
from apass.relay.op.reduction.scan import ScanopAttrs, cumprod, cumsum
from apass.relay.op.reduction.statistics import VarianceAttrs
from apass.relay.op.shape.axes import expand_dims, reverse
from apass.relay.op.shape.broadcast import broadcast_to_like, collapse_sum_like
from apass.relay.op.shape.reshape import reshape, reshape_like

__all__: list[str] = []


def _axes(call: Call) -> tuple[int, ...]:
    """Return the axes that a call reduces."""
    attrs = call.attrs
    assert isinstance(attrs, ReduceAttrs | VarianceAttrs), "the operator is a reduction"
    return reduce_axes(rank_of(call.args[0]), attrs.axis, attrs.exclude)


def _with_axes(expr: Expr, call: Call) -> Expr:
    """Return a tensor of the shape of the result with the reduced axes."""
    attrs = call.attrs
    assert isinstance(attrs, ReduceAttrs | VarianceAttrs), "the operator is a reduction"
    if attrs.keepdims:
        return expr
    for axis in _axes(call):
        expr = expand_dims(expr, axis)
    return expr


def _divided_by_count(grad: Expr, call: Call, less: int = 0) -> Expr:
    """Return the gradient divided by the number of reduced elements minus `less`."""
    data, axes = call.args[0], _axes(call)
    shape = tensor_type(data).shape
    dims = static_dims(shape[axis] for axis in axes)
    if dims is not None:
        # numpy's infinity and nan are the gradients of the mean of no elements.
        count = prod(dims) - less
        return scaled(grad, 1 / count if count else float("inf"), data)
    counted = sum_of(ones_like(data), axes, True)
    return grad / (counted - scalar_like(less, data))


register_zero(("all", "any", "argmax", "argmin"))


@register_gradient("sum")
def _sum(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [broadcast_to_like(_with_axes(grad, orig), orig.args[0])]


@register_gradient("mean")
def _mean(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [broadcast_to_like(_divided_by_count(_with_axes(grad, orig), orig), orig.args[0])]


@register_gradient("variance")
def _variance(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, middle = orig.args
    whole = _divided_by_count(_with_axes(grad, orig), orig, int(attrs_of(orig, VarianceAttrs).unbiased))
    slope = scaled(whole, 2, data) * (data - middle)
    return [slope, collapse_sum_like(-slope, middle)]


def _extreme(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, axes = orig.args[0], _axes(orig)
    selected = cast_like(equal(_with_axes(orig, orig), data), grad)
    # Equal elements share the gradient.
    return [selected * _with_axes(grad, orig) / sum_of(selected, axes, True) if axes else selected * grad]


register_gradient("max", _extreme)
register_gradient("min", _extreme)


@register_gradient("prod")
def _prod(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, axes = orig.args[0], _axes(orig)
    is_zero = equal(data, zeros_like(data))
    zero = cast_like(is_zero, data)
    factors = where(is_zero, ones_like(data), data)
    if not axes:
        return [grad]
    # The product of the other elements: 0 if one of them is 0, else the product of all nonzero ones without this one.
    other_zeros = sum_of(zero, axes, True) - zero
    others = where(equal(other_zeros, zeros_like(data)), prod_of(factors, axes, True) / factors, zeros_like(data))
    return [_with_axes(grad, orig) * others]


def _rests(grad: Expr, axis: int, exclusive: bool) -> Expr:
    """Return for each element the sum of itself and of those after it along an axis."""
    return reverse(cumsum(reverse(grad, axis), axis, exclusive=exclusive), axis)


@register_gradient("cumsum")
def _cumsum(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, ScanopAttrs)
    # Without an axis, the result is flat.
    total = _rests(grad, attrs.axis or 0, attrs.exclusive)
    return [cast_like(total if attrs.axis is not None else reshape_like(total, data), data)]


@register_gradient("cumprod")
def _cumprod(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, attrs = orig.args[0], attrs_of(orig, ScanopAttrs)
    axis = attrs.axis or 0
    factors = cast_like(data if attrs.axis is not None else reshape(data, (-1,)), grad)
    zeros, ones = zeros_like(factors), ones_like(factors)
    is_zero = equal(factors, zeros)
    is_first = logical_and(is_zero, equal(cumsum(cast_like(is_zero, grad), axis), ones))
    # All products from the first zero on are zero. Only that zero changes them: its factors are the others.
    others = cumprod(where(is_first, ones, factors), axis, exclusive=attrs.exclusive)
    of_first = _rests(grad * others, axis, attrs.exclusive)
    of_rest = _rests(grad * orig, axis, attrs.exclusive) / where(is_zero, ones, factors)
    slope = where(is_first, of_first, where(is_zero, zeros, of_rest))
    return [cast_like(slope if attrs.axis is not None else reshape_like(slope, data), data)]
