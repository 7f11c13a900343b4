"""`ReportInstrument`: records what every pass did to every module, for one page that people look at."""

from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
from anyio.to_thread import run_sync

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering, Position
from apass.core.remarks import Remark
from apass.core.run import Run, current_run
from apass.instruments.report.page import render_page
from apass.instruments.report.record import Body, Failure, PassRun, Record, Said, Status
from apass.instruments.report.recorder import (
    BodyTimes,
    Chain,
    Entry,
    SharedFailure,
    failure_of,
    is_thread_safe,
    task_at_work,
    text_of,
)
from apass.instruments.report.texts import LARGE, TextStore
from apass.util.files import write_whole

__all__ = ["ReportInstrument"]

_SHORT: Final = 1e-4
"""Seconds; work on a function that takes less, changes nothing and does not fail is not kept by itself."""
_RUNS, _BODIES, _REMARKS = "runs of passes", "work on functions", "remarks"


@pass_instrument
class ReportInstrument:
    """Records passes for a report: `await report.write("report.html")`, also while passes still run.

    The page stands alone: it loads nothing from anywhere. It shows each module before and after each pass, times, what
    waited and what worked, remarks, statistics and failures. But for times, it is the same whichever module was done
    first.

    Texts are kept once, compressed, and made where a module has changed; large ones are compressed in a thread, and
    made there as well if the IR may be. Where a text cannot be made, the error stands in its place. What is beyond the
    limits is left out, and the page says how much.

    Parameters:
        title: what stands at the top of the page.
        max_runs: how many runs of passes are recorded.
        max_bodies: how many bodies of function passes are; those that are short and change nothing never are.
        max_remarks: how many remarks are.
        max_bytes: the bytes of compressed text from which on no more is kept.

    >>> import apass
    >>> report = ReportInstrument("halves")
    >>> Halve = apass.function_pass(lambda func, mod, ctx: func // 2, opt_level=0, name="Halve")
    >>> apass.run(Halve, {"f": 8}, context=apass.PassContext(instruments=[report]))
    {'f': 4}
    >>> [(run.module, run.steps[-1][1], run.status.name) for run in report.record().runs]
    [('(unnamed 1)', 'Halve', 'CHANGED')]

    """

    def __init__(
        self,
        title: str = "apass report",
        *,
        max_runs: int = 200_000,
        max_bodies: int = 200_000,
        max_remarks: int = 100_000,
        max_bytes: int = 2**28,
    ) -> None:
        self._title = title
        self._most = {_RUNS: max_runs, _BODIES: max_bodies, _REMARKS: max_remarks}
        self._left_out = dict.fromkeys(self._most, 0)
        self._texts = TextStore(max_bytes)
        self._origin = perf_counter()
        self._lock = Lock()
        self._numbering = Numbering()
        self._entries: list[Entry] = []
        self._open: WeakKeyDictionary[Run, Entry] = WeakKeyDictionary()
        self._bodies: list[Body] = []
        self._open_bodies: WeakKeyDictionary[Run, BodyTimes] = WeakKeyDictionary()
        self._workers: dict[Hashable, int] = {}
        self._remarks: list[tuple[_Place, Said]] = []
        self._failed: dict[str | None, list[SharedFailure]] = {}
        self._failures: dict[str, Failure] = {}

    def run_before_pass(self, mod: Any, info: PassInfo) -> Awaitable[None] | None:
        """Begin a run, with the text of the module."""
        run = current_run()
        if run is None or run in self._open:
            return None
        with self._lock:
            position = self._numbering.begin(run)
            if not self._has_room(_RUNS, len(self._entries)):
                return None
            caller = self._caller(run)
            chain = Chain() if caller is None else caller.chain
            entry = Entry(position, mod, chain, is_outermost=caller is None)
            self._open[run] = entry
            self._entries.append(entry)
        return self._keep(entry, mod, entry.begin)

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Add a stretch of work to a run."""
        entry = self._open.get(run)
        if entry is not None and start >= entry.until:
            entry.work(start, end)

    def run_after_pass(self, mod: Any, info: PassInfo) -> Awaitable[None] | None:
        """End a run, with the text of the module that it returned."""
        now = perf_counter()
        entry = self._close(current_run())
        if entry is None:
            return None
        if mod is entry.stop(now):
            entry.finish_unchanged()
            return None
        return self._keep(entry, mod, entry.finish)

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> None:
        """End a run that raised or was cancelled."""
        now = perf_counter()
        entry = self._close(current_run())
        if entry is None:
            return
        entry.stop(now)
        entry.fail(error)
        if entry.failure is not None:
            with self._lock:
                self._failed.setdefault(entry.position.module, []).append(entry.failure)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Begin the work on a function."""
        self._open_bodies[run] = BodyTimes(perf_counter())

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Add a stretch of work to that on a function."""
        times = self._open_bodies.get(run)
        if times is not None:
            times.busy += end - start

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """End the work on a function."""
        self._end_body(run, Status.UNCHANGED if result is func else Status.CHANGED)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """End the work on a function that failed or was cancelled."""
        self._end_body(run, Status.FAILED if isinstance(error, Exception) else Status.CANCELLED)

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        """Count for the pass at work."""
        entry = None if run is None else self._open.get(run.body_of or run)
        if entry is not None:
            with self._lock:
                entry.statistics[name] = entry.statistics.get(name, 0) + amount

    def on_remark(self, remark: Remark) -> None:
        """Keep a remark."""
        run = current_run()
        position = None if run is None else self._numbering.position(run)
        place = _place(remark.module, position, None if run is None else run.function)
        with self._lock:
            if self._has_room(_REMARKS, len(self._remarks)):
                self._remarks.append((place, Said(remark, position)))

    def fail(self, module: str, error: BaseException) -> None:
        """Note that a module failed, perhaps outside of any pass: it could not be read, for example.

        If a pass of the module failed with the same error, there is nothing to add.
        """
        failure = failure_of(error)
        with self._lock:
            known = [shared.failure for shared in self._failed.get(module, ())]
            if (failure.kind, failure.message) not in [(one.kind, one.message) for one in known]:
                self._failures[module] = failure

    def record(self) -> Record:
        """Return what was recorded until now, by module and place in the pipeline."""
        now = perf_counter()
        with self._lock:
            runs = [entry.value(now) for entry in self._entries]
            bodies, remarks, failures = list(self._bodies), list(self._remarks), dict(self._failures)
            left_out = {what: count for what, count in self._left_out.items() if count}
        if self._texts.refused:
            left_out["texts"] = self._texts.refused
        return Record(
            title=self._title,
            origin=min((one.start for one in runs), default=self._origin),
            runs=sorted(runs, key=_place_of_run),
            bodies=sorted(bodies, key=_place_of_body),
            texts=self._texts.texts,
            failures=failures,
            remarks=[said for _, said in sorted(remarks, key=_place_of_remark)],
            left_out=left_out,
        )

    def render(self) -> str:
        """Return the page for what was recorded until now."""
        return render_page(self.record())

    async def write(self, path: Path | str) -> None:
        """Write `render()` to a file, whole, without holding the loop.

        Raises:
            OSError: if it cannot be written.

        """
        with anyio.CancelScope(shield=True):
            await run_sync(lambda: write_whole(Path(path), self.render()))

    def _has_room(self, what: str, count: int) -> bool:
        if count < self._most[what]:
            return True
        self._left_out[what] += 1
        return False

    def _caller(self, run: Run) -> Entry | None:
        """Return the nearest run above that is recorded and still open."""
        above = run.parent
        while above is not None:
            entry = self._open.get(above.body_of or above)
            if entry is not None:
                return entry
            above = above.parent
        return None

    def _close(self, run: Run | None) -> Entry | None:
        return None if run is None else self._open.pop(run.body_of or run, None)

    def _keep(self, entry: Entry, mod: Any, done: Callable[[int], None]) -> Awaitable[None] | None:
        """Give the number of a module's text to `done`: at once, or after a thread has worked on it if it is large."""
        chain = entry.chain
        if mod is chain.mod and chain.base is not None:
            done(chain.base.index)
            return None
        if chain.size >= LARGE and is_thread_safe(mod):
            return self._keep_in_thread(chain, mod, lambda: text_of(mod), done)
        text = text_of(mod)
        if len(text) >= LARGE:
            return self._keep_in_thread(chain, mod, lambda: text, done)
        done(chain.keep(self._texts, mod, text))
        return None

    async def _keep_in_thread(
        self, chain: Chain, mod: Any, text: Callable[[], str], done: Callable[[int], None]
    ) -> None:
        with anyio.CancelScope(shield=True):
            done(await run_sync(lambda: chain.keep(self._texts, mod, text())))

    def _end_body(self, run: Run, status: Status) -> None:
        now = perf_counter()
        times = self._open_bodies.pop(run, None)
        position = self._numbering.position(run)
        if times is None or position is None or run.function is None:
            return
        if status is Status.UNCHANGED and now - times.start < _SHORT:
            return
        task = task_at_work()
        with self._lock:
            if self._has_room(_BODIES, len(self._bodies)):
                worker = self._workers.setdefault(task, len(self._workers))
                self._bodies.append(times.value(position, run.function, now, worker, status))


_Place = tuple[str, tuple[tuple[int, str], ...], str]
"""What sorts in the order of modules, their pipelines and their functions."""


def _place(module: str | None, position: Position | None, function: str | None) -> _Place:
    steps = () if position is None else position.steps
    return module or "", tuple((number, func or "") for number, _, func in steps), function or ""


def _place_of_run(run: PassRun) -> _Place:
    return run.module, tuple((number, func or "") for number, _, func in run.steps), ""


def _place_of_body(body: Body) -> _Place:
    return body.module, tuple((number, func or "") for number, _, func in body.steps), body.function


def _place_of_remark(made: tuple[_Place, Said]) -> _Place:
    return made[0]
