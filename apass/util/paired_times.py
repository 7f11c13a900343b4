"""`PairedTimes`: whether one of two variants is faster, from runs that alternate.

The methods assume no distribution of the times. Noise only makes runs longer, so the times are not normal.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import perf_counter
from typing import Final, Literal

from apass.util.checks import is_count, is_seconds

__all__ = ["AlternatingRounds", "PairedTimes", "median_interval", "signed_rank_p_value"]

CONFIDENCE: Final = 0.95
"""The chance that the interval contains the true ratio. The rank test may be wrong with the chance of the rest."""

MOST_EXACT: Final = 50
"""The number of differences up to which the rank test is exact: it takes 3 ms for so many."""


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """The times of a baseline and of a candidate, whose runs alternated.

    A round is one run of each. Only runs of the same round are compared, so that a change of the machine's speed
    affects both. The rank test decides on `verdict`; `ratio` and `interval` are the size of the difference.

    Parameters:
        baseline: seconds of the baseline in each round.
        candidate: seconds of the candidate in each round.

    Raises:
        ValueError: if there are no rounds, not as many of both, or times that are not positive and finite.

    >>> times = PairedTimes((4.0, 4.1, 4.0, 4.2, 4.0, 4.1), (2.0, 2.0, 2.1, 2.1, 2.0, 2.1))
    >>> times.verdict, round(times.ratio, 2)
    ('faster', 0.5)
    >>> print(times)
    faster: 0.5 of the time (0.488 to 0.525), noise 2.4%, 6 rounds

    """

    baseline: tuple[float, ...]
    """Seconds of the baseline in each round."""
    candidate: tuple[float, ...]
    """Seconds of the candidate in each round."""

    def __post_init__(self) -> None:
        if not self.baseline or len(self.baseline) != len(self.candidate):
            counts = f"{len(self.baseline)} of the baseline and {len(self.candidate)} of the candidate"
            raise ValueError(f"both variants must have the same number of times, at least 1, got {counts}")
        for seconds in (*self.baseline, *self.candidate):
            _check_time(seconds)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return len(self.baseline)

    @property
    def ratio(self) -> float:
        """The median of the ratios of candidate to baseline; below 1 if it is faster."""
        return math.exp(_median(self._log_ratios()))

    @property
    def interval(self) -> tuple[float, float]:
        """A 95% confidence interval of the ratio; `(0, inf)` for less than 6 rounds."""
        low, high = median_interval(self._log_ratios(), CONFIDENCE)
        return math.exp(low), math.exp(high)

    @property
    def p_value(self) -> float:
        """The chance of a difference as clear as this if both are equally fast."""
        return signed_rank_p_value(self._log_ratios())

    @property
    def verdict(self) -> Literal["faster", "slower", "equal"]:
        """Whether the candidate is faster or slower, or equal up to `within`."""
        ratio = self.ratio
        if ratio == 1 or self.p_value >= 1 - CONFIDENCE:
            return "equal"
        return "faster" if ratio < 1 else "slower"

    @property
    def within(self) -> float:
        """The largest relative difference in the interval; infinite for few rounds."""
        low, high = self.interval
        return max(high, 1 / low if low else math.inf) - 1

    @property
    def noise(self) -> float:
        """The relative spread of the runs of one variant, the larger of both.

        It is the median distance from the median, divided by the median.
        """
        return max(_spread(self.baseline), _spread(self.candidate))

    def __str__(self) -> str:
        low, high = self.interval
        details = (
            f"{self.ratio:.3g} of the time ({low:.3g} to {high:.3g}), noise {self.noise:.1%}, {self.rounds} rounds"
        )
        if self.verdict == "equal":
            # Few rounds show nothing.
            return f"{'undecided' if math.isinf(self.within) else f'equal within {self.within:.1%}'}: {details}"
        return f"{self.verdict}: {details}"

    def _log_ratios(self) -> list[float]:
        # Logarithms make both directions alike: exchanging the variants changes the signs and nothing else.
        return [math.log(after) - math.log(before) for before, after in zip(self.baseline, self.candidate, strict=True)]


class AlternatingRounds:
    """Rounds in which variants run one after the other.

    Iterate over it to get the index of the variant to run next, and record the seconds of that run. The order is
    reversed in each round, so that no variant is always first. Plain and async code can use it, also in a worker.

    It stops after a round if the confidence interval of every ratio to the first variant is narrow, or the budget ends.

    Parameters:
        variants: the number of variants.
        width: the difference of the ends of an interval that is narrow; with 0, only the budget ends the rounds.
        seconds: no round starts after so many seconds.
        most: the largest number of rounds.
        least: the number of rounds that run however long they take.

    Raises:
        ValueError: if a parameter is out of range.

    >>> rounds, runs = AlternatingRounds(most=3), []
    >>> for variant in rounds:
    ...     runs.append(variant)
    ...     rounds.record([2.0, 1.0][variant])
    >>> runs, rounds.paired().ratio
    ([0, 1, 1, 0, 0, 1], 0.5)

    """

    def __init__(
        self, variants: int = 2, *, width: float = 0.0, seconds: float = math.inf, most: int = 200, least: int = 1
    ) -> None:
        if width != 0 and not is_seconds(width):
            raise ValueError(f"width must be a number, 0 or more, got {width!r}")
        if not is_seconds(seconds):
            raise ValueError(f"seconds must be a number above 0, got {seconds!r}")
        for name, value in (("variants", variants), ("most", most), ("least", least)):
            if not is_count(value):
                raise ValueError(f"{name} must be an int of at least 1, got {value!r}")
        self.times: Final[tuple[list[float], ...]] = tuple([] for _ in range(variants))
        """Seconds of the runs of each variant."""
        self._width = width
        self._seconds = seconds
        self._most = most
        self._least = least
        self._current: int | None = None

    def __iter__(self) -> Iterator[int]:
        ends = perf_counter() + self._seconds
        order = range(len(self.times))
        while not self._is_enough(perf_counter() > ends):
            for variant in order:
                self._current = variant
                yield variant
                if self._current is not None:
                    raise RuntimeError(f"the run of variant {variant} was not recorded; call `record` after each run")
            order = order[::-1]

    @property
    def is_complete(self) -> bool:
        """Whether all variants have run as often, at least once."""
        return len({len(times) for times in self.times}) == 1 and bool(self.times[0])

    def record(self, seconds: float) -> None:
        """Record the seconds of the run that the iteration asked for.

        Raises:
            ValueError: if they are not positive and finite.
            RuntimeError: if no run is due.

        """
        variant, self._current = self._current, None
        if variant is None:
            raise RuntimeError("no run is due; call `record` once for each variant of the iteration")
        _check_time(seconds)
        self.times[variant].append(seconds)

    def paired(self, variant: int = 1) -> PairedTimes:
        """Return the times of the first variant, the baseline, and of another one.

        Raises:
            ValueError: if no round is complete.

        """
        count = min(map(len, self.times))
        return PairedTimes(tuple(self.times[0][:count]), tuple(self.times[variant][:count]))

    def _is_enough(self, is_late: bool) -> bool:
        count = len(self.times[-1])
        if count < self._least:
            return False
        return is_late or count >= self._most or self._is_narrow()

    def _is_narrow(self) -> bool:
        # The width does not depend on which variant is faster. So stopping by it favors no verdict, unlike stopping at
        # the first p-value that is small enough.
        if not self._width or len(self.times) == 1:
            return False
        intervals = (self.paired(variant).interval for variant in range(1, len(self.times)))
        return all(high - low <= self._width for low, high in intervals)


def median_interval(values: Sequence[float], confidence: float) -> tuple[float, float]:
    """Return a confidence interval of the median: two of the values, or infinities.

    The number of values below the median is binomial, whatever the distribution of the values. Source: David and
    Nagaraja, "Order Statistics", 2003, section 7.1.

    >>> median_interval([5.0, 1.0, 3.0, 2.0, 6.0, 4.0], 0.95)
    (1.0, 6.0)
    >>> median_interval([1.0, 2.0], 0.95)
    (-inf, inf)
    """
    count = len(values)
    # Leave out as many values at each end as are in the tail of the binomial distribution.
    ways, total, outside = 1, 1, 0
    while total / (1 << count) <= (1 - confidence) / 2:
        outside += 1
        ways = ways * (count - outside + 1) // outside
        total += ways
    if not outside:
        return -math.inf, math.inf
    ordered = sorted(values)
    return ordered[outside - 1], ordered[count - outside]


def signed_rank_p_value(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test for paired values.

    It is the chance of such ranks if the differences are symmetric around 0. Differences of 0 are left out, and equal
    ones share the mean of their ranks. With up to 50 differences it is exact, also for equal ones; with more, it is the
    normal approximation with corrections for equal ones and for continuity. Source: Wilcoxon, "Individual Comparisons
    by Ranking Methods", 1945; Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 2014, section 3.1.

    >>> signed_rank_p_value([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    0.03125
    """
    ordered = sorted((value for value in differences if value), key=abs)
    # Twice the ranks are integers, also the mean of several ranks.
    ranks: list[int] = []
    ties: list[int] = []
    positive = 0
    for _, group in groupby(ordered, key=abs):
        equal = list(group)
        rank = 2 * len(ranks) + len(equal) + 1
        positive += rank * sum(value > 0 for value in equal)
        ranks += [rank] * len(equal)
        ties.append(len(equal))
    if not ranks:
        return 1.0
    smaller = min(positive, sum(ranks) - positive)
    p_value = _exact_tail(ranks, smaller) if len(ranks) <= MOST_EXACT else _normal_tail(ranks, ties, smaller)
    return min(1.0, 2 * p_value)


