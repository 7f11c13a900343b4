"""`watch_failures`: whether a result must not be cached, because some work failed."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from apass.concurrency.run_locals import RunLocal

__all__ = ["Failures", "note_failure", "watch_failures"]


class Failures:
    """Whether work failed that the result does without, so that it is not cached."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen: bool = False
        """True after such a failure. The result must not be cached: the next attempt may succeed."""


_WATCHING: Final[RunLocal[tuple[Failures, ...]]] = RunLocal("failures", ())


@contextmanager
def watch_failures() -> Generator[Failures]:
    """Record failures that the block, or a task that it starts, recovers from.

    >>> with watch_failures() as failures:
    ...     note_failure()
    >>> failures.seen
    True
    """
    failures = Failures()
    with _WATCHING.set_to((*_WATCHING.get(), failures)):
        yield failures


def note_failure() -> None:
    """Report to every surrounding `watch_failures` that work failed.

    `on_error` reports a body, and `PassContext.measuring` a measurement that was cancelled.
    """
    for failures in _WATCHING.get():
        failures.seen = True
