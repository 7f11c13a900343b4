"""`walk_deep`: recursion without a limit on its depth, for anything that follows the nesting of a program."""

from collections.abc import Generator
from functools import partial
from typing import TypeAlias, TypeVar

__all__ = ["Walk", "walk_deep"]

R = TypeVar("R")

Walk: TypeAlias = Generator["Walk[R]", R, R]
"""A recursive function written as a generator: it yields the walk whose result it wants, and returns its own."""


def walk_deep(walk: "Walk[R]") -> R:
    """Return the result of a walk; how deep walks are nested in it is bounded by memory alone.

    An error in a walk is raised where its result was asked for, as in a recursive function.

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
            asked = resume()
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
            walk = asked
            resume = partial(next, walk)
