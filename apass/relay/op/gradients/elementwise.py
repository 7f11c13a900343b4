"""Gradients of the elementwise operators: functions, arithmetic, comparisons."""

from collections.abc import Callable, Mapping, Sequence
from math import pi, sqrt
from typing import Final

from apass.relay.ir.calls import attrs_of, call_op, scalar_like
from apass.relay.ir.expr import Call, Expr
from apass.relay.op.annotation import DeviceCopyAttrs
from apass.relay.op.define.registry import register_gradient
from apass.relay.op.elementwise.arithmetic import floor_divide, power, trunc_divide
from apass.relay.op.elementwise.compare import greater, greater_equal, less
from apass.relay.op.elementwise.convert import ClipAttrs, cast_like, ones_like, zeros_like
from apass.relay.op.elementwise.math import exp, log
from apass.relay.op.elementwise.math import sqrt as sqrt_of
from apass.relay.op.elementwise.trigonometry import cos, cosh, sin, sinh
from apass.relay.op.gradients.support import Derivative, register_derivative, register_zero
from apass.relay.op.index.gather import where
from apass.relay.op.reduce import sum as sum_of
from apass.relay.op.shape.broadcast import broadcast_to_like, collapse_sum_like

__all__: list[str] = []


def _gaussian(x: Expr) -> Expr:
    return scalar_like(2 / sqrt(pi), x) * exp(-(x * x))


def _sech_squared(y: Expr) -> Expr:
    return ones_like(y) - y * y


_FACTORS: Final[Mapping[str, Derivative]] = {
    "cos": lambda x: -ones_like(x) * sin(x),
    "cosh": sinh,
    "sin": cos,
    "sinh": cosh,
    "acos": lambda x: -ones_like(x) / sqrt_of(ones_like(x) - x * x),
    "exp": exp,
    "fast_exp": exp,
    "sqrt": lambda x: scalar_like(0.5, x) * power(x, scalar_like(-0.5, x)),
    "rsqrt": lambda x: scalar_like(-0.5, x) * power(x, scalar_like(-1.5, x)),
    "erf": _gaussian,
    "fast_erf": _gaussian,
}
"""The derivatives of functions at `x`."""

_DIVISORS: Final[Mapping[str, Derivative]] = {
    "log": lambda x: x,
    "log2": lambda x: log(scalar_like(2, x)) * x,
    "log10": lambda x: log(scalar_like(10, x)) * x,
    "tan": lambda x: cos(x) * cos(x),
    "acosh": lambda x: sqrt_of(x * x - ones_like(x)),
    "asin": lambda x: sqrt_of(ones_like(x) - x * x),
    "asinh": lambda x: sqrt_of(ones_like(x) + x * x),
    "atan": lambda x: ones_like(x) + x * x,
    "atanh": lambda x: ones_like(x) - x * x,
}
"""The reciprocals of the derivatives of functions at `x`."""

_FROM_RESULT: Final[Mapping[str, Derivative]] = {
    "sigmoid": lambda y: y * (ones_like(y) - y),
    "tanh": _sech_squared,
    "fast_tanh": _sech_squared,
}
"""The derivatives of functions whose result is `y`."""

_CONSTANT: Final = (
    *("ceil", "floor", "round", "sign", "trunc"),
    *("floor_divide", "trunc_divide"),
    *("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"),
    *("logical_and", "logical_not", "logical_or", "logical_xor"),
    *("isfinite", "isinf", "isnan"),
    *("zeros_like", "ones_like"),
)
"""Operators that are constant except at jumps, so that their gradients are zero."""


def _register_divided(name: str, divisor: Derivative) -> None:
    def gradient(orig: Call, grad: Expr) -> Sequence[Expr]:
        return [grad / divisor(orig.args[0])]

    register_gradient(name, gradient)


def _register_from_result(name: str, derivative: Derivative) -> None:
    def gradient(orig: Call, grad: Expr) -> Sequence[Expr]:
        return [grad * derivative(orig)]

    register_gradient(name, gradient)


def _register_binary(name: str, partials: Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]) -> None:
    """Set the gradient of a broadcasting operator.

    `partials(x, y, result, grad)` returns the gradients in the shape of the result.
    """

    def gradient(orig: Call, grad: Expr) -> Sequence[Expr]:
        x, y = orig.args
        return [collapse_sum_like(part, arg) for part, arg in zip(partials(x, y, orig, grad), (x, y), strict=True)]

    register_gradient(name, gradient)


