"""`walk_deep`: recursion without a depth limit, by means of generators."""

from collections.abc import Generator
from functools import partial
from typing import TypeAlias, TypeVar

__all__ = ["Walk", "walk_deep"]

R = TypeVar("R")

Walk: TypeAlias = Generator["Walk[R]", R, R]
"""A recursive function as a generator: yields a walk to receive its result, and returns its own result."""


def walk_deep(walk: "Walk[R]") -> R:
    """Run a walk and return its result. Memory is the only limit of nesting.

    An error in a nested walk is raised at the `yield` of its caller, as in a recursive function.

    >>> def depth(nested: list[list]) -> Walk[int]:
    ...     return 1 + (yield depth(nested[0])) if nested else 0
    >>> nested = []
    >>> for _ in range(100_000):
    ...     nested = [nested]
    >>> walk_deep(depth(nested))
    100000
    """
    callers: list[Walk[R]] = []
    resume = partial(next, walk)
    while True:
        try:
            nested_walk = resume()
        except StopIteration as done:
            result: R = done.value
            if not callers:
                return result
            walk = callers.pop()
            resume = partial(walk.send, result)
        except Exception as error:
            if not callers:
                raise
            walk = callers.pop()
            resume = partial(walk.throw, error)
        else:
            callers.append(walk)
            walk = nested_walk
            resume = partial(next, walk)
