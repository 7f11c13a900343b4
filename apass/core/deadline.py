"""`Deadline`: when the time that `PassContext(deadline=...)` grants is over."""

from dataclasses import dataclass, replace
from time import monotonic
from typing import Final, Self

from apass.errors import BudgetExceededError, PassTimeoutError

__all__ = ["LATE_SECONDS", "Deadline", "TimeLimit", "earlier"]

LATE_SECONDS: Final = 1.0
"""Seconds after the time limit of a module in which its pass can still fail by itself."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, some seconds after a context was entered."""

    # The clock is `time.monotonic`: threads share it, and unlike the clock of trio it exists outside of an event loop.

    seconds: float
    """The seconds that the context granted."""
    ends: float
    """The `time.monotonic` time at which none are left."""

    @classmethod
    def from_now(cls, seconds: float) -> Self:
        """Return the deadline that is `seconds` from now."""
        return cls(seconds, monotonic() + seconds)

    def left(self) -> float:
        """Return the seconds that are left, 0 after the deadline."""
        return max(0.0, self.ends - monotonic())

    def with_left(self, seconds: float) -> Self:
        """Return the deadline with other seconds left.

        A worker calls it: its clock starts elsewhere, so the seconds that are left are sent, not the time of the end.
        """
        return replace(self, ends=monotonic() + seconds)

    def exceeded(self, what: str) -> BudgetExceededError | PassTimeoutError:
        """Return the error for unfinished work; `what` names it by a noun phrase.

        >>> str(Deadline.from_now(2.5).exceeded("pass 'Tune'"))
        "pass 'Tune' ran out of the budget of 2.5 s; give it a longer deadline, or do less"
        """
        advice = "give it a longer deadline, or do less"
        return BudgetExceededError(f"{what} ran out of the budget of {self.seconds:g} s; {advice}")

    def missed(self, what: str) -> BudgetExceededError | PassTimeoutError:
        """Return the error for work that has not begun; `what` names it by a noun phrase."""
        return self.exceeded(what)


class TimeLimit(Deadline):
    """The end of the time for one module, as of `apass opt --timeout`."""

    __slots__ = ()

    def exceeded(self, what: str) -> PassTimeoutError:
        """Return the error for unfinished work; `what` names it by a noun phrase.

        >>> str(TimeLimit.from_now(2).exceeded("pass 'Tune'"))
        "pass 'Tune' took longer than the time limit of the module, 2 s; raise the limit, or fix the pass"
        """
        advice = "raise the limit, or fix the pass"
        return PassTimeoutError(f"{what} took longer than the time limit of the module, {self.seconds:g} s; {advice}")

    def missed(self, what: str) -> PassTimeoutError:
        """Return the error for work that has not begun; `what` names it by a noun phrase.

        >>> str(TimeLimit.from_now(2).missed("pass 'Tune'"))
        "pass 'Tune' did not begin within the time limit of the module, 2 s; other modules may have held the event loop"
        """
        advice = "other modules may have held the event loop"
        return PassTimeoutError(
            f"{what} did not begin within the time limit of the module, {self.seconds:g} s; {advice}"
        )


def earlier(a: Deadline | None, b: Deadline | None) -> Deadline | None:
    """Return the earlier deadline; None if neither is set.

    >>> earlier(Deadline(9, ends=9), Deadline(5, ends=5)), earlier(None, None)
    (Deadline(seconds=5, ends=5), None)
    """
    if a is None or b is None:
        return a or b
    return a if a.ends <= b.ends else b
