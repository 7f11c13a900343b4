"""`Budget`: the seconds that a `PassContext(deadline=...)` gives to everything beneath it."""

from dataclasses import dataclass
from time import monotonic

from apass.errors import BudgetExceededError

__all__ = ["Budget", "tighter"]


@dataclass(frozen=True, slots=True)
class Budget:
    """So many seconds from when a context was entered. Its clock is `time.monotonic`, which threads share."""

    seconds: float
    """What was given."""
    ends: float
    """The `time.monotonic` time at which nothing is left."""

    @classmethod
    def from_now(cls, seconds: float) -> "Budget":
        """Return a budget that begins now."""
        return cls(seconds, monotonic() + seconds)

    def left(self) -> float:
        """Return the seconds that are left, 0 once they are used up."""
        return max(0.0, self.ends - monotonic())

    def exceeded(self, what: str) -> BudgetExceededError:
        """Return the error that `what`, a noun phrase, was cut off, or not begun.

        >>> str(Budget.from_now(2.5).exceeded("pass 'Tune'"))
        "pass 'Tune' ran out of the budget of 2.5 s; give PassContext a longer deadline, or do less"
        """
        advice = "give PassContext a longer deadline, or do less"
        return BudgetExceededError(f"{what} ran out of the budget of {self.seconds:g} s; {advice}")


def tighter(one: Budget | None, other: Budget | None) -> Budget | None:
    """Return the budget that ends first; None, no limit, if both are.

    >>> tighter(Budget(9, ends=9), Budget(5, ends=5)), tighter(None, None)
    (Budget(seconds=5, ends=5), None)
    """
    if one is None or other is None:
        return one or other
    return one if one.ends <= other.ends else other
