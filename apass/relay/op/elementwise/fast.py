"""fast_exp, fast_tanh, fast_erf: approximations exact to about seven digits.

FastMath replaces the exact operators with these polynomials and fractions. Only float32 is approximated. Other element
types gain no speed from it and are computed exactly.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.op.define.unary import define_unary
from apass.relay.op.elementwise.math import exact_erf

__all__ = ["approximate_exp", "fast_erf", "fast_exp", "fast_tanh"]

Floats = npt.NDArray[np.float32]

_LN2_HIGH: Final = np.float32(0.693359375)
_LN2_LOW: Final = np.float32(math.log(2) - 0.693359375)
"""The logarithm of 2 in two parts, so that subtracting a multiple of it loses no precision."""
_EXP_TERMS: Final = 6
_TANH_TERMS: Final = 12
_ERF_TERMS: Final = 12
_ERF_TAIL: Final = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26."""
_ERF_TAIL_STEP: Final = 0.3275911


def _fast(approximation: Callable[[Floats], Array], exact: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def function(data: Array) -> Array:
        return approximation(data.astype("float32")) if data.dtype == np.float32 else exact(data)

    return function


def approximate_exp(data: Floats) -> Floats:
    """Return the exponential, approximately.

    The result is a power of two times Taylor's polynomial of the rest, which is at most ln(2) / 2.
    """
    # exp underflows to 0 below -104 and overflows to infinity above 88.7 in float32.
    bounded = np.clip(data, np.float32(-104.5), np.float32(88.8))
    power = np.floor(bounded * np.float32(1 / math.log(2)) + np.float32(0.5))
    rest = bounded - power * _LN2_HIGH - power * _LN2_LOW
    total = np.zeros_like(rest)
    for degree in reversed(range(_EXP_TERMS + 1)):
        total = total * rest + np.float32(1 / math.factorial(degree))
    return np.asarray(np.ldexp(total, power.astype("int32")), dtype="float32")


def _tanh(data: Floats) -> Array:
    # Lambert's continued fraction. Beyond 9, tanh rounds to 1 in float32.
    bounded = np.clip(data, np.float32(-9), np.float32(9))
    square = bounded * bounded
    fraction = np.full_like(bounded, 2 * _TANH_TERMS + 1)
    for term in reversed(range(_TANH_TERMS)):
        fraction = np.float32(2 * term + 1) + square / fraction
    return np.asarray(np.clip(bounded / fraction, np.float32(-1), np.float32(1)))


def _erf(data: Floats) -> Array:
    # Up to 1 the Taylor series around 0; beyond it, a polynomial times exp(-x * x).
    size = np.abs(data)
    square = np.minimum(size, np.float32(1)) ** 2
    series = np.zeros_like(data)
    for term in reversed(range(_ERF_TERMS)):
        sign = -1 if term % 2 else 1
        series = series * square + np.float32(sign / (math.factorial(term) * (2 * term + 1)))
    near = np.float32(2 / math.sqrt(math.pi)) * data * series
    step = np.float32(1) / (np.float32(1) + np.float32(_ERF_TAIL_STEP) * size)
    tail = np.zeros_like(data)
    for factor in _ERF_TAIL:
        tail = (tail + np.float32(factor)) * step
    far = np.copysign(np.float32(1) - tail * approximate_exp(-size * size), data)
    return np.where(size < 1, near, far)


_FAST_EXP = define_unary("fast_exp", _fast(approximate_exp, np.exp), "The exponential, approximately.")
_FAST_TANH = define_unary("fast_tanh", _fast(_tanh, np.tanh), "The hyperbolic tangent, approximately.")
_FAST_ERF = define_unary("fast_erf", _fast(_erf, exact_erf), "The error function, approximately.")


def fast_exp(data: Expr) -> Call:
    """Return the exponential of each element, approximately."""
    return Call(_FAST_EXP, (data,))


def fast_tanh(data: Expr) -> Call:
    """Return the hyperbolic tangent of each element, approximately."""
    return Call(_FAST_TANH, (data,))


def fast_erf(data: Expr) -> Call:
    """Return the error function of each element, approximately."""
    return Call(_FAST_ERF, (data,))
