"""`ChangeLog`: the passes that changed a module, and the results from a store."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, final

from apass.core.context import current_scope
from apass.core.run import Run, RunCursor

__all__ = ["CHANGES", "ChangeLog", "TentativeChanges", "can_merge_passes", "tentative_changes", "without_changes"]


@final
class ChangeLog:
    """Counts, for one module, the executions of passes that returned another module.

    The runner compares identities only, so that a log costs next to nothing. A pass is not counted if a pass that it
    called was, so a Sequential is counted only if its result came from a store.
    """

    __slots__ = ("_callers", "changed", "stored")

    def __init__(self, changed: dict[str, int] | None = None, stored: dict[str, int] | None = None) -> None:
        self.changed: dict[str, int] = changed or {}
        """How often each pass changed the module, in the order of the first change."""
        self.stored: dict[str, int] = stored or {}
        """How many results of each pass came from a store."""
        self._callers: set[Run] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.changed, self.stored)

    def record(self, name: str, cursor: RunCursor) -> None:
        """Count a change by the pass `name`, which `cursor` runs."""
        # A pass that has called others has a `Run`.
        item = cursor.item
        if type(item) is Run and item in self._callers:
            return
        self.changed[name] = self.changed.get(name, 0) + 1
        caller = cursor.parent
        while caller is not None:
            self._callers.add(caller)
            caller = caller.parent

    def record_stored(self, name: str) -> None:
        """Count a result of the pass `name` that came from a store."""
        self.stored[name] = self.stored.get(name, 0) + 1

    def add(self, other: "ChangeLog") -> None:
        """Add the counts of another log."""
        for counts, others in ((self.changed, other.changed), (self.stored, other.stored)):
            for name, count in others.items():
                counts[name] = counts.get(name, 0) + count
        self._callers |= other._callers

    def clear(self) -> None:
        """Remove all counts."""
        self.changed.clear()
        self.stored.clear()


CHANGES: Final[ContextVar[ChangeLog | None]] = ContextVar("apass_changes", default=None)
"""The log of the module that this task works on; None if nothing reads it."""


@contextmanager
def without_changes() -> Generator[None]:
    """Count no changes in the block.

    A pass is then counted as a whole, and not by the passes that it calls.
    """
    token = CHANGES.set(None)
    try:
        yield
    finally:
        CHANGES.reset(token)


@final
class TentativeChanges:
    """The changes of results that may be dropped.

    An example is an alternative that fails.
    """

    __slots__ = ("_log", "_outer")

    def __init__(self, outer: ChangeLog | None, log: ChangeLog | None) -> None:
        self._outer = outer
        self._log = log

    def accept(self) -> None:
        """Count the changes recorded so far, because their result is used."""
        if self._outer is not None and self._log is not None:
            self._outer.add(self._log)
            self._log.clear()


@contextmanager
def tentative_changes() -> Generator[TentativeChanges]:
    """Count the changes in the block only if they are accepted.

    >>> log = ChangeLog()
    >>> token = CHANGES.set(log)
    >>> with tentative_changes() as changes:
    ...     CHANGES.get().record_stored("Tune")
    >>> log.stored
    {}
    >>> CHANGES.reset(token)
    """
    outer = CHANGES.get()
    log = None if outer is None else ChangeLog()
    CHANGES.set(log)
    try:
        yield TentativeChanges(outer, log)
    finally:
        CHANGES.set(outer)


def can_merge_passes() -> bool:
    """Return whether a pass may run in place of several ones.

    It may not if a store, a deadline or a record of changes looks at single passes. `Pass.merged_with` returns None
    then.
    """
    return current_scope().is_plain and CHANGES.get() is None
