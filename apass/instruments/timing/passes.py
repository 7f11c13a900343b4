"""`PassTimingInstrument`: times passes, split into work and waiting."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter

from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_run
from apass.display.blocks import Block
from apass.executors.instrument_twins import remote_run
from apass.instruments.timing.tables import PassTiming, render_timings

__all__ = ["PassTimingInstrument"]


@pass_instrument
class PassTimingInstrument(Displayed):
    """Times passes, split into work and waiting.

    - Any number of modules and tasks may run at once. Several contexts may use the instrument at once.
    - Calls at the same position of the pipeline are added up. Outermost calls are grouped by pass name and module name,
      inner calls by the calling pass, their pass name and their index.
    - Results are kept until `reset`, also after the contexts have been left. Memory therefore grows with the module
      names and the pipeline positions, not with the number of calls.
    - A pass that `should_run` skipped has no entry.
    - A pass that was already running when the instrument was installed has no entry. Passes that it calls later
      have one.

    >>> import anyio, apass
    >>> timing = PassTimingInstrument()
    >>> Halve = apass.module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> context = apass.PassContext(instruments=[timing])
    >>> apass.run(apass.Sequential([Halve, Halve]), {"f": 8}, context=context)
    {'f': 2}
    >>> [(timing.name, [child.name for child in timing.children]) for timing in timing.profile()]
    [('sequential', ['Halve', 'Halve'])]

    """

    reads_modules = False
    """The hooks do not read modules."""

    def __init__(self) -> None:
        # The innermost open call of this task or of a task that started it. Unlike a global registry, a context
        # variable drops calls that never end, together with their task.
        self._open_call: ContextVar[_Call | None] = ContextVar("apass_timing", default=None)
        self._totals: dict[_Position, _Total] = {}
        self._lock = Lock()

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Start the timer of a call."""
        run = current_run()
        if run is not None and self._find(run) is not None:
            return  # two contexts use the same instrument, so each hook is called twice
        caller = self._caller(run)
        module = None if run is None else run.module
        position = (info.name, module, 0 if caller is None else caller.count(run, info.name))
        with self._lock:
            siblings = self._totals if caller is None else caller.total.children
            total = siblings.setdefault(position, _Total())
            total.started += 1
        call = _Call(run, caller, total)
        if self._open_call.get() is not caller:
            self._open_call.set(caller)  # drop calls whose end hook was never called
        call.token = self._open_call.set(call)
        call.until = perf_counter()

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Add a step of a call."""
        call = self._find(run)
        # Steps of one call are disjoint. An overlapping step is a duplicate: two contexts use the same instrument.
        if call is not None and start >= call.until:
            call.busy += end - start
            call.until = end

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Stop the timer of a call."""
        self._end(failed=False)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Stop the timer of a call that raised or was cancelled."""
        self._end(failed=True)

    def on_hooks(self, run: Run | None, start: float, end: float, busy: float) -> None:
        """Add the time of hooks to the call that it is part of."""
        call = None if run is None else self._find(run)
        if call is not None:
            with self._lock:
                call.total.hooks_wall += end - start
                call.total.hooks_busy += busy

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return PassTimingInstrument

    def worker_records(self) -> tuple[PassTiming, ...]:
        """Return the timings, for `merge_records` of the original."""
        return self.profile()

    def merge_records(self, records: Iterable[PassTiming]) -> None:
        """Add the timings of a twin."""
        with self._lock:
            _merge(records, self._totals)

    def worker_lost(self, error: BaseException) -> None:
        """Add a failed call of a pass whose worker returned no timings."""
        run = remote_run()
        with self._lock:
            total = self._totals.setdefault((run.info.name, run.module, 0), _Total())
            total.started += 1
            total.add(run.seconds, 0.0, failed=True)

    def profile(self, *, merge: bool = False) -> tuple[PassTiming, ...]:
        """Return the timings of the outermost passes, with inner passes as `children`.

        With `merge`, each timing is the sum of all modules for one position of the pipeline.
        """
        with self._lock:
            return _profile([self._totals], merge)

    def render(self, *, merge: bool = False) -> str:
        """Return `profile(merge=merge)` as a table (see `render_timings`).

        Unlike in TVM, this works after the context has been left.
        """
        return render_timings(self.profile(merge=merge))

    def __block__(self) -> Block:
        return PassTiming.__block_of__(self.profile())

    def reset(self) -> None:
        """Discard the results, including those of open calls."""
        with self._lock:
            self._totals = {}

    def _end(self, *, failed: bool) -> None:
        run = current_run()
        call = self._find(run)
        if call is None:
            return  # the pass was already running when the instrument was installed
        self._open_call.reset(call.token)
        with self._lock:
            call.total.add(0.0 if run is None else run.seconds, call.busy, failed=failed)

    def _find(self, run: Run | None) -> "_Call | None":
        """Return the open call of `run`, or of the pass whose function body is `run`."""
        call = self._open_call.get()
        while call is not None and not _is_part(run, call.run):
            call = call.caller
        return call

    def _caller(self, run: Run | None) -> "_Call | None":
        """Return the nearest open call that encloses `run`.

        A call whose end hook was never called is not in the lineage of `run`, so it is not returned.
        """
        above = None if run is None else run.parent
        while above is not None:
            call = self._find(above)
            if call is not None:
                return call
            above = above.parent
        return None


_Position = tuple[str, str | None, int]
"""Pass name, module name, and index of the call among the calls of that pass by one caller."""


@dataclass(slots=True)
class _Total:
    """The sum of all calls at one position."""

    started: int = 0
    calls: int = 0
    failed: int = 0
    wall: float = 0.0
    busy: float = 0.0
    hooks_wall: float = 0.0
    hooks_busy: float = 0.0
    children: "dict[_Position, _Total]" = field(default_factory=dict["_Position", "_Total"])

    def add(self, wall: float, busy: float, *, failed: bool) -> None:
        """Add a call that has ended."""
        self.calls += 1
        self.failed += failed
        self.wall += wall
        self.busy += busy


class _Call:
    """A call that has not ended: a node of the linked list of open calls in a task."""

    __slots__ = ("busy", "caller", "counts", "run", "token", "total", "until")

    token: Token["_Call | None"]

    def __init__(self, run: Run | None, caller: "_Call | None", total: _Total) -> None:
        self.run = run
        self.caller = caller
        self.total = total
        self.counts: dict[tuple[Run | None, str, str | None], int] = {}
        self.until = self.busy = 0.0

    def count(self, run: Run | None, name: str) -> int:
        """Return how many calls of pass `name` preceded `run` in the same body or pass."""
        key = (None, name, None) if run is None else (run.parent, name, run.module)
        before = self.counts.get(key, 0)
        self.counts[key] = before + 1
        return before


def _merge(timings: Iterable[PassTiming], totals: dict["_Position", "_Total"]) -> None:
    """Add timings to the totals at the same positions."""
    counts: Counter[tuple[str, str | None]] = Counter()
    for timing in timings:
        key = timing.name, timing.module
        total = totals.setdefault((*key, counts[key]), _Total())
        counts[key] += 1
        total.started += timing.calls + timing.unfinished
        total.calls += timing.calls
        total.failed += timing.failed
        total.wall += timing.wall
        total.busy += timing.busy
        total.hooks_wall += timing.hooks_wall
        total.hooks_busy += timing.hooks_busy
        _merge(timing.children, total.children)


def _is_part(run: Run | None, whole: Run | None) -> bool:
    """Return whether `run` is `whole` or the run of one of its function bodies."""
    if run is whole:
        return True
    # A function body has a `Run` object of its own, with the info and the parent of its pass.
    if run is None or whole is None or run.function is None:
        return False
    return run.info is whole.info and run.parent is whole.parent


def _profile(totals: Iterable[Mapping[_Position, _Total]], merge: bool) -> tuple[PassTiming, ...]:
    groups: dict[_Position, list[_Total]] = {}
    for mapping in totals:
        for (name, module, count), total in mapping.items():
            groups.setdefault((name, None if merge else module, count), []).append(total)
    return tuple(_timing(name, module, group, merge) for (name, module, _), group in groups.items())


def _timing(name: str, module: str | None, totals: Sequence[_Total], merge: bool) -> PassTiming:
    calls = sum(total.calls for total in totals)
    return PassTiming(
        name=name,
        module=module,
        calls=calls,
        failed=sum(total.failed for total in totals),
        unfinished=sum(total.started for total in totals) - calls,
        wall=sum(total.wall for total in totals),
        busy=sum(total.busy for total in totals),
        hooks_wall=sum(total.hooks_wall for total in totals),
        hooks_busy=sum(total.hooks_busy for total in totals),
        children=_profile([total.children for total in totals], merge),
    )
