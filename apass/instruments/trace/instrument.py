"""`TraceInstrument`: writes a timeline of modules and passes for Perfetto."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import getpid
from pathlib import Path
from threading import Lock, current_thread, get_ident
from time import perf_counter
from typing import Any, Final, Protocol, Self

from anyio.to_thread import run_sync

from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import PositionTracker
from apass.core.run import Run, current_run
from apass.executors.instrument_twins import perf_epoch, remote_run
from apass.instruments.support.outcomes import ending_text
from apass.instruments.trace.event_file import Event, EventFile
from apass.instruments.trace.tracks import TimelineSpan, Track, TrackGroup
from apass.util.files import is_device

__all__ = ["TraceInstrument"]

_MODULES: Final = 1
"""The "process" whose tracks are runs of modules."""
_THREADS: Final = 2
"""The "process" whose tracks are threads with an event loop."""
_WORKERS: Final = 3
"""The "process" whose tracks are worker threads and processes."""


@pass_instrument
class TraceInstrument:
    """Writes a timeline of modules and passes as a Chrome trace file.

    https://ui.perfetto.dev and chrome://tracing show such files.

    - Under "modules", each run of a module has a track with its passes and function bodies, nested. Slices named
      "waiting" show when a pass had yielded to the event loop. Concurrent work in a module has further tracks.
    - Under "threads", each event loop has a track with a slice for each interval in which a pass or a body occupied it.
    - Under "workers", each worker thread and process has a track with its work. The pass or body that started the work
      shows it as waiting time.

    A background thread writes the file during the run. Memory grows with the number of concurrent runs and of module
    names. The file is complete when the context is left. Contexts that are entered later append to it.

    Parameters:
        path: the output file. Missing parent folders are created.
        functions: also show the bodies of function passes.

    Raises:
        IsADirectoryError: if `path` is a folder.
        OSError: if `path` is a device, such as `/dev/stdout`.

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    def __init__(self, path: Path | str, *, functions: bool = True, _sink: "_Sink | None" = None) -> None:
        self.path: Final = Path(path)
        """The output file."""
        if self.path.is_dir():
            raise IsADirectoryError(f"TraceInstrument writes a file, and {str(path)!r} is a folder; choose another")
        if is_device(self.path):
            raise OSError(f"TraceInstrument writes a file, and {str(path)!r} is a device; choose a file")
        self._functions = functions
        self._file: _Sink = EventFile(self.path) if _sink is None else _sink
        self._positions = PositionTracker()
        self._spans: dict[Run, TimelineSpan] = {}
        self._idle: dict[str | None, list[TrackGroup]] = {}
        self._threads: dict[int, int] = {}
        self._workers: dict[str, tuple[int, float]] = {}
        self._remote: dict[tuple[int, str], int] = {}
        self._groups = self._tracks = self._entered = 0
        self._lock = Lock()
        self._begin = perf_counter()
        self._name("process_name", _MODULES, 0, "modules")
        self._name("process_name", _THREADS, 0, "threads")
        self._name("process_name", _WORKERS, 0, "workers")

    async def enter_pass_ctx(self) -> None:
        """Open the file and start the writer thread."""
        self._entered += 1
        await run_sync(self._file.start)

    async def exit_pass_ctx(self) -> None:
        """Finish the file, if no other context uses the instrument."""
        self._entered -= 1
        if self._entered == 0:
            await run_sync(self._finish)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        first = self._positions.reserve(remote_run())
        return partial(TraceInstrument._make_twin, self.path.absolute(), self._functions, first)

    def worker_records(self) -> "_Records":
        """Return the events, for `merge_records` of the original."""
        events = self._file.events if isinstance(self._file, _EventList) else []
        return _Records(events, perf_epoch() + self._begin, f"process {getpid()}")

    def merge_records(self, records: "_Records") -> None:
        """Add the events of a twin, on tracks of their own."""
        shift = round((records.begin - perf_epoch() - self._begin) * 1e6, 3)
        tids: dict[tuple[int, int], int] = {}
        with self._lock:
            self._groups += 1
            for event in records.events:
                self._merge(event, records.process, shift, tids)

    def worker_lost(self, error: BaseException) -> None:
        """Show a pass whose worker returned no events, on a track of its own."""
        run = remote_run()
        position = self._positions.position(run)
        args = {"level": run.info.opt_level, "position": "" if position is None else position.text, **_failure(error)}
        with self._lock:
            self._groups += 1
            tid = self._track(TrackGroup(run.module, self._groups)).tid
            self._emit(run.info.name, "pass", self._micros(run.started), self._now(), _MODULES, tid, args)

    def _merge(self, event: Event, process: str, shift: float, tids: dict[tuple[int, int], int]) -> None:
        kind, tid = event["pid"], event["tid"]
        if event["ph"] == "X":
            self._file.add({**event, "ts": round(event["ts"] + shift, 3), "tid": tids[kind, tid]})
        elif event["name"] == "thread_sort_index":
            order = {"sort_index": self._groups * 10_000 + event["args"]["sort_index"] % 10_000}
            self._file.add({**event, "tid": tids[kind, tid], "args": order})
        elif event["name"] == "thread_name":
            name = event["args"]["name"]
            if kind == _MODULES:
                self._tracks += 1
                tids[kind, tid] = self._tracks
            else:
                name = name if kind == _WORKERS else f"{name} of {process}"
                known = self._remote.get((kind, name))
                tids[kind, tid] = known or self._new_tid(kind, name)
                if known:
                    return
            self._name("thread_name", kind, tids[kind, tid], name)

    def _new_tid(self, kind: int, name: str) -> int:
        """Return the track of a thread of another process."""
        if kind == _WORKERS:
            tid, _ = self._workers.setdefault(name, (len(self._workers) + 1, 0.0))
        else:
            # No identifier of a thread is negative.
            tid = self._threads[-len(self._threads) - 1] = len(self._threads) + 1
        self._remote[kind, name] = tid
        return tid

    @classmethod
    def _make_twin(cls, path: Path, functions: bool, first: Mapping[str | None, int]) -> Self:
        twin = cls(path, functions=functions, _sink=_EventList())
        twin._positions = PositionTracker(first)
        return twin

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Open the span of a pass."""
        run = current_run()
        if run is not None:
            with self._lock:
                self._open(run, info.name, "pass", mod, {"level": info.opt_level})

    def run_after_step(self, run: Run, start: float, end: float) -> None:
        """Show a step of a pass, and the wait before it."""
        self._step(run, start, end, "" if run.module is None else f"{run.module}: ", run.info.name)

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Close the span of a pass."""
        run = current_run()
        span = self._spans.get(run) if run is not None else None
        if run is not None and span is not None:
            self._close(run, {"changed": mod is not span.subject})

    def run_after_pass_failed(self, mod: object, info: PassInfo, error: BaseException) -> None:
        """Close the span of a pass that raised or was cancelled."""
        run = current_run()
        if run is not None:
            self._close(run, _failure(error))

    def run_before_function(self, func: Any, run: Run) -> None:
        """Open the span of a function body."""
        if self._functions:
            with self._lock:
                self._open(run, run.function or "", "function", func, {"pass": run.info.name})

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Show a step of a function body, and the wait before it."""
        if self._functions:
            self._step(run, start, end, "" if run.module is None else f"{run.module}: ", run.function or "")

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Close the span of a function body."""
        self._close(run, {"changed": result is not func})

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Close the span of a function body that raised or was cancelled."""
        self._close(run, _failure(error))

    def on_work(self, run: Run, worker: str, start: float, end: float) -> None:
        """Show the work of a worker thread or process."""
        with self._lock:
            if worker not in self._workers:
                self._workers[worker] = len(self._workers) + 1, 0.0
                self._name("thread_name", _WORKERS, len(self._workers), worker)
            tid, until = self._workers[worker]
            # A process reports only the end of its work, and late. Work before this one cannot overlap with it.
            begin, stop = max(until, self._micros(start)), self._micros(end)
            if stop <= begin:
                return
            self._workers[worker] = tid, stop
            name = run.info.name if run.function is None else f"{run.info.name} {run.function}"
            where = "" if run.module is None else f"{run.module}: "
            self._emit(where + name, "work", begin, stop, _WORKERS, tid, {})

    def _open(self, run: Run, name: str, kind: str, subject: object, args: dict[str, Any]) -> None:
        if run in self._spans:
            return  # two contexts use the same instrument, so each hook is called twice
        above = run.body_of or run.parent
        parent = None if above is None else self._spans.get(above)
        is_inner = parent is not None and parent.group.module == run.module
        group = parent.group if parent is not None and is_inner else self._group(run.module)
        if run.body_of is None:
            args["position"] = self._positions.begin(run).text
        span = TimelineSpan(name, kind, group, parent, subject, args)
        track = group.track_for(span) or self._track(group)
        span.begin = self._now()
        group.open(span, track)
        self._spans[run] = span

    def _close(self, run: Run, args: dict[str, Any]) -> None:
        with self._lock:
            span = self._spans.pop(run, None)
            if span is None:
                return
            now = self._now()
            span.args |= args
            cut = span.track.above(span)
            for other in cut:
                self._slice(other, now, {"continues": True})
            self._slice(span, now)
            span.track.pop(span, cut)
            if cut:  # tasks that outlive the pass that started them
                span.group.move(cut, span.group.free_track() or self._track(span.group), now)
            span.group.close(span, now)
            if span.group.is_idle:
                self._idle.setdefault(span.group.module, []).append(span.group)

    def _step(self, run: Run, start: float, end: float, where: str, name: str) -> None:
        begin, stop = self._micros(start), self._micros(end)
        with self._lock:
            span = self._spans.get(run)
            if span is None:
                return
            wait = span.wait_before(begin, stop)
            if wait is None:
                return
            if wait[1] > wait[0]:
                self._emit("waiting", "wait", wait[0], wait[1], _MODULES, span.track.tid, {})
            self._emit(where + name, f"{span.kind} step", begin, stop, _THREADS, self._thread(), {})

    def _slice(self, span: TimelineSpan, end: float, more: dict[str, Any] | None = None) -> None:
        args = {**span.args, **(more or {})}
        self._emit(span.name, span.kind, span.begin, end, _MODULES, span.track.tid, args)

    def _emit(
        self, name: str, kind: str, begin: float, end: float, process: int, tid: int, args: dict[str, Any]
    ) -> None:
        event = {"name": name, "cat": kind, "ph": "X", "ts": begin, "dur": round(end - begin, 3), "pid": process}
        self._file.add({**event, "tid": tid, "args": args})

    def _name(self, event_name: str, process: int, tid: int, name: str) -> None:
        self._file.add({"name": event_name, "ph": "M", "pid": process, "tid": tid, "args": {"name": name}})

    def _group(self, module: str | None) -> TrackGroup:
        """Return the tracks of an ended run of this module, or new ones."""
        idle = self._idle.get(module)
        if idle:
            return idle.pop()
        self._groups += 1
        return TrackGroup(module, self._groups)

    def _track(self, group: TrackGroup) -> Track:
        self._tracks += 1
        track = group.add_track(self._tracks)
        self._name("thread_name", _MODULES, track.tid, group.track_name(track))
        order = {"sort_index": group.number * 10_000 + track.number}
        self._file.add({"name": "thread_sort_index", "ph": "M", "pid": _MODULES, "tid": track.tid, "args": order})
        return track

    def _thread(self) -> int:
        ident = get_ident()
        if ident not in self._threads:
            self._threads[ident] = len(self._threads) + 1
            self._name("thread_name", _THREADS, self._threads[ident], current_thread().name)
        return self._threads[ident]

    def _now(self) -> float:
        return self._micros(perf_counter())

    def _micros(self, time: float) -> float:
        return round((time - self._begin) * 1e6, 3)

    def _finish(self) -> None:
        """Close the spans that are still open, marked as unfinished, and finish the file."""
        for run in sorted(self._spans, key=lambda run: -self._spans[run].begin):
            self._close(run, {"unfinished": True})
        self._file.finish()


class _Sink(Protocol):
    """Where events go: to a file or, in a worker, to a list."""

    def add(self, event: Event) -> None: ...

    def start(self) -> None: ...

    def finish(self) -> None: ...


class _EventList:
    """Keeps events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)

    def start(self) -> None:
        """Do nothing: there is no file."""

    def finish(self) -> None:
        """Do nothing: there is no file."""


@dataclass(frozen=True, slots=True)
class _Records:
    """What a twin has recorded."""

    events: Sequence[Event]
    begin: float
    process: str


def _failure(error: BaseException) -> dict[str, Any]:
    return {"error": ending_text(error)}
