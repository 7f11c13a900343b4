"""`TimeChange`: the times of a pass in two runs, with a verdict by a rank test."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import comb, erfc, inf, sqrt
from statistics import median
from typing import Final

__all__ = ["TimeChange", "TimeVerdict", "p_value"]

_SIGNIFICANT: Final = 0.01
"""The probability up to which a difference is a change.

With 5 against 5 samples, a p-value this small requires that all samples of one run are above all of the other.
"""
_SMALLEST: Final = 1e-4
"""Seconds. A smaller difference of the medians is noise: the clock of the host and its caches have as much."""
_EXACT: Final = 60
"""Number of samples up to which the distribution is computed exactly."""


class TimeVerdict(Enum):
    """The meaning of a difference of times."""

    SLOWER = "slower"
    """The second run takes longer, with a probability of error of at most 1%."""
    FASTER = "faster"
    """The second run takes less time, with a probability of error of at most 1%."""
    NOISE = "noise"
    """The samples do not show a change."""
    UNKNOWN = "unknown"
    """Too few samples to separate noise from change: 5 of each run are enough, or 4 and 6, or 3 and 9."""


@dataclass(frozen=True, slots=True)
class TimeChange:
    """The times of a pass in two runs.

    >>> change = TimeChange("Fuse", (1.0, 1.1, 1.2, 1.1, 1.0), (2.0, 2.1, 2.0, 2.3, 2.2))
    >>> change.verdict, round(change.ratio, 2)
    (<TimeVerdict.SLOWER: 'slower'>, 1.91)
    >>> TimeChange("Fuse", (1.0,), (2.0,)).verdict
    <TimeVerdict.UNKNOWN: 'unknown'>

    """

    name: str
    """The name of the pass."""
    first: tuple[float, ...]
    """The seconds in the first run, one number for each repetition; empty if the pass did not run."""
    second: tuple[float, ...]
    """The seconds in the second run."""

    @property
    def medians(self) -> tuple[float | None, float | None]:
        """The medians of both runs."""
        return _median(self.first), _median(self.second)

    @property
    def ratio(self) -> float | None:
        """The median of the second run divided by that of the first.

        It is None if one of them is missing.
        """
        first, second = self.medians
        if first is None or second is None:
            return None
        return second / first if first else (inf if second else 1.0)

    @property
    def p_value(self) -> float:
        """The probability of a difference like this by chance."""
        return p_value(self.first, self.second)

    @property
    def verdict(self) -> TimeVerdict:
        """Whether the difference is a change, or noise."""
        first, second = self.medians
        if first is None or second is None or not has_enough(len(self.first), len(self.second)):
            return TimeVerdict.UNKNOWN
        if abs(second - first) < _SMALLEST or self.p_value > _SIGNIFICANT:
            return TimeVerdict.NOISE
        return TimeVerdict.SLOWER if second > first else TimeVerdict.FASTER

    @property
    def mirrored(self) -> "TimeChange":
        """The change from the second run to the first."""
        return TimeChange(self.name, self.second, self.first)


def has_enough(first: int, second: int) -> bool:
    """Return whether these numbers of samples can show a change."""
    return _SIGNIFICANT * comb(first + second, first) >= 2


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the p-value of the two-sided test of Mann, Whitney and Wilcoxon.

    Draw the numbers into two groups of these sizes at random: it is the probability that the sums of their ranks are at
    least as far apart. It is exact for up to 60 numbers, also if some are equal.

    >>> round(p_value([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 4), p_value([1, 2], [1, 2])
    (0.0079, 1.0)
    """
    size, count = len(first), len(first) + len(second)
    if not first or not second:
        return 1.0
    ranks = _doubled_ranks([*first, *second])
    # Twice the mean of the sum of doubled ranks of `first`, an integer.
    distance = abs(sum(ranks[:size]) - size * (count + 1))
    if count > _EXACT:
        ties = sum(tied**3 - tied for tied in _tie_sizes(ranks))
        variance = size * (count - size) / 12 * (count + 1 - ties / (count * (count - 1)))
        # The ranks are doubled, and half a rank is subtracted as a correction for continuity.
        return erfc(max(0.0, (distance - 1) / 2) / sqrt(2 * variance)) if variance > 0 else 1.0
    # `ways[k][s]`: the number of ways to choose k ranks with the sum s.
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for total, number in ways[chosen - 1].items():
                ways[chosen][total + rank] = ways[chosen].get(total + rank, 0) + number
    extreme = sum(number for total, number in ways[size].items() if abs(total - size * (count + 1)) >= distance)
    return extreme / comb(count, size)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return twice the rank of each number; equal numbers have their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for index in order[start:end]:
            ranks[index] = start + 1 + end
        start = end
    return ranks


def _tie_sizes(ranks: Sequence[int]) -> list[int]:
    return [ranks.count(rank) for rank in set(ranks)]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
