"""`PassTimingInstrument`: where the time of passes goes, told apart into work and waiting; for whoever runs passes."""

from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.run import Run, current_run
from apass.instruments.timing.tables import PassTiming, render_timings

__all__ = ["PassTimingInstrument"]


@pass_instrument
class PassTimingInstrument:
    """Times passes, right for any number of modules and tasks at once; may be used in several contexts at once, too.

    Calls are summed that stand at the same place: outermost calls of the same pass for the same module name, and the
    n-th call of the same pass by each call of another. What was measured stays, also when contexts have been left,
    until `reset`; so memory grows with the modules' names and the places in their pipelines, not with the calls.

    A pass that `should_run` kept from running does not appear. A pass that already ran when the instrument came into
    force does not appear either, while the passes that it calls from then on do.

    >>> import anyio, apass
    >>> timing = PassTimingInstrument()
    >>> Halve = apass.module_pass(lambda mod, ctx: {"f": mod["f"] // 2}, opt_level=0, name="Halve")
    >>> context = apass.PassContext(instruments=[timing])
    >>> apass.run(apass.Sequential([Halve, Halve]), {"f": 8}, context=context)
    {'f': 2}
    >>> [(one.name, [child.name for child in one.children]) for one in timing.profile()]
    [('sequential', ['Halve', 'Halve'])]

    """

    def __init__(self) -> None:
        # The calls open in this task and in those that it was started from, so a call that never ends leaves no trace.
        self._at: ContextVar[_Call | None] = ContextVar("apass_timing", default=None)
        self._totals: dict[_Place, _Total] = {}
        self._lock = Lock()

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Begin a call."""
        run = current_run()
        if run is not None and self._find(run) is not None:
            return  # the instrument is in force twice
        caller = self._caller(run)
        module = None if run is None else run.module
        place = (info.name, module, 0 if caller is None else caller.count(run, info.name))
        with self._lock:
            beside = self._totals if caller is None else caller.total.children
            total = beside.setdefault(place, _Total())
            total.begun += 1
        call = _Call(run, caller, total)
        if self._at.get() is not caller:
            self._at.set(caller)  # let go of calls whose end was never told
        call.token = self._at.set(call)
        call.begin = call.until = perf_counter()

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Add a step to the call."""
        call = self._find(run)
        # Steps in a loop are disjoint, so one that begins before the last one's end is the same one told again.
        if call is not None and start >= call.until:
            call.busy += end - start
            call.until = end

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """End a call."""
        self._end(perf_counter(), failed=False)

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """End a call that raised or was cancelled."""
        self._end(perf_counter(), failed=True)

    def profile(self, *, merge: bool = False) -> tuple[PassTiming, ...]:
        """Return the timings of the outermost passes; those of the passes they called are their `children`.

        With `merge`, the modules are summed: each timing is one place of the pipeline over all modules.
        """
        with self._lock:
            return _profile([self._totals], merge)

    def render(self, *, merge: bool = False) -> str:
        """Return `profile(merge=merge)` as a table (see `render_timings`); unlike TVM's, also after the context."""
        return render_timings(self.profile(merge=merge))

    def reset(self) -> None:
        """Forget what was measured, and what the calls measure that have begun."""
        with self._lock:
            self._totals = {}

    def _end(self, now: float, *, failed: bool) -> None:
        call = self._find(current_run())
        if call is None:
            return  # the instrument came into force when the pass was already running
        self._at.reset(call.token)
        with self._lock:
            call.total.add(now - call.begin, call.busy, failed=failed)

    def _find(self, run: Run | None) -> "_Call | None":
        """Return the open call that is `run`, or one of whose function bodies is `run`."""
        call = self._at.get()
        while call is not None and not _is_part(run, call.run):
            call = call.caller
        return call

    def _caller(self, run: Run | None) -> "_Call | None":
        """Return the nearest open call that `run` works for; not one whose end was never told to this instrument."""
        above = None if run is None else run.parent
        while above is not None:
            call = self._find(above)
            if call is not None:
                return call
            above = above.parent
        return None


_Place = tuple[str, str | None, int]
"""The names of a pass and of the module, and the number of the call among those of that pass by one call of another."""


@dataclass(slots=True)
class _Total:
    """The sum over the calls at one place."""

    begun: int = 0
    calls: int = 0
    failed: int = 0
    wall: float = 0.0
    busy: float = 0.0
    children: "dict[_Place, _Total]" = field(default_factory=dict["_Place", "_Total"])

    def add(self, wall: float, busy: float, *, failed: bool) -> None:
        """Add a call that has ended."""
        self.calls += 1
        self.failed += failed
        self.wall += wall
        self.busy += busy


class _Call:
    """One call that has begun: a link of the chain of those open in a task."""

    __slots__ = ("begin", "busy", "caller", "counts", "run", "token", "total", "until")

    token: Token["_Call | None"]

    def __init__(self, run: Run | None, caller: "_Call | None", total: _Total) -> None:
        self.run = run
        self.caller = caller
        self.total = total
        self.counts: dict[tuple[Run | None, str, str | None], int] = {}
        self.begin = self.until = self.busy = 0.0

    def count(self, run: Run | None, name: str) -> int:
        """Return how many calls of `name` came before `run` from the same function body, or from none."""
        key = (None, name, None) if run is None else (run.parent, name, run.module)
        before = self.counts.get(key, 0)
        self.counts[key] = before + 1
        return before


def _is_part(run: Run | None, whole: Run | None) -> bool:
    """Tell whether `run` is `whole`, or the run of one of its function bodies, which is an object of its own."""
    if run is whole:
        return True
    if run is None or whole is None or run.function is None:
        return False
    return run.info is whole.info and run.parent is whole.parent


def _profile(totals: Iterable[Mapping[_Place, _Total]], merge: bool) -> tuple[PassTiming, ...]:
    places: dict[_Place, list[_Total]] = {}
    for one in totals:
        for (name, module, count), total in one.items():
            places.setdefault((name, None if merge else module, count), []).append(total)
    return tuple(_timing(name, module, group, merge) for (name, module, _), group in places.items())


def _timing(name: str, module: str | None, totals: Sequence[_Total], merge: bool) -> PassTiming:
    calls = sum(one.calls for one in totals)
    return PassTiming(
        name=name,
        module=module,
        calls=calls,
        failed=sum(one.failed for one in totals),
        unfinished=sum(one.begun for one in totals) - calls,
        wall=sum(one.wall for one in totals),
        busy=sum(one.busy for one in totals),
        children=_profile([one.children for one in totals], merge),
    )
