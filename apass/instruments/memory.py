"""`PassMemoryInstrument`: how much memory each pass took, by tracemalloc; for whoever looks for the greedy one."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from time import perf_counter
from typing import Any, Final

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import Run, current_run

__all__ = ["PassMemory", "PassMemoryInstrument"]

_NOT_EXACT: Final = (
    "several modules were at work at once, so memory of threads may be counted for another pass; it is exact with one "
    "at a time (apass opt --jobs 1)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMemory:
    """The memory that one pass took, over all its calls. Sizes are in bytes."""

    name: str
    """The name of the pass."""
    calls: int
    """How many calls have ended, failed ones included."""
    grown: int
    """What it allocated and had not freed at its end, less what it freed of others; over all calls."""
    peak: int
    """The most that a call had in use at once, beyond what there was when it began; of the call with most."""
    module: str | None
    """The name of the module of the call with that peak."""


@pass_instrument
class PassMemoryInstrument:
    """Measures the memory of passes, numpy's arrays included, by `tracemalloc`; passes take several times as long.

    Memory is counted for the pass that holds the loop, and for those that called it, so modules at work at once are
    told apart. What worker threads allocate meanwhile, and tasks outside of passes, is counted for the pass that holds
    the loop next: with one module at once that is the one that waits for them, and all is exact.

    Tracing begins when a context with the instrument is entered and ends when the last is left, unless it was on
    before. Memory of the instrument grows with the names of passes.

    >>> import apass
    >>> memory = PassMemoryInstrument()
    >>> Fill = apass.module_pass(lambda mod, ctx: {"f": bytes(1_000_000)}, opt_level=0, name="Fill")
    >>> _ = apass.run(Fill, {"f": b""}, context=apass.PassContext(instruments=[memory]))
    >>> [(one.name, round(one.grown / 1e6), round(one.peak / 1e6)) for one in memory.profile()]
    [('Fill', 1, 1)]

    """

    def __init__(self) -> None:
        self._marks: list[_Mark] = []
        self._calls: dict[Run, _Call] = {}
        self._totals: dict[str, _Total] = {}
        self._entered = 0
        self._has_started = False
        self._outermost = 0
        self._is_exact = True
        self._lock = Lock()

    def enter_pass_ctx(self) -> None:
        """Begin to trace, if nobody has."""
        with self._lock:
            self._entered += 1
            if not _tracemalloc().is_tracing():
                _tracemalloc().start(1)
                self._has_started = True

    def exit_pass_ctx(self) -> None:
        """End to trace, if this began it and no other context needs it."""
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and self._has_started:
                _tracemalloc().stop()
                self._has_started = False
                self._marks.clear()

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Begin a call."""
        run = current_run()
        if run is not None:
            with self._lock:
                self._calls.setdefault(run, _Call())
                self._outermost += run.parent is None
                self._is_exact = self._is_exact and self._outermost < 2
                self._mark(perf_counter())

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Add a step to the call."""
        with self._lock:
            grown, peak = self._since(start, end)
            if run.parent is None:
                del self._marks[:-1]  # no step lies around this one
            call = self._calls.get(run)
            if call is not None and start >= call.until:
                call.until = end
                call.step(grown, peak)

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """End a call."""
        self._end(current_run())

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """End a call that raised or was cancelled."""
        self._end(current_run())

    @property
    def is_exact(self) -> bool:
        """Whether never two modules were at work at once, so that memory of threads is counted for the right pass."""
        return self._is_exact

    def profile(self) -> tuple[PassMemory, ...]:
        """Return what each pass took, the highest peak first."""
        with self._lock:
            found = [
                PassMemory(name=name, calls=one.calls, grown=one.grown, peak=one.peak, module=one.module)
                for name, one in self._totals.items()
            ]
        return tuple(sorted(found, key=lambda one: (-one.peak, one.name)))

    def render(self) -> str:
        """Return `profile()` as a table, in MiB, with a line below it where that is not exact."""
        table = _render(self.profile())
        return table if self._is_exact else f"{table}\n{_NOT_EXACT}"

    def reset(self) -> None:
        """Forget what was measured."""
        with self._lock:
            self._totals = {}
            self._is_exact = self._outermost < 2

    def _end(self, run: Run | None) -> None:
        with self._lock:
            call = None if run is None else self._calls.pop(run, None)
            if run is not None and call is not None:
                self._outermost -= run.parent is None
                self._totals.setdefault(run.info.name, _Total()).add(call, run.module)

    def _mark(self, now: float) -> None:
        """Note what is in use now, and the most that was since the last time."""
        if not _tracemalloc().is_tracing():
            return
        current, peak = _tracemalloc().get_traced_memory()
        _tracemalloc().reset_peak()
        self._marks.append(_Mark(now, current, peak))

    def _since(self, start: float, end: float) -> tuple[int, int]:
        """Return what was allocated and not freed since `start`, and the most meanwhile; the marks become one.

        Steps lie within each other or apart, so the marks within one are of no more use after it.
        """
        self._mark(end)
        marks = self._marks
        if not marks:
            return 0, 0
        last = marks[-1]
        peak = last.peak
        while marks and marks[-1].time > start:
            peak = max(peak, marks.pop().peak)
        base = marks[-1].current if marks else 0
        # What the step around this one needs to know of it, in one mark.
        marks.append(_Mark(last.time, last.current, peak))
        return last.current - base, max(0, peak - base)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What was in use at a time."""

    time: float
    current: int
    peak: int


@dataclass(slots=True)
class _Call:
    """What a call took so far."""

    grown: int = 0
    peak: int = 0
    until: float = 0.0

    def step(self, grown: int, peak: int) -> None:
        """Add a step."""
        self.peak = max(self.peak, self.grown + peak)
        self.grown += grown


@dataclass(slots=True)
class _Total:
    """What all calls of a pass took."""

    calls: int = 0
    grown: int = 0
    peak: int = 0
    module: str | None = None

    def add(self, call: _Call, module: str | None) -> None:
        """Add a call that has ended."""
        self.calls += 1
        self.grown += call.grown
        if call.peak >= self.peak:
            self.peak, self.module = call.peak, module


def _render(memories: Iterable[PassMemory]) -> str:
    lines = [f"{'peak MiB':>10}  {'grown MiB':>10}  {'calls':>7}  pass"]
    for one in memories:
        where = "" if one.module is None else f" (peak in {one.module!r})"
        lines.append(f"{_mib(one.peak):>10}  {_mib(one.grown):>10}  {one.calls:>7}  {one.name}{where}")
    return "\n".join(lines) if len(lines) > 1 else "no pass was measured"


def _mib(size: int) -> str:
    return f"{size / 2**20:.3f}"


@cache
def _tracemalloc() -> Any:
    """Return the module, which an interpreter that works for an executor can do without, and must."""
    return import_module("tracemalloc")
