"""Amounts of work in tests: examples of laws, jobs, models, kills.

A test states the amount of a deep run, which has hours. The profile of Hypothesis gives the share that a run takes of
all amounts: `pytest --hypothesis-profile=deep` takes all, and the suite a sixth, or the share that a test states.

The suite takes the same examples in each run, so that it does not fail by luck; deep runs take new ones.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import HealthCheck, settings

__all__ = ["amount", "levels", "load_profiles", "some"]

T = TypeVar("T")

_DEEP: Final = 100
"""The examples of a law that states no amount, in a deep run."""
_SUITE: Final = 16
_SHARE: Final = _SUITE / _DEEP
_SUITE_LEVELS: Final = 2_000


def load_profiles() -> None:
    """Register the profiles of Hypothesis, and choose the one of the suite."""
    # The time of an example depends on the machine more than on the code.
    slow = [HealthCheck.too_slow]
    shared = settings(deadline=None, suppress_health_check=slow)
    settings.register_profile("suite", shared, max_examples=_SUITE, derandomize=True)
    settings.register_profile("deep", shared, max_examples=_DEEP, derandomize=False)
    settings.load_profile("suite")


def amount(deep: int, *, least: int = 3, share: float = _SHARE) -> int:
    """Return the share of an amount that this run takes.

    Parameters:
        deep: the amount in a deep run.
        least: the amount below which the test would not show its claim.
        share: the share that the suite takes; less than a sixth for a test that needs seconds otherwise.

    """
    examples = settings().max_examples
    part = examples / _DEEP if examples >= _DEEP else share * examples / _SUITE
    return min(deep, max(least, round(deep * part)))


def levels(deep: int) -> int:
    """Return the depth of a program that a recursive function could not visit.

    In the suite it is twice Python's limit of recursion. Depths at which code in C would use up its stack are for deep
    runs.
    """
    return deep if settings().max_examples >= _DEEP else min(deep, _SUITE_LEVELS)


def some(items: Sequence[T], *, least: int = 3) -> list[T]:
    """Return the share of some items that this run takes, spread over all of them."""
    count = amount(len(items), least=least)
    return [items[index * len(items) // count] for index in range(count)]
