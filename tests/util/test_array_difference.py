"""Differences between arrays: exact integers, tolerances, NaN and infinity."""

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apass.util.array_difference import array_difference

KINDS = ("int8", "int64", "uint64", "bool", ml_dtypes.int4, ml_dtypes.uint2)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_integers_have_no_tolerance(left: int, right: int) -> None:
    for dtype in ("int64", "uint64"):
        one, two = (np.array([value % 2**64 if dtype == "uint64" else value], dtype) for value in (left, right))
        found = array_difference(one, two, rtol=1.0, share=1.0, atol=1e30)
        assert (found is None) == (left == right)
        if found is not None:
            assert not found.is_near
            assert found.amount == float(abs(int(one[0]) - int(two[0])))


def test_every_integer_type_is_exact() -> None:
    for dtype in KINDS:
        found = array_difference(np.array([0, 1], dtype), np.array([1, 1], dtype), rtol=1.0, share=1.0, atol=10.0)
        assert found is not None
        assert (found.amount, found.is_near) == (1.0, False)
        assert found.text == "by up to 1 in 1 of 2 elements, where magnitudes reach 1"


def test_tolerances_add_up() -> None:
    left, right = np.array([1.0, 10.0]), np.array([1.5, 10.0])
    for near, far in (
        ({"rtol": 0.5}, {"rtol": 0.49}),
        ({"share": 0.05}, {"share": 0.049}),
        ({"atol": 0.5}, {"atol": 0.49}),
        ({"rtol": 0.2, "share": 0.02, "atol": 0.1}, {"rtol": 0.2, "share": 0.02, "atol": 0.09}),
    ):
        for tolerances, is_near in ((near, True), (far, False)):
            found = array_difference(left, right, **tolerances)
            assert found is not None
            assert found.is_near == is_near, tolerances


def test_nan_and_infinity_are_near_to_themselves_only() -> None:
    for left, right, is_near in (
        (np.nan, -np.nan, True),
        (0.0, -0.0, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, 1.0, False),
        (1.0, np.inf, False),
        (np.inf, -np.inf, False),
        (np.inf, np.nan, False),
    ):
        for dtype in ("float16", "float64", "complex64", ml_dtypes.bfloat16):
            one, two = np.array([left], dtype), np.array([right], dtype)
            found = array_difference(one, two, rtol=1.0, share=1.0, atol=10.0)
            if found is not None:
                assert found.is_near == is_near, (left, right, dtype)
                assert found.amount == (0.0 if is_near else np.inf)
                assert ("NaN in 1 before or after only" in found.text) == (np.isnan(left) != np.isnan(right))
            else:
                assert is_near
