"""`ChangeTracker`: attributes changes of a module to the pass that made them.

A composite pass such as Sequential must not be reported as the author of changes that its inner passes made.
"""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from apass.core.run import Run

__all__ = ["ChangeTracker"]


@dataclass(slots=True, eq=False)
class _PassState:
    """Modules seen in a pass that has not ended."""

    first: Any
    """The input of the pass."""
    latest: Any
    """The module that the pass works on: its input, or the result of the last pass that it called."""
    others: list[Any] = field(default_factory=list[Any])
    """Results of inner passes that did not receive `latest`, such as the alternatives of a Race."""


class ChangeTracker:
    """Tracks the module that each pass itself last worked on.

    Modules are referenced only while their passes run.
    """

    def __init__(self) -> None:
        self._open: WeakKeyDictionary[Run, _PassState] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self, run: Run, mod: Any) -> None:
        """Record the input of a pass that begins."""
        with self._lock:
            self._open[run] = _PassState(mod, mod)

    def end(self, run: Run, result: Any) -> Any:
        """Return the module that the pass's own work began with.

        - For a Sequential, this is `result`: its inner passes made all changes.
        - For a pass that calls no other pass, this is its input, as for a pass that calls others on modules that it
          made.
        - If the pass was not seen to begin, this is `result`.
        """
        with self._lock:
            state = self._open.pop(run, None)
            mod = result if state is None else state.first
            caller = None if run.parent is None else self._open.get(run.parent)
            if caller is not None:
                if caller.latest is mod:
                    caller.latest = result
                elif result is not mod and (mod is caller.first or any(mod is other for other in caller.others)):
                    caller.others.append(result)
                # Otherwise the caller made `mod` itself. A Relay function pass, for example, infers the types of its
                # result. The whole change is that of the caller.
            if state is None:
                return result
            # A Race returns the result of one alternative. That alternative has been credited with the change.
            return result if any(result is other for other in state.others) else state.latest

    def input(self, run: Run) -> Any:
        """Return the module that the pass works on now.

        None if the pass was not seen to begin.
        """
        with self._lock:
            state = self._open.get(run)
            return None if state is None else state.latest

    def fail(self, run: Run) -> None:
        """Forget a pass that failed."""
        with self._lock:
            self._open.pop(run, None)
