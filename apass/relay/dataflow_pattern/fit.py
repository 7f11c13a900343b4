"""Matching without recursion, so that patterns can be nested to any depth."""

from collections.abc import Generator
from typing import TypeAlias

__all__ = ["Fit", "Search", "run_search"]

Search: TypeAlias = Generator["Fit", bool, bool]
"""A matching function as a generator: it yields each nested match, receives its result, and returns its own."""
Fit: TypeAlias = bool | Search
"""The result of a match, or the search that computes it."""


def run_search(fit: Fit) -> bool:
    """Return the result of a match; run its search, and the searches that it yields.

    >>> def every(count: int) -> Search:
    ...     return not count or (yield every(count - 1))
    >>> run_search(every(100_000)), run_search(False)
    (True, False)
    """
    stack: list[Search] = []
    while True:
        try:
            if not isinstance(fit, bool):
                stack.append(fit)
                fit = next(fit)
            elif stack:
                fit = stack[-1].send(fit)
            else:
                return fit
        except StopIteration as stop:
            stack.pop()
            fit = bool(stop.value)
