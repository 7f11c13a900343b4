"""Whether a failure was made good, so that what came of it is not taken for a result; for the runner."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Failures", "note_failure", "watch_failures"]


class Failures:
    """Whether a body failed that `on_error` made good: the same work may come to something else another time."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        self.seen = False
        """Whether one did."""


_WATCHING: ContextVar[tuple[Failures, ...]] = ContextVar("apass_failures", default=())


@contextmanager
def watch_failures() -> Generator[Failures]:
    """Watch for failures made good, within the block and in tasks that it starts.

    >>> with watch_failures() as failures:
    ...     note_failure()
    >>> failures.seen
    True
    """
    failures = Failures()
    token = _WATCHING.set((*_WATCHING.get(), failures))
    try:
        yield failures
    finally:
        _WATCHING.reset(token)


def note_failure() -> None:
    """Tell all who watch that a failure was made good."""
    for failures in _WATCHING.get():
        failures.seen = True
