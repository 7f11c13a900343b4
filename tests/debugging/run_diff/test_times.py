"""`TimeChange`: change and noise are separated by an exact rank test."""

from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.debugging.run_diff.times import TimeChange, TimeVerdict, has_enough, p_value

SAMPLES = st.lists(st.integers(0, 5).map(float), max_size=6)
BASE = (0.100, 0.101, 0.102, 0.103, 0.104)


def by_enumeration(first: list[float], second: list[float]) -> float:
    """Return the p-value by its definition: over all ways to choose the first group."""
    values = [*first, *second]
    ranks = [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]
    mean = len(first) * (len(values) + 1) / 2
    observed = abs(sum(ranks[: len(first)]) - mean)
    sums = [sum(chosen) for chosen in combinations(ranks, len(first))]
    return sum(abs(total - mean) >= observed for total in sums) / comb(len(values), len(first))


@given(SAMPLES.filter(bool), SAMPLES.filter(bool))
def test_p_value_is_that_of_all_choices(first: list[float], second: list[float]) -> None:
    assert p_value(first, second) == pytest.approx(by_enumeration(first, second))


@given(SAMPLES, SAMPLES)
def test_p_value_is_symmetric(first: list[float], second: list[float]) -> None:
    assert p_value(first, second) == p_value(second, first)


def test_many_samples_use_a_close_approximation() -> None:
    first = [float(3 * number % 37) for number in range(30)]
    second = [value + 6 for value in first]
    exact = p_value(first, second)
    assert p_value([*first, 18.0], [*second, 24.0]) == pytest.approx(exact, rel=0.15)
    assert p_value([1.0] * 40, [1.0] * 40) == 1.0


def test_separate_samples_are_a_change() -> None:
    slow = tuple(1.5 * seconds for seconds in BASE)
    change = TimeChange("A", BASE, slow)
    assert (change.verdict, change.mirrored.verdict) == (TimeVerdict.SLOWER, TimeVerdict.FASTER)
    assert change.ratio == pytest.approx(1.5)
    assert change.p_value == pytest.approx(2 / 252)


def test_overlapping_samples_are_noise() -> None:
    change = TimeChange("A", BASE, (0.150, 0.151, 0.152, 0.1035, 0.154))
    assert (change.verdict, round(change.p_value, 3)) == (TimeVerdict.NOISE, 0.016)


def test_tiny_differences_are_noise() -> None:
    tiny = tuple(seconds / 1e6 for seconds in BASE)
    assert TimeChange("A", tiny, tuple(9 * seconds for seconds in tiny)).verdict is TimeVerdict.NOISE


@pytest.mark.parametrize(("first", "second"), [((1.0,), (9.0,)), (BASE[:4], BASE), ((), BASE), ((), ())])
def test_few_samples_have_no_verdict(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    assert TimeChange("A", first, second).verdict is TimeVerdict.UNKNOWN


def test_enough_samples_are_those_documented() -> None:
    pairs = [(first, second) for first in range(1, 9) for second in range(first, 12)]
    smallest = [pair for pair in pairs if has_enough(*pair) and not has_enough(pair[0], pair[1] - 1)]
    assert smallest[:3] == [(3, 9), (4, 6), (5, 5)]


def test_ratio_of_zero_is_defined() -> None:
    assert [TimeChange("A", (0.0,), second).ratio for second in ((0.0,), (1.0,), ())] == [1.0, float("inf"), None]
