"""`Share`: what one question may take of a budget, so that none eats up what others still need."""

import math
from time import monotonic

import anyio

from apass.core.deadline import Budget
from apass.errors import BudgetExceededError

__all__ = ["Share", "rounds"]


def rounds(waiting: int, at_once: float) -> int:
    """Return in how many rounds this question and those `waiting` are asked, `at_once` in each.

    >>> rounds(0, 8), rounds(7, 8), rounds(8, 8), rounds(1000, float("inf"))
    (1, 1, 2, 1)
    """
    return max(1, math.ceil((1 + waiting) / at_once))


class Share:
    """One question's part of a budget: all that is left until it begins, then a fair share of it.

    A fair share is what is left, divided by the rounds still to come. What a question does not use goes back to all.
    """

    __slots__ = ("_budget", "_scope", "_seconds")

    def __init__(self, budget: Budget, scope: anyio.CancelScope) -> None:
        self._budget = budget
        self._scope = scope
        self._seconds: float | None = None

    def begin(self, rounds_to_come: int) -> None:
        """Take a fair share, beginning now; a question that has begun already goes on with what it has."""
        if self._seconds is None:
            self._seconds = self._budget.left() / rounds_to_come
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + self._seconds)

    def exceeded(self, name: str) -> BudgetExceededError:
        """Return the error that the question to `name` was cut off."""
        what = f"the question to {name}"
        if self._seconds is None or monotonic() >= self._budget.ends:
            return self._budget.exceeded(what)
        part = f"its fair share, {self._seconds:.3g} s, of the budget of {self._budget.seconds:g} s"
        return BudgetExceededError(f"{what} took longer than {part}; others still wait for their turn")
