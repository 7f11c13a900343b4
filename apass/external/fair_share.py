"""`Share`: the part of a deadline that one request may use."""

import math
from time import monotonic

import anyio

from apass.core.deadline import Deadline
from apass.errors import BudgetExceededError, PassTimeoutError

__all__ = ["Share", "rounds"]


def rounds(waiting: int, at_once: float) -> int:
    """Return the number of rounds for this and the `waiting` requests.

    Each round has `at_once` requests.

    >>> rounds(0, 8), rounds(7, 8), rounds(8, 8), rounds(1000, float("inf"))
    (1, 1, 2, 1)
    """
    return max(1, math.ceil((1 + waiting) / at_once))


class Share:
    """The part of a deadline that one request may use.

    Before the request starts, it is all of the remaining time. After that, it is a fair share: the remaining time
    divided by the remaining rounds. Unused time is available to all.
    """

    __slots__ = ("_deadline", "_scope", "_seconds")

    def __init__(self, deadline: Deadline, scope: anyio.CancelScope) -> None:
        self._deadline = deadline
        self._scope = scope
        self._seconds: float | None = None

    def begin(self, rounds_to_come: int) -> None:
        """Limit the request to a fair share from now on, at its first attempt only."""
        if self._seconds is None:
            self._seconds = self._deadline.left() / rounds_to_come
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + self._seconds)

    def exceeded(self, name: str) -> BudgetExceededError | PassTimeoutError:
        """Return the error for a request to `name` that was cut off."""
        label = f"the request to {name}"
        if self._seconds is None or monotonic() >= self._deadline.ends:
            return self._deadline.exceeded(label)
        part = f"its fair share, {self._seconds:.3g} s, of the budget of {self._deadline.seconds:g} s"
        return BudgetExceededError(f"{label} took longer than {part}; other requests are still queued")