def _power(x: Expr, y: Expr, result: Expr, grad: Expr) -> tuple[Expr, Expr]:
    ones = ones_like(x)
    positive = greater(x, zeros_like(x))
    # The result depends on y through exp(y * log(x)), which exists for positive x alone.
    logarithm = log(where(positive, x, ones))
    return grad * (y * power(x, y - ones_like(y))), grad * (result * logarithm)


def _choice(chooses_first: Callable[[Expr, Expr], Expr]) -> Callable[[Expr, Expr, Expr, Expr], tuple[Expr, Expr]]:
    def partials(x: Expr, y: Expr, result: Expr, grad: Expr) -> tuple[Expr, Expr]:
        zero, first = zeros_like(grad), chooses_first(x, y)
        return where(first, grad, zero), where(first, zero, grad)

    return partials


def _less_equal(x: Expr, y: Expr) -> Expr:
    return greater_equal(y, x)


for _name, _derivative in _FACTORS.items():
    register_derivative(_name, _derivative)
for _name, _derivative in _DIVISORS.items():
    _register_divided(_name, _derivative)
for _name, _derivative in _FROM_RESULT.items():
    _register_from_result(_name, _derivative)
register_zero(_CONSTANT)
_register_binary("add", lambda x, y, result, grad: (grad, grad))
_register_binary("subtract", lambda x, y, result, grad: (grad, -grad))
_register_binary("multiply", lambda x, y, result, grad: (grad * y, grad * x))
_register_binary("divide", lambda x, y, result, grad: (grad / y, -(grad * result / y)))
_register_binary("power", _power)
_register_binary("maximum", _choice(greater_equal))
_register_binary("minimum", _choice(_less_equal))
_register_binary("floor_mod", lambda x, y, result, grad: (grad, -(grad * floor_divide(x, y))))
for _name in ("mod", "trunc_mod"):
    _register_binary(_name, lambda x, y, result, grad: (grad, -(grad * trunc_divide(x, y))))


@register_gradient("negative")
def _negative(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [-grad]


@register_gradient("abs")
def _abs(orig: Call, grad: Expr) -> Sequence[Expr]:
    x = orig.args[0]
    return [where(less(x, zeros_like(x)), -grad, grad)]


@register_gradient("clip")
def _clip(orig: Call, grad: Expr) -> Sequence[Expr]:
    x, attrs = orig.args[0], attrs_of(orig, ClipAttrs)
    low, high = (broadcast_to_like(scalar_like(bound, x), x) for bound in (attrs.a_min, attrs.a_max))
    inner = where(less(high, x), zeros_like(x), ones_like(x) * grad)
    return [where(less(x, low), zeros_like(x), inner)]


@register_gradient("where")
def _where(orig: Call, grad: Expr) -> Sequence[Expr]:
    condition, x, y = orig.args
    zero = zeros_like(grad)
    return [
        zeros_like(condition),
        collapse_sum_like(where(condition, grad, zero), x),
        collapse_sum_like(where(condition, zero, grad), y),
    ]


def _same(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [grad]


for _name in ("bitpack_end", "bitpack_start", "cast_hint", "checkpoint", "stop_fusion"):
    register_gradient(f"annotation.{_name}", _same)
for _name in ("copy", "on_device"):
    register_gradient(_name, _same)


@register_gradient("device_copy")
def _device_copy(orig: Call, grad: Expr) -> Sequence[Expr]:
    attrs = attrs_of(orig, DeviceCopyAttrs)
    return [call_op("device_copy", grad, src_dev_type=attrs.dst_dev_type, dst_dev_type=attrs.src_dev_type)]


@register_gradient("cast")
def _cast(orig: Call, grad: Expr) -> Sequence[Expr]:
    return [cast_like(grad, orig.args[0])]


@register_gradient("cast_like")
def _cast_like(orig: Call, grad: Expr) -> Sequence[Expr]:
    x, like = orig.args
    return [cast_like(grad, x), zeros_like(like)]


@register_gradient("full_like")
def _full_like(orig: Call, grad: Expr) -> Sequence[Expr]:
    data, fill_value = orig.args
    return [zeros_like(data), cast_like(sum_of(grad), fill_value)]
