"""Statistics of runs that alternate: known values, laws, and the rounds."""

import math
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.util.paired_times import AlternatingRounds, PairedTimes, median_interval, signed_rank_p_value

SECONDS = st.floats(1e-7, 1e4)
PAIRS = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=80)
# Whole numbers have equal differences and zeros.
DIFFERENCES = st.lists(st.integers(-6, 6).map(float), max_size=80)


def paired(pairs: list[tuple[float, float]]) -> PairedTimes:
    before, after = zip(*pairs, strict=True)
    return PairedTimes(before, after)


def constant(seconds: float, candidate: float, rounds: int) -> PairedTimes:
    return PairedTimes((seconds,) * rounds, (candidate,) * rounds)


def test_p_values_of_scipy() -> None:
    # From `scipy.stats.wilcoxon` 1.17: `exact`, `PermutationMethod` for ties and zeros, and `approx` with
    # `correction=True`. The first one is the example of its documentation.
    known = {
        (6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75): 0.041259765625,
        (1, 1, -1, 2, 3, 3, -2, 5, 0, 4): 0.0703125,
        tuple((index * 37 % 101) - 40 for index in range(60)): 0.022858234652659223,
        tuple((index * 37 % 11) - 4 for index in range(200)): 4.20317938972671e-05,
    }
    for differences, expected in known.items():
        assert signed_rank_p_value([float(value) for value in differences]) == pytest.approx(expected, rel=1e-12)


def test_exact_p_value_counts_all_signs() -> None:
    differences = [0.5, 1.0, 1.0, 2.0, 3.0, 3.0, 3.0, 5.0]
    ranks = [1, 2.5, 2.5, 4, 6, 6, 6, 8]
    sums = [sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign) for signs in product((0, 1), repeat=8)]
    for signs in ((1,) * 8, (1, -1, 1, 1, 1, -1, 1, 1), (-1, 1, 1, -1, 1, 1, 1, -1)):
        signed = [sign * value for sign, value in zip(signs, differences, strict=True)]
        found = sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign > 0)
        tail = min(sum(value <= found for value in sums), sum(value >= found for value in sums))
        assert signed_rank_p_value(signed) == min(1.0, 2 * tail / 2**8)


def test_without_differences_the_p_value_is_one() -> None:
    assert [signed_rank_p_value(values) for values in ([], [0.0, 0.0], [1.0])] == [1.0, 1.0, 1.0]


@given(DIFFERENCES)
def test_p_value_ignores_direction_order_and_zeros(differences: list[float]) -> None:
    p_value = signed_rank_p_value(differences)
    assert 0 <= p_value <= 1
    for same in ([-value for value in differences], differences[::-1], [*differences, 0.0]):
        assert signed_rank_p_value(same) == p_value


def test_interval_has_the_coverage_of_the_binomial() -> None:
    # `scipy.stats.binom.ppf(0.025, count, 0.5) - 1`, the number of values that may be left out at each end.
    for count, left_out in {5: None, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 20: 5, 100: 39}.items():
        low, high = median_interval([float(value) for value in range(count)], 0.95)
        expected = (-math.inf, math.inf) if left_out is None else (left_out, count - 1 - left_out)
        assert (low, high) == expected, count


@given(PAIRS)
def test_exchanged_variants_have_opposite_times(pairs: list[tuple[float, float]]) -> None:
    times, exchanged = paired(pairs), paired([(after, before) for before, after in pairs])
    opposite = {"faster": "slower", "slower": "faster", "equal": "equal"}
    assert exchanged.verdict == opposite[times.verdict]
    assert (exchanged.p_value, exchanged.noise) == (times.p_value, times.noise)
    assert exchanged.ratio == pytest.approx(1 / times.ratio)
    low, high = times.interval
    assert exchanged.interval == pytest.approx((1 / high, 1 / low if low else math.inf))
    assert exchanged.within == pytest.approx(times.within)


@given(PAIRS, st.integers(-30, 30))
def test_unit_of_the_times_does_not_matter(pairs: list[tuple[float, float]], exponent: int) -> None:
    factor = 2.0**exponent
    times, scaled = paired(pairs), paired([(before * factor, after * factor) for before, after in pairs])
    assert scaled.ratio == pytest.approx(times.ratio)
    assert scaled.interval == pytest.approx(times.interval)
    assert scaled.noise == pytest.approx(times.noise)


