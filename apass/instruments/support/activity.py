"""Counts of the running modules, passes and functions, and what they wait for.

`ProgressInstrument` and `LiveViewInstrument` are built on `Activity`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from time import perf_counter

from apass.core.run import Run
from apass.instruments.support.events import Event

__all__ = ["ActiveCounts", "ActiveRun", "Activity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCounts:
    """Progress of a run, as counts."""

    modules: int = 0
    """Modules that are being processed."""
    modules_done: int = 0
    """Modules that have ended, including those that failed."""
    modules_failed: int = 0
    """Modules in which a pass raised or was cancelled."""
    passes: int = 0
    """Runs of passes that have not ended, including those that wait for passes that they called."""
    passes_done: int = 0
    """Runs of passes that have ended."""
    functions: int = 0
    """Functions that function passes are processing."""
    functions_done: int = 0
    """Functions that have been processed, counted once for each pass."""
    functions_failed: int = 0
    """How many of `functions_done` raised or were cancelled."""
    seconds: float = 0.0
    """Seconds since the first pass began."""

    @property
    def modules_per_second(self) -> float:
        """Average number of modules that end in a second."""
        return self.modules_done / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveRun:
    """A running pass or function body that waits for no other pass or body."""

    run: Run
    """The run of the pass or of the body."""
    seconds: float
    """Seconds since it began."""
    waiting: float | None
    """Seconds since it last yielded to the event loop, or since a pass or a body that it called has ended.

    It is None if it has not yielded yet.
    """
    since: float | None
    """The `time.perf_counter` from which `waiting` counts; two looks at one wait find the same."""
    busy: float
    """Seconds for which it has occupied the event loop."""
    waits_for: tuple[str, ...]
    """What it waits for, as named by `waiting_for`, outermost first."""


class _ActiveItem:
    __slots__ = ("begin", "below", "busy", "resumed", "run", "until", "waits")

    def __init__(self, run: Run, now: float) -> None:
        self.run = run
        self.begin = now
        self.until: float | None = None
        self.resumed = now
        self.busy = 0.0
        self.below = 0
        self.waits: list[str] = []


class Activity:
    """Tracks the passes and bodies that run now.

    All methods are thread-safe. Memory grows with the number of concurrent runs, not with the number of all runs.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._entries: dict[Run, _ActiveItem] = {}
        self._counts: Counter[str] = Counter()
        self._first: float | None = None
        self._lock = Lock()

    def handle(self, event: Event) -> None:
        """Record an event of a pass or of a function body in this process."""
        if event.run is None:
            return
        if event.kind == "started":
            self.begin(event.run)
        elif event.kind == "waiting":
            self.wait(event.run, event.what, event.is_over)
        else:
            self.end(event.run, failed=event.kind == "failed")

    def begin(self, run: Run) -> None:
        """Record the start of a pass or of a function body."""
        now = self._clock()
        with self._lock:
            if run in self._entries:
                return  # two contexts use the same instrument, so each hook is called twice
            if self._first is None:
                self._first = now
            self._entries[run] = _ActiveItem(run, now)
            above = self._above(run)
            if above is not None:
                above.below += 1
            for kind in _kinds(run):
                self._counts[kind] += 1

    def step(self, run: Run, start: float, end: float) -> None:
        """Record an interval in which a pass or a body occupied the event loop."""
        with self._lock:
            entry = self._entries.get(run)
            if entry is not None and (entry.until is None or start >= entry.until):
                entry.busy += end - start
                entry.until = end

    def wait(self, run: Run, what: str, is_over: bool) -> None:
        """Record the start or the end of a wait for `what` in a pass or a body."""
        with self._lock:
            entry = self._entries.get(run)
            if entry is None:
                return
            if not is_over:
                entry.waits.append(what)
            elif what in entry.waits:
                entry.waits.remove(what)

    def end(self, run: Run, *, failed: bool) -> None:
        """Record the end of a pass or of a function body."""
        now = self._clock()
        with self._lock:
            if self._entries.pop(run, None) is None:
                return
            above = self._above(run)
            if above is not None:
                above.below -= 1
                # It goes on now. Its last step ended before the pass that it waited for.
                above.resumed = now
            for kind in _kinds(run):
                self._counts[kind] -= 1
                self._counts[f"{kind}_done"] += 1
                self._counts[f"{kind}_failed"] += failed

    def add(self, counts: ActiveCounts) -> None:
        """Add the passes and functions that have ended elsewhere, as in a worker."""
        with self._lock:
            for name in ("passes_done", "functions_done", "functions_failed"):
                self._counts[name] += getattr(counts, name)

    def lose(self) -> None:
        """Count a module that failed before its first pass began."""
        with self._lock:
            self._counts["modules_done"] += 1
            self._counts["modules_failed"] += 1

    def counts(self) -> ActiveCounts:
        """Return the current counts."""
        with self._lock:
            seconds = 0.0 if self._first is None else self._clock() - self._first
            counts = {name: self._counts[name] for name in ActiveCounts.__dataclass_fields__ if name != "seconds"}
            return replace(ActiveCounts(**counts), seconds=seconds)

    def running(self) -> list[ActiveRun]:
        """Return the innermost running passes and bodies, longest wait first."""
        now = self._clock()
        with self._lock:
            runs = [
                ActiveRun(
                    run=entry.run,
                    seconds=now - entry.begin,
                    waiting=None if entry.until is None else now - max(entry.until, entry.resumed),
                    since=None if entry.until is None else max(entry.until, entry.resumed),
                    busy=entry.busy,
                    waits_for=tuple(entry.waits),
                )
                for entry in self._entries.values()
                if entry.below == 0
            ]
        return sorted(runs, key=lambda active: -(active.waiting or 0))

    def _above(self, run: Run) -> _ActiveItem | None:
        above = run.body_of or run.parent
        return None if above is None else self._entries.get(above)


def _kinds(run: Run) -> tuple[str, ...]:
    if run.body_of is not None:
        return ("functions",)
    is_outermost = run.parent is None or run.parent.module != run.module
    return ("passes", "modules") if is_outermost else ("passes",)
