"""`Activity`: which modules, passes and functions are at work now, and what for they wait; for instruments."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from time import perf_counter

from apass.core.run import Run

__all__ = ["Activity", "AtWork", "Counts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How far a run has come."""

    modules: int = 0
    """Modules at work."""
    modules_done: int = 0
    """Modules that came to their end, those that failed included."""
    modules_failed: int = 0
    """Modules in which a pass raised or was cancelled."""
    passes: int = 0
    """Runs of passes at work, those that wait for the passes which they call included."""
    passes_done: int = 0
    """Runs of passes that have ended."""
    functions: int = 0
    """Functions at work in function passes."""
    functions_done: int = 0
    """Functions that passes have ended with; one counts for each pass."""
    functions_failed: int = 0
    """How many of them raised or were cancelled."""
    seconds: float = 0.0
    """Since the first pass began."""

    @property
    def modules_per_second(self) -> float:
        """How many modules come to their end in a second, on the average."""
        return self.modules_done / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """One pass or body at work that waits for no other pass or body."""

    run: Run
    """Which."""
    seconds: float
    """How long it has been at work."""
    waiting: float | None
    """How long it has waited; None if it has not given the loop back since it began."""
    busy: float
    """How long it has held the loop."""
    waits_for: tuple[str, ...]
    """What it has named as what it waits for, the innermost last."""


class _Entry:
    __slots__ = ("begin", "below", "busy", "run", "until", "waits")

    def __init__(self, run: Run, now: float) -> None:
        self.run = run
        self.begin = now
        self.until: float | None = None
        self.busy = 0.0
        self.below = 0
        self.waits: list[str] = []


class Activity:
    """Keeps count of what is at work; any thread may tell it and ask it. Memory holds what is at work and no more."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._entries: dict[Run, _Entry] = {}
        self._counts: Counter[str] = Counter()
        self._first: float | None = None
        self._lock = Lock()

    def begin(self, run: Run) -> None:
        """Note that a pass begins, or a body."""
        now = self._clock()
        with self._lock:
            if run in self._entries:
                return  # the instrument is in force twice
            if self._first is None:
                self._first = now
            self._entries[run] = _Entry(run, now)
            above = self._above(run)
            if above is not None:
                above.below += 1
            for kind in _kinds(run):
                self._counts[kind] += 1

    def step(self, run: Run, start: float, end: float) -> None:
        """Note that a pass or a body has held the loop, and has given it back."""
        with self._lock:
            entry = self._entries.get(run)
            if entry is not None and (entry.until is None or start >= entry.until):
                entry.busy += end - start
                entry.until = end

    def wait(self, run: Run | None, what: str, is_over: bool) -> None:
        """Note what a pass or a body says that it waits for, or that this is over."""
        with self._lock:
            entry = None if run is None else self._entries.get(run)
            if entry is None:
                return
            if not is_over:
                entry.waits.append(what)
            elif what in entry.waits:
                entry.waits.remove(what)

    def end(self, run: Run, *, failed: bool) -> None:
        """Note that a pass or a body has ended."""
        with self._lock:
            if self._entries.pop(run, None) is None:
                return
            above = self._above(run)
            if above is not None:
                above.below -= 1
            for kind in _kinds(run):
                self._counts[kind] -= 1
                self._counts[f"{kind}_done"] += 1
                self._counts[f"{kind}_failed"] += failed

    def lose(self) -> None:
        """Count a module that failed before a pass began on it."""
        with self._lock:
            self._counts["modules_done"] += 1
            self._counts["modules_failed"] += 1

    def counts(self) -> Counts:
        """Return how far all has come."""
        with self._lock:
            seconds = 0.0 if self._first is None else self._clock() - self._first
            known = {name: self._counts[name] for name in Counts.__dataclass_fields__ if name != "seconds"}
            return replace(Counts(**known), seconds=seconds)

    def at_work(self) -> list[AtWork]:
        """Return the innermost passes and bodies at work, those that have waited longest first."""
        now = self._clock()
        with self._lock:
            found = [self._told(entry, now) for entry in self._entries.values() if entry.below == 0]
        return sorted(found, key=lambda one: -(one.waiting or 0))

    def _told(self, entry: _Entry, now: float) -> AtWork:
        return AtWork(
            run=entry.run,
            seconds=now - entry.begin,
            waiting=None if entry.until is None else now - entry.until,
            busy=entry.busy,
            waits_for=tuple(entry.waits),
        )

    def _above(self, run: Run) -> _Entry | None:
        above = run.body_of or run.parent
        return None if above is None else self._entries.get(above)


def _kinds(run: Run) -> tuple[str, ...]:
    if run.body_of is not None:
        return ("functions",)
    is_outermost = run.parent is None or run.parent.module != run.module
    return ("passes", "modules") if is_outermost else ("passes",)
