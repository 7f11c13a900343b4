"""How long work is, counted instead of timed: the same on every machine, whatever else it does."""

import sys
from collections.abc import Callable

__all__ = ["calls_of"]


def calls_of(work: Callable[[], object]) -> int:
    """Return how many functions of Python are entered in some work."""
    count = 0

    def enter(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(enter)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