def _exact_tail(ranks: Sequence[int], most: int) -> float:
    """Return the share of the subsets of ranks whose sum is at most `most`."""
    # The numbers of subsets by their sum, the coefficients of a polynomial, are the digits of one integer.
    digit = len(ranks) + 1
    counts = 1
    for rank in ranks:
        counts += counts << rank * digit
    mask = (1 << digit) - 1
    found = sum(counts >> total * digit & mask for total in range(most + 1))
    return found / (1 << len(ranks))


def _normal_tail(ranks: Sequence[int], ties: Sequence[int], most: int) -> float:
    """Approximate `_exact_tail` by a normal distribution."""
    count = len(ranks)
    mean = count * (count + 1) / 4
    variance = count * (count + 1) * (2 * count + 1) / 24 - sum(tie**3 - tie for tie in ties) / 48
    return math.erfc((mean - most / 2 - 0.5) / math.sqrt(2 * variance)) / 2


def _spread(times: Sequence[float]) -> float:
    middle = _median(times)
    return _median([abs(seconds - middle) for seconds in times]) / middle


def _median(values: Sequence[float]) -> float:
    # `statistics` takes 3 ms to import, and each program that has a `PassContext` imports this module.
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _check_time(seconds: float) -> None:
    if not is_seconds(seconds) or math.isinf(seconds):
        advice = "if a run is too short for the clock, time several calls as one run"
        raise ValueError(f"the time of a run must be a positive number of seconds, got {seconds!r}; {advice}")
