"""`ReportInstrument`: records passes and modules for an HTML report."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final, Self, TypeVar
from weakref import WeakKeyDictionary

import anyio
from anyio.to_thread import run_sync

from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.position import Position
from apass.core.run import Run
from apass.display.blocks import Page, Span
from apass.executors.instrument_twins import perf_epoch, remote_run
from apass.instruments.provenance.instrument import ProvenanceInstrument
from apass.instruments.report.page import render_page
from apass.instruments.report.record import Body, PassRun, Record, RecordedError, RecordedRemark, RunStatus
from apass.instruments.report.recorder import (
    BodyTimes,
    Chain,
    RecordedPass,
    SharedFailure,
    current_task,
    is_thread_safe,
    recorded_error,
    text_of,
)
from apass.instruments.report.texts import LARGE, TextStore
from apass.instruments.support.events import Event, EventInstrument
from apass.util.files import write_whole
from apass.util.text import count_of

__all__ = ["ReportInstrument"]

T = TypeVar("T")

_SHORT: Final = 1e-4
"""Seconds. A body that is shorter, changes nothing and does not fail is not recorded."""
_RUNS, _BODIES, _REMARKS = "runs of passes", "work on functions", "remarks"


@pass_instrument
class ReportInstrument(EventInstrument, Displayed):
    """Records passes for a report: `await report.write("report.html")`.

    A report may also be written while passes still run. The page is self-contained: it loads nothing. It shows, for
    each module, the text before and after each pass, times, waiting and work, remarks, statistics and failures. Except
    for times, it does not depend on the order in which modules finish.

    - A text is made when a module has changed. Equal texts are stored once, compressed.
    - Large texts are compressed in a worker thread. They are also made there if the adapter is thread-safe.
    - If a text cannot be made, the report shows the error instead.
    - Data beyond the limits is left out, and the page states how much.

    Parameters:
        title: the heading of the page.
        max_runs: the maximum number of recorded runs of passes.
        max_bodies: the maximum number of recorded function bodies. Short bodies that change nothing are never recorded.
        max_remarks: the maximum number of recorded remarks.
        max_bytes: the number of bytes of compressed text after which no more texts are stored.
        provenance: an instrument of the same context. The page then shows, for the names in a text under the mouse,
            which passes touched these nodes.
        first: the numbers of the first outermost runs, for a twin in a worker.

    >>> import apass
    >>> report = ReportInstrument("halves")
    >>> Halve = apass.function_pass(lambda func, mod, ctx: func // 2, opt_level=0, name="Halve")
    >>> apass.run(Halve, {"f": 8}, context=apass.PassContext(instruments=[report]))
    {'f': 4}
    >>> [(run.module, run.steps[-1][1], run.status.name) for run in report.record().runs]
    [('(unnamed 1)', 'Halve', 'CHANGED')]

    """

    reads_modules = True

    def __init__(
        self,
        title: str = "apass report",
        *,
        max_runs: int = 200_000,
        max_bodies: int = 200_000,
        max_remarks: int = 100_000,
        max_bytes: int = 2**28,
        provenance: ProvenanceInstrument | None = None,
        first: Mapping[str | None, int] | None = None,
    ) -> None:
        super().__init__(("started", "finished", "failed", "remark"), ("started", "finished", "failed"), first=first)
        self._title = title
        self._provenance = provenance
        self._limits = {_RUNS: max_runs, _BODIES: max_bodies, _REMARKS: max_remarks}
        self._left_out = dict.fromkeys(self._limits, 0)
        self._texts = TextStore(max_bytes)
        self._origin = perf_counter()
        self._lock = Lock()
        self._entries: list[RecordedPass] = []
        self._open: WeakKeyDictionary[Run, RecordedPass] = WeakKeyDictionary()
        self._bodies: list[Body] = []
        self._open_bodies: WeakKeyDictionary[Run, BodyTimes] = WeakKeyDictionary()
        self._workers: dict[Hashable, int] = {}
        self._remarks: list[tuple[_SortKey, RecordedRemark]] = []
        self._failed: dict[str | None, list[SharedFailure]] = {}
        self._failures: dict[str, RecordedError] = {}
        self._merged: list[PassRun] = []

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        first = self._positions.reserve(remote_run())
        return partial(ReportInstrument._make_twin, self._limits, self._texts.limit, first)

    def worker_records(self) -> "_Records":
        """Return the record, for `merge_records` of the original."""
        return _Records(self.record(), self._texts.digests(), self._remarks, perf_epoch())

    def merge_records(self, records: Any) -> None:
        """Add the record of a twin."""
        assert isinstance(records, _Records), "`worker_records` of a twin returns them"
        record, shift = records.record, records.epoch - perf_epoch()
        left_out = dict(record.left_out)
        indices = self._texts.merge(record.texts, records.digests, left_out.pop("texts", 0))
        twin = object()
        runs = [_moved(run, indices, shift) for run in record.runs]
        with self._lock:
            for run in self._fitting(_RUNS, runs, len(self._entries) + len(self._merged)):
                self._merged.append(run)
                if run.failure is not None:
                    self._failed.setdefault(run.module, []).append(SharedFailure(run.failure))
            for body in self._fitting(_BODIES, record.bodies, len(self._bodies)):
                worker = self._workers.setdefault((twin, body.worker), len(self._workers))
                self._bodies.append(replace(body, worker=worker, start=body.start + shift, end=body.end + shift))
            self._remarks += self._fitting(_REMARKS, records.remarks, len(self._remarks))
            for kind, count in left_out.items():
                self._left_out[kind] += count

    def worker_lost(self, error: BaseException) -> None:
        """Record a pass whose worker returned no record."""
        run = remote_run()
        position = self._positions.position(run)
        if position is not None:
            self._open_run(position, run, None)
        super().worker_lost(error)

    @classmethod
    def _make_twin(cls, limits: Mapping[str, int], max_bytes: int, first: Mapping[str | None, int]) -> Self:
        return cls(
            max_runs=limits[_RUNS],
            max_bodies=limits[_BODIES],
            max_remarks=limits[_REMARKS],
            max_bytes=max_bytes,
            first=first,
        )

    def handle(self, event: Event, subject: Any) -> Awaitable[None] | None:
        """Record an event of a run, with the text of a new module."""
        run = event.run
        if event.kind == "remark":
            self._add_remark(event)
        if run is None or event.position is None or event.kind == "remark":
            return None
        if event.is_body:
            self._record_body(event, event.position, run)
            return None
        if event.kind == "started":
            return self._begin(event.position, run, subject)
        entry = self._open.pop(run, None)
        if entry is None:
            return None
        entry.stop(run)
        if event.error is None:
            if event.changed:
                return self._store_text(entry, subject, entry.finish)
            entry.finish_unchanged()
            return None
        entry.fail(event.error)
        if entry.failure is not None:
            with self._lock:
                self._failed.setdefault(entry.position.module, []).append(entry.failure)
        return None

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Record a step of a run."""
        entry = self._open.get(run)
        if entry is not None and start >= entry.until:
            entry.work(start, end)

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Record a step of a function body."""
        times = self._open_bodies.get(run)
        if times is not None:
            times.busy += end - start

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Add a statistic to the current pass."""
        entry = None if run is None else self._open.get(run.body_of or run)
        if entry is not None:
            with self._lock:
                entry.statistics[name] = entry.statistics.get(name, 0) + amount

    def fail(self, module: str, error: BaseException) -> None:
        """Record the failure of a module, perhaps outside of any pass.

        An example is a module that could not be read. Nothing is added if a pass of the module failed
        with the same error.
        """
        failure = recorded_error(error)
        with self._lock:
            recorded = [shared.failure for shared in self._failed.get(module, ())]
            if (failure.kind, failure.message) not in [(item.kind, item.message) for item in recorded]:
                self._failures[module] = failure

    def record(self) -> Record:
        """Return the record so far, sorted by module and pipeline position."""
        now = perf_counter()
        with self._lock:
            runs = [*self._merged, *(entry.value(now) for entry in self._entries)]
            bodies, remarks, failures = list(self._bodies), list(self._remarks), dict(self._failures)
            left_out = {kind: count for kind, count in self._left_out.items() if count}
        if self._texts.refused:
            left_out["texts"] = self._texts.refused
        return Record(
            title=self._title,
            origin=min((run.start for run in runs), default=self._origin),
            runs=sorted(runs, key=_run_order),
            bodies=sorted(bodies, key=_body_order),
            texts=self._texts.texts,
            failures=failures,
            remarks=[remark for _, remark in sorted(remarks, key=_remark_order)],
            provenance={} if self._provenance is None else self._provenance.modules,
            left_out=left_out,
        )

    def __block__(self) -> Page:
        record = self.record()
        modules = len({run.module for run in record.runs} | set(record.failures))
        runs = f"{count_of(len(record.runs), 'run')} of passes on {count_of(modules, 'module')}"
        advice = Span('  write the page with `await report.write("report.html")`', "muted")
        return Page((Span(record.title, "name"), Span(f"  {runs}"), advice), self.render())

    def render(self) -> str:
        """Return the HTML page of the record so far."""
        return render_page(self.record())

    async def write(self, path: Path | str) -> None:
        """Write `render()` to a file atomically, without blocking the event loop.

        Raises:
            OSError: if the file cannot be written.

        """
        with anyio.CancelScope(shield=True):
            await run_sync(lambda: write_whole(Path(path), self.render()))

    def _has_room(self, kind: str, count: int) -> bool:
        if count < self._limits[kind]:
            return True
        self._left_out[kind] += 1
        return False

    def _fitting(self, kind: str, items: Sequence[T], count: int) -> Sequence[T]:
        """Return the items for which there is room, and count the others."""
        room = max(0, self._limits[kind] - count)
        self._left_out[kind] += len(items[room:])
        return items[:room]

    def _begin(self, position: Position, run: Run, mod: Any) -> Awaitable[None] | None:
        entry = self._open_run(position, run, mod)
        return None if entry is None else self._store_text(entry, mod, entry.begin)

    def _open_run(self, position: Position, run: Run, mod: Any) -> RecordedPass | None:
        """Add an entry for a run, if there is room."""
        with self._lock:
            if not self._has_room(_RUNS, len(self._entries) + len(self._merged)):
                return None
            caller = self._caller(run)
            chain = Chain() if caller is None else caller.chain
            entry = RecordedPass(position, mod, chain, is_outermost=caller is None)
            self._open[run] = entry
            self._entries.append(entry)
            return entry

    def _caller(self, run: Run) -> RecordedPass | None:
        """Return the nearest enclosing run that is recorded and has not ended."""
        above = run.parent
        while above is not None:
            entry = self._open.get(above.body_of or above)
            if entry is not None:
                return entry
            above = above.parent
        return None

    def _store_text(self, entry: RecordedPass, mod: Any, done: Callable[[int], None]) -> Awaitable[None] | None:
        """Store a module's text, then call `done` with its index."""
        chain = entry.chain
        if mod is chain.mod and chain.base is not None:
            done(chain.base.index)
            return None
        if chain.size >= LARGE and is_thread_safe(mod):
            return self._store_text_in_thread(chain, mod, lambda: text_of(mod), done)
        text = text_of(mod)
        if len(text) >= LARGE:
            return self._store_text_in_thread(chain, mod, lambda: text, done)
        done(chain.store(self._texts, mod, text))
        return None

    async def _store_text_in_thread(
        self, chain: Chain, mod: Any, text: Callable[[], str], done: Callable[[int], None]
    ) -> None:
        with anyio.CancelScope(shield=True):
            done(await run_sync(lambda: chain.store(self._texts, mod, text())))

    def _record_body(self, event: Event, position: Position, run: Run) -> None:
        if event.kind == "started":
            self._open_bodies[run] = BodyTimes()
            return
        times = self._open_bodies.pop(run, None)
        if times is None:
            return
        if event.error is not None:
            status = RunStatus.FAILED if isinstance(event.error, Exception) else RunStatus.CANCELLED
        else:
            status = RunStatus.CHANGED if event.changed else RunStatus.UNCHANGED
        if status is RunStatus.UNCHANGED and run.seconds < _SHORT:
            return
        task = current_task()
        with self._lock:
            if self._has_room(_BODIES, len(self._bodies)):
                worker = self._workers.setdefault(task, len(self._workers))
                self._bodies.append(times.value(position, run, worker, status))

    def _add_remark(self, event: Event) -> None:
        assert event.remark is not None, "the event is about a remark"
        key = _sort_key(event.remark.module, event.position, None if event.run is None else event.run.function)
        with self._lock:
            if self._has_room(_REMARKS, len(self._remarks)):
                self._remarks.append((key, RecordedRemark(event.remark, event.position)))


_SortKey = tuple[str, tuple[tuple[int, str], ...], str]
"""Sorts by module, pipeline position and function."""


@dataclass(frozen=True, slots=True)
class _Records:
    """What a twin has recorded."""

    record: Record
    digests: Mapping[bytes, int]
    remarks: Sequence[tuple[_SortKey, RecordedRemark]]
    epoch: float


def _moved(run: PassRun, indices: Sequence[int], shift: float) -> PassRun:
    """Return a run with the indices of its texts, and the clock, of another process."""
    before, after = (-1 if index < 0 else indices[index] for index in (run.before, run.after))
    slices = [time + shift for time in run.slices]
    return replace(run, before=before, after=after, start=run.start + shift, end=run.end + shift, slices=slices)


def _sort_key(module: str | None, position: Position | None, function: str | None) -> _SortKey:
    steps = () if position is None else position.steps
    return module or "", tuple((number, func or "") for number, _, func in steps), function or ""


def _run_order(run: PassRun) -> _SortKey:
    return run.module, tuple((number, func or "") for number, _, func in run.steps), ""


def _body_order(body: Body) -> _SortKey:
    return body.module, tuple((number, func or "") for number, _, func in body.steps), body.function


def _remark_order(item: tuple[_SortKey, RecordedRemark]) -> _SortKey:
    return item[0]
