"""Fast approximations: their distance from the exact functions."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from apass.relay import op
from apass.relay.expr import Call, Expr
from apass.relay.ir.expr import const
from tests.relay.op.values import value

_erf = np.vectorize(math.erf, otypes=["float64"])


@pytest.mark.parametrize(
    ("fast", "exact", "limit"),
    [(op.fast_exp, np.exp, 80.0), (op.fast_tanh, np.tanh, 20.0), (op.fast_erf, _erf, 6.0)],
)
def test_approximation_is_within_a_millionth(
    fast: Callable[[Expr], Call], exact: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]], limit: float
) -> None:
    points = np.concatenate([np.linspace(-limit, limit, 20001), np.geomspace(1e-30, 1, 101)]).astype("float32")
    result = value(fast(const(points)))
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact(points.astype("float64")), rtol=1e-6, atol=1e-37)


def test_fast_exp_saturates_at_both_ends() -> None:
    points = [-1000.0, -88.0, 88.7, 1000.0, float("inf"), -float("inf"), float("nan")]
    result = value(op.fast_exp(const(points, "float32")))
    np.testing.assert_allclose(result, [0, np.exp(-88), np.exp(np.float32(88.7)), np.inf, np.inf, 0, np.nan], rtol=1e-5)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf"])
def test_other_element_types_are_computed_exactly(name: str) -> None:
    data = const([-1.5, 0.1, 2.0], "float64")
    np.testing.assert_array_equal(value(getattr(op, f"fast_{name}")(data)), value(getattr(op, name)(data)))
