"""`Fit` and `settle`: whether a pattern fits, found out without recursion, however deep patterns are nested."""

from collections.abc import Generator
from typing import TypeAlias

__all__ = ["Fit", "Search", "settle"]

Search: TypeAlias = Generator["Fit", bool, bool]
"""A function that must ask before it can tell: it yields each question, is sent the answer, and returns its own."""
Fit: TypeAlias = bool | Search
"""Whether something fits, or the search that tells."""


def settle(fit: Fit) -> bool:
    """Return whether it fits: run the search, and those that it asks for.

    >>> def every(count: int) -> Search:
    ...     return not count or (yield every(count - 1))
    >>> settle(every(100_000)), settle(False)
    (True, False)
    """
    waiting: list[Search] = []
    while True:
        try:
            if not isinstance(fit, bool):
                waiting.append(fit)
                fit = next(fit)
            elif waiting:
                fit = waiting[-1].send(fit)
            else:
                return fit
        except StopIteration as told:
            waiting.pop()
            fit = bool(told.value)