@given(PAIRS)
def test_interval_contains_the_ratio(pairs: list[tuple[float, float]]) -> None:
    times = paired(pairs)
    low, high = times.interval
    assert low <= times.ratio <= high
    # A difference of the whole interval from 1 is at most `within`.
    assert 1 / (1 + times.within) <= low * (1 + 1e-12)
    assert high <= (1 + times.within) * (1 + 1e-12)


def test_six_rounds_can_decide() -> None:
    assert [constant(2.0, 1.0, rounds).verdict for rounds in (5, 6)] == ["equal", "faster"]
    assert [constant(1.0, 2.0, rounds).verdict for rounds in (5, 6)] == ["equal", "slower"]
    assert constant(1.0, 1.0, 50).verdict == "equal"


def test_text_states_verdict_ratio_and_noise() -> None:
    assert str(constant(1.0, 2.0, 6)) == "slower: 2 of the time (2 to 2), noise 0.0%, 6 rounds"
    assert str(constant(1.0, 2.0, 5)) == "undecided: 2 of the time (0 to inf), noise 0.0%, 5 rounds"
    rows = ((1.0, 1.01), (1.0, 0.98), (1.0, 1.0), (1.0, 1.02), (1.0, 0.99), (1.0, 1.0))
    assert str(paired(list(rows))) == "equal within 2.0%: 1 of the time (0.98 to 1.02), noise 1.0%, 6 rounds"


def test_wrong_times_raise() -> None:
    for seconds in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^the time of a run must be a positive number of seconds, got "):
            PairedTimes((1.0,), (seconds,))
    for before, after in (((), ()), ((1.0,), (1.0, 1.0))):
        with pytest.raises(ValueError, match="the same number of times, at least 1, got"):
            PairedTimes(before, after)


def test_order_is_reversed_in_each_round() -> None:
    rounds, order = AlternatingRounds(3, most=2), list[int]()
    for variant in rounds:
        order.append(variant)
        rounds.record(1.0 + variant)
    assert order == [0, 1, 2, 2, 1, 0]
    assert rounds.times == ([1.0, 1.0], [2.0, 2.0], [3.0, 3.0])
    assert rounds.paired(2).ratio == pytest.approx(3.0)


def count_rounds(rounds: AlternatingRounds, *times: float) -> int:
    """Return the number of rounds of variants that always take the same times."""
    for variant in rounds:
        rounds.record(times[variant])
    return rounds.paired().rounds


def test_rounds_end_when_narrow_or_out_of_budget() -> None:
    assert count_rounds(AlternatingRounds(width=0.01), 1.0, 2.0) == 6
    assert count_rounds(AlternatingRounds(3, width=0.01), 1.0, 2.0, 3.0) == 6
    assert count_rounds(AlternatingRounds(width=0.01, most=4), 1.0, 2.0) == 4
    assert count_rounds(AlternatingRounds(most=9), 1.0, 2.0) == 9
    # At least one round takes place. Later ones start only within the time.
    assert count_rounds(AlternatingRounds(seconds=1e-12), 1.0, 2.0) == 1
    assert count_rounds(AlternatingRounds(seconds=1e-12, least=3), 1.0, 2.0) == 3


def test_wide_interval_needs_more_rounds() -> None:
    rounds = AlternatingRounds(width=0.25, most=1000)
    for index, variant in enumerate(rounds):
        rounds.record(1.0 if variant == 0 else 1.0 + (index // 2 % 10) / 10)
    low, high = rounds.paired().interval
    assert high - low <= 0.25
    assert 20 < rounds.paired().rounds < 1000


def test_each_run_is_recorded_once() -> None:
    rounds = AlternatingRounds()
    with pytest.raises(RuntimeError, match="no run is due"):
        rounds.record(1.0)
    with pytest.raises(RuntimeError, match="the run of variant 0 was not recorded"):
        list(rounds)


def test_wrong_parameters_of_rounds_raise() -> None:
    options: list[dict[str, Any]] = [{"width": -1.0}, {"seconds": 0.0}, {"most": 0}, {"least": True}, {"variants": 0}]
    for option in options:
        with pytest.raises(ValueError, match=f"^{next(iter(option))} must be "):
            AlternatingRounds(**option)
