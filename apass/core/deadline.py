"""`Deadline`: when the time that `PassContext(deadline=...)` grants is over."""

from dataclasses import dataclass
from time import monotonic

from apass.errors import BudgetExceededError

__all__ = ["Deadline", "earlier"]


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, some seconds after a context was entered.

    The clock is `time.monotonic`, which all threads share.
    """

    seconds: float
    """The seconds that the context granted."""
    ends: float
    """The `time.monotonic` time at which none are left."""

    @classmethod
    def from_now(cls, seconds: float) -> "Deadline":
        """Return the deadline that is `seconds` from now."""
        return cls(seconds, monotonic() + seconds)

    def left(self) -> float:
        """Return the seconds that are left, 0 after the deadline."""
        return max(0.0, self.ends - monotonic())

    def exceeded(self, what: str) -> BudgetExceededError:
        """Return the error for unfinished work; `what` names it by a noun phrase.

        >>> str(Deadline.from_now(2.5).exceeded("pass 'Tune'"))
        "pass 'Tune' ran out of the budget of 2.5 s; give it a longer deadline, or do less"
        """
        advice = "give it a longer deadline, or do less"
        return BudgetExceededError(f"{what} ran out of the budget of {self.seconds:g} s; {advice}")


def earlier(a: Deadline | None, b: Deadline | None) -> Deadline | None:
    """Return the deadline that ends first; None, no limit, if both are None.

    >>> earlier(Deadline(9, ends=9), Deadline(5, ends=5)), earlier(None, None)
    (Deadline(seconds=5, ends=5), None)
    """
    if a is None or b is None:
        return a or b
    return a if a.ends <= b.ends else b
