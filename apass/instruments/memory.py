"""`PassMemoryInstrument`: measures the memory of each pass with `tracemalloc`."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import getpid
from threading import Lock
from time import perf_counter
from typing import Final

from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_run
from apass.display.blocks import Bar, Block, Row, Span, Table, limited

__all__ = ["PassMemory", "PassMemoryInstrument"]

_HOOKS: Final = "(hooks of instruments)"
"""The name of the entry for the memory that hooks keep between the passes that a pass calls."""
_NOT_EXACT: Final = (
    "several modules ran at once, so memory of threads may be counted for another pass; for exact numbers, run "
    "one module at a time (apass opt --jobs 1)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassMemory:
    """Memory of one pass, over all its calls. Sizes are in bytes."""

    name: str
    """The name of the pass."""
    calls: int
    """Number of calls that have ended, including failed ones."""
    grown: int
    """Bytes allocated and not freed, minus bytes freed that others had allocated; the sum of all calls."""
    peak: int
    """Maximum memory in use above the level at the start of a call; the highest of all calls."""
    module: str | None
    """The module name of the call with the highest peak."""

    @classmethod
    def __block_of__(cls, items: Sequence["PassMemory"]) -> Block:
        highest = max((item.peak for item in items), default=0)
        rows = [
            Row(
                [
                    (Span(f"{item.peak / 2**20:.3f}"),),
                    (Span(f"{item.grown / 2**20:.3f}"),),
                    (Span(str(item.calls)),),
                    Bar.of(item.peak, 0.0, highest),
                    (Span(item.name, "name"),),
                ]
            )
            for item in items
        ]
        return limited(Table(["peak MiB", "grown MiB", "calls", "peak", "pass"], rows, numbers=3))


@pass_instrument
class PassMemoryInstrument(Displayed):
    """Measures the memory of passes with `tracemalloc`, including numpy arrays.

    Passes take several times as long while memory is traced.

    - Memory is counted for the pass that occupies the event loop, and for its callers. Concurrent modules are therefore
      distinguished.
    - Memory that worker threads and other tasks allocate is counted for the pass that occupies the event loop next.
      With one module at a time this is the pass that waits for them, and all numbers are exact.
    - Tracing starts when the first context with the instrument is entered, and stops when the last is left. If it was
      already active, it stays so.
    - Memory that the hooks of instruments keep between inner passes is an entry of its own. List this instrument first,
      so that it is exact.
    - The instrument's own memory grows with the number of pass names.

    >>> import apass
    >>> memory = PassMemoryInstrument()
    >>> Fill = apass.module_pass(lambda mod, ctx: {"f": bytes(1_000_000)}, opt_level=0, name="Fill")
    >>> _ = apass.run(Fill, {"f": b""}, context=apass.PassContext(instruments=[memory]))
    >>> [(item.name, round(item.grown / 1e6), round(item.peak / 1e6)) for item in memory.profile()]
    [('Fill', 1, 1)]

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

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
        """Start tracing, unless it is active."""
        # Not at the top: the interpreters of an executor cannot import it.
        import tracemalloc

        with self._lock:
            self._entered += 1
            if not tracemalloc.is_tracing():
                tracemalloc.start(1)
                self._has_started = True

    def exit_pass_ctx(self) -> None:
        """Stop tracing, if this instrument started it and no other context uses it."""
        with self._lock:
            self._entered -= 1
            if self._entered == 0 and self._has_started:
                # See `enter_pass_ctx`.
                import tracemalloc

                tracemalloc.stop()
                self._has_started = False
                self._marks.clear()

    def should_run(self, mod: object, info: PassInfo) -> bool:
        """Record the memory before the hooks of other instruments; always return True."""
        with self._lock:
            self._mark(perf_counter())
        return True

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Record the start of a call."""
        run = current_run()
        if run is not None:
            with self._lock:
                self._calls.setdefault(run, _Call())
                self._outermost += run.parent is None
                self._is_exact = self._is_exact and self._outermost < 2
                self._mark(perf_counter())

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Add the memory of a step to its call."""
        with self._lock:
            grown, peak = self._since(start, end)
            if run.parent is None:
                del self._marks[:-1]  # an outermost step has no enclosing step that needs the earlier marks
            call = self._calls.get(run)
            if call is not None and start >= call.until:
                call.until = end
                call.step(grown, peak)

    def on_hooks(self, run: Run | None, start: float, end: float, busy: float) -> None:
        """Count the memory that hooks keep by itself, not for the calling pass."""
        with self._lock:
            self._mark(end)
            index = bisect_right(self._marks, start, key=lambda mark: mark.time)
            before, inside = self._marks[:index], self._marks[index:]
            if run is None or not inside:
                return
            # Around the start of a pass, `should_run` has set the first mark; around its end, its last step has.
            base = inside[0] if len(inside) > 1 or not before else before[-1]
            grown = inside[-1].current - base.current
            for outer in run.lineage:
                if outer in self._calls:
                    self._calls[outer].hooks += grown
            self._totals.setdefault(_HOOKS, _Total()).add(_Call(grown, max(0, grown)), run.module)

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Record the end of a call."""
        self._end(current_run())

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Record the end of a call that raised or was cancelled."""
        self._end(current_run())

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return PassMemoryInstrument

    def worker_records(self) -> "_Records":
        """Return the memory of passes, for `merge_records` of the original."""
        return _Records(getpid(), self._totals, self._is_exact)

    def merge_records(self, records: "_Records") -> None:
        """Add the memory of a twin."""
        with self._lock:
            # Memory is traced for a whole process, so a twin in a thread of this one counts that of others.
            self._is_exact = self._is_exact and records.is_exact and records.process != getpid()
            for name, total in records.totals.items():
                self._totals.setdefault(name, _Total()).merge(total)

    @property
    def is_exact(self) -> bool:
        """Whether modules never ran concurrently, so that all numbers are exact."""
        return self._is_exact

    def profile(self) -> tuple[PassMemory, ...]:
        """Return the memory of each pass, highest peak first."""
        with self._lock:
            items = [
                PassMemory(name=name, calls=total.calls, grown=total.grown, peak=total.peak, module=total.module)
                for name, total in self._totals.items()
            ]
        return tuple(sorted(items, key=lambda item: (-item.peak, item.name)))

    def render(self) -> str:
        """Return `profile()` as a table in MiB, with a note if it is not exact."""
        memories = self.profile()
        lines = [f"{'peak MiB':>10}  {'grown MiB':>10}  {'calls':>7}  pass"]
        for item in memories:
            where = "" if item.module is None else f" (peak in {item.module!r})"
            lines.append(f"{_mib(item.peak):>10}  {_mib(item.grown):>10}  {item.calls:>7}  {item.name}{where}")
        table = "\n".join(lines) if len(lines) > 1 else "no pass was measured"
        return table if self._is_exact else f"{table}\n{_NOT_EXACT}"

    def __block__(self) -> Block:
        return PassMemory.__block_of__(self.profile())

    def reset(self) -> None:
        """Discard the results."""
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
        """Record the memory in use now, and the peak since the previous mark."""
        # See `enter_pass_ctx`.
        import tracemalloc

        if not tracemalloc.is_tracing():
            return
        current, peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        self._marks.append(_Mark(now, current, peak))

    def _since(self, start: float, end: float) -> tuple[int, int]:
        """Return the memory allocated and not freed since `start`, and the peak.

        Steps are either nested or disjoint. The marks within this step are therefore merged into one.
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
        # The enclosing step needs only the level and the peak of this one.
        marks.append(_Mark(last.time, last.current, peak))
        return last.current - base, max(0, peak - base)


@dataclass(frozen=True, slots=True)
class _Mark:
    """Memory in use at a point in time, and the peak before it."""

    time: float
    current: int
    peak: int


@dataclass(slots=True)
class _Call:
    """Memory of a call that has not ended."""

    grown: int = 0
    peak: int = 0
    until: float = 0.0
    hooks: int = 0
    """Memory that hooks have kept since the last step."""

    def step(self, grown: int, peak: int) -> None:
        """Add a step."""
        self.peak = max(self.peak, self.grown + peak - self.hooks)
        self.grown += grown - self.hooks
        self.hooks = 0


@dataclass(slots=True)
class _Total:
    """Memory of all calls of a pass."""

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

    def merge(self, other: "_Total") -> None:
        """Add other calls."""
        self.calls += other.calls
        self.grown += other.grown
        if other.peak >= self.peak:
            self.peak, self.module = other.peak, other.module


@dataclass(frozen=True, slots=True)
class _Records:
    """What a twin has recorded."""

    process: int
    totals: Mapping[str, _Total]
    is_exact: bool


def _mib(size: int) -> str:
    return f"{size / 2**20:.3f}"
