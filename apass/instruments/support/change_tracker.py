"""Which run of a pass changed a module, so that a pass made of passes is not blamed for what they did."""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from apass.core.run import Run

__all__ = ["ChangeTracker"]


@dataclass(slots=True, eq=False)
class _Open:
    """A run that has begun."""

    first: Any
    """Its input."""
    latest: Any
    """What the run itself works on: its input, or what the last pass that it called made of it."""
    others: list[Any] = field(default_factory=list[Any])
    """What passes that it called on the side made, as the alternatives of a Race do."""


class ChangeTracker:
    """Knows the module that each run's own work began with. Modules are held only while their runs last."""

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[Run, _Open] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self, run: Run, mod: Any) -> None:
        """Note the input of a run that begins."""
        with self._lock:
            self._open[run] = _Open(mod, mod)

    def end(self, run: Run, result: Any) -> Any:
        """Return the module that the run's own work began with; `result` itself if it did nothing of its own.

        So for a Sequential it is the result of its last pass, and for a pass that calls none it is its input.
        """
        with self._lock:
            mine = self._open.pop(run, None)
            mod = result if mine is None else mine.first
            caller = None if run.parent is None else self._open.get(run.parent)
            if caller is not None:
                if caller.latest is mod:
                    caller.latest = result
                else:
                    caller.others.append(result)
            if mine is None:
                return result
            return result if any(result is one for one in mine.others) else mine.latest

    def input(self, run: Run) -> Any:
        """Return what the run works on now; None if it was not seen to begin."""
        with self._lock:
            mine = self._open.get(run)
            return None if mine is None else mine.latest

    def fail(self, run: Run) -> None:
        """Let go of a run that failed."""
        with self._lock:
            self._open.pop(run, None)
