"""The events of a run, and `EventInstrument`, for instruments that handle them.

Progress, the live view, logs, the report and `events()` are built on it.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from time import time
from typing import Any, Final, Literal, NamedTuple, get_args

from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.remarks import Remark
from apass.core.run import Run, Whereabouts, current_run
from apass.executors.instrument_twins import remote_run
from apass.executors.remote_errors import SerializedError, failure_of
from apass.instruments.support.outcomes import ending_text

__all__ = ["KINDS", "Event", "EventInstrument", "EventKind"]

EventKind = Literal["started", "changed", "finished", "failed", "waiting", "remark"]
"""The kind of an event."""

KINDS: Final[tuple[EventKind, ...]] = get_args(EventKind)
"""All kinds of events."""


class Event(NamedTuple):
    """Something that happened in a run.

    The kinds are:

    - `started`: a pass, or the body of a function pass, has begun;
    - `changed`: it has returned another module or function; a `finished` event follows;
    - `finished`: it has ended without an error;
    - `failed`: it has raised an error, or was cancelled;
    - `waiting`: a wait that `waiting_for` names has begun, or is over;
    - `remark`: a pass has emitted a remark.
    """

    kind: EventKind
    """The kind."""
    time: float
    """When it happened, in seconds since 1970 (`time.time`)."""
    pass_name: str
    """The name of the pass; empty outside of any pass."""
    position: Position | None = None
    """The position of the pass in the run of its module; None outside of any pass."""
    function: str | None = None
    """The function whose body runs, or whose body has called the pass; None if there is none."""
    is_body: bool = False
    """Whether the event is about the body for one function, rather than about the pass."""
    seconds: float = 0.0
    """How long the work took, if it has ended."""
    changed: bool = False
    """Whether the result is another module or function, if it is finished."""
    error: BaseException | None = None
    """The error of a `failed` event; a cancellation is one of its own type."""
    is_origin: bool = False
    """Whether the error was raised here: in a body, or in a pass itself rather than in one that it called."""
    what: str = ""
    """What a `waiting` event waits for."""
    is_over: bool = False
    """Whether the wait is over."""
    remark: Remark | None = None
    """The remark."""
    run: Run | None = None
    """The run of the pass or the body; None if it is recorded in a worker."""

    @property
    def module(self) -> str | None:
        """The name of the module, if it has one."""
        return None if self.position is None else self.position.module

    @property
    def path(self) -> str:
        """The position as text, such as `0:sequential/2:Tune`."""
        return "" if self.position is None else self.position.text

    def as_json(self) -> dict[str, Any]:
        """Return the event as values of JSON, without the empty fields.

        >>> Event("failed", 1.5, "Tune", seconds=0.5, error=ValueError("no")).as_json()
        {'kind': 'failed', 'time': 1.5, 'pass': 'Tune', 'seconds': 0.5, 'error': 'ValueError: no'}
        """
        kind = self.kind
        values: dict[str, Any] = {"kind": kind, "time": self.time}
        # Most fields are empty. To collect all and leave out the empty ones takes three times as long.
        if self.position is not None:
            if self.position.module:
                values["module"] = self.position.module
            values["pass"], values["path"] = self.pass_name, self.position.text
        elif self.pass_name:
            values["pass"] = self.pass_name
        if self.function:
            values["function"] = self.function
        if self.is_body:
            values["body"] = True
        if kind in ("finished", "failed"):
            values["seconds"] = self.seconds
        if kind == "finished":
            values["changed"] = self.changed
        if self.error is not None:
            values["error"] = ending_text(self.error)
        if self.what:
            values["what"] = self.what
        if kind == "waiting":
            values["over"] = self.is_over
        if self.remark is not None:
            values["remark"] = f"{self.remark.kind.value} {self.remark.name}: {self.remark.message}"
        return values


class EventInstrument(ABC):
    """Base of instruments that handle events instead of hooks.

    A subclass defines `handle`, and no hooks around passes and bodies. In a worker, events are recorded, and handled
    here when the module is done. If the worker is lost, or the run is cancelled, the pass that was sent has one event,
    `failed`.

    Parameters:
        kinds: the kinds of events about passes that are handled; all by default.
        body_kinds: the kinds of events about bodies of function passes; all by default. Waits and remarks are handled
            in bodies too if they are in `kinds`.
        first: the numbers of the first outermost runs, for a twin in a worker.

    """

    reads_modules: bool = False
    """Whether `handle` reads or keeps the modules that it receives."""

    def __init__(
        self,
        kinds: Collection[EventKind] = KINDS,
        body_kinds: Collection[EventKind] = KINDS,
        *,
        first: Mapping[str | None, int] | None = None,
    ) -> None:
        self._kinds = frozenset(kinds)
        self._body_kinds = frozenset(body_kinds)
        self._positions = PositionTracker(first)
        self._subjects: dict[Run, tuple[Any]] = {}
        # A hook that is None is not called. Otherwise passes would compute remarks that nothing reads.
        unused = [name for name, kind in (("on_wait", "waiting"), ("on_remark", "remark")) if kind not in self._kinds]
        if not self._body_kinds:
            unused += ["run_before_function", "run_after_function", "run_after_function_failed"]
        vars(self).update(dict.fromkeys(unused))

    @abstractmethod
    def handle(self, event: Event, subject: Any) -> Awaitable[None] | None:
        """Handle an event.

        It must not block. It may return an awaitable for an event about a pass, except for waits and remarks.

        Parameters:
            event: the event.
            subject: the module or function that the event is about: the input of one that has started or failed, and
                the result of one that has finished; None for other events, and for events of a worker.

        """

    def run_before_pass(self, mod: Any, info: PassInfo) -> Awaitable[None] | None:
        """Handle the start of a pass."""
        run = current_run()
        # If the context lists the instrument twice, its hooks for passes are called twice.
        if run is None or run in self._subjects:
            return None
        self._positions.begin(run)
        self._subjects[run] = (mod,)
        return self._emit("started", run, mod)

    def run_after_pass(self, mod: Any, info: PassInfo) -> Awaitable[None] | None:
        """Handle the end of a pass."""
        return self._finish(current_run(), mod)

    def run_after_pass_failed(self, mod: Any, info: PassInfo, error: BaseException) -> Awaitable[None] | None:
        """Handle the failure of a pass."""
        run = current_run()
        if run is None or self._subjects.pop(run, None) is None:
            return None
        is_origin = any(isinstance(note, Whereabouts) and note.run is run for note in getattr(error, "__notes__", ()))
        return self._emit("failed", run, mod, seconds=run.seconds, error=error, is_origin=is_origin)

    def run_before_function(self, func: Any, run: Run) -> None:
        """Handle the start of a body."""
        self._subjects[run] = (func,)
        self._emit("started", run, func)

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Handle the end of a body."""
        self._finish(run, result)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Handle the failure of a body."""
        if self._subjects.pop(run, None) is not None:
            self._emit("failed", run, func, seconds=run.seconds, error=error, is_origin=True)

    def on_wait(self, run: Run | None, what: str, is_over: bool) -> None:
        """Handle the start or the end of a named wait."""
        self._emit("waiting", run, None, what=what, is_over=is_over)

    def on_remark(self, remark: Remark) -> None:
        """Handle a remark."""
        self._emit("remark", current_run(), None, remark=remark)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        first = self._positions.reserve(remote_run())
        return partial(_RecordingTwin, self._kinds, self._body_kinds, first=first)

    def merge_records(self, records: Any) -> None:
        """Handle the events of a twin."""
        for event, failure in records:
            self.handle(event if failure is None else event._replace(error=failure.error()), None)

    def worker_lost(self, error: BaseException) -> None:
        """Handle the failure of a module whose worker returned no events."""
        run = remote_run()
        self._emit("failed", run, None, seconds=run.seconds, error=error, is_origin=True)

    def _finish(self, run: Run | None, result: Any) -> Awaitable[None] | None:
        subject = None if run is None else self._subjects.pop(run, None)
        if run is None or subject is None:
            return None
        return self._emit("finished", run, result, seconds=run.seconds, changed=result is not subject[0])

    def _emit(self, kind: EventKind, run: Run | None, subject: Any, **details: Any) -> Awaitable[None] | None:
        is_body = run is not None and run.body_of is not None
        # Waits and remarks have hooks that are not called unless they are wanted, in bodies as well.
        if kind not in (self._body_kinds if is_body else self._kinds) and kind not in ("waiting", "remark"):
            return None
        if run is None:
            return self.handle(Event(kind, time(), "", **details), subject)
        body = run if is_body else run.parent
        function = None if body is None else body.function
        position = self._positions.position(run)
        return self.handle(Event(kind, time(), run.info.name, position, function, is_body, run=run, **details), subject)


class _RemoteEvent(NamedTuple):
    """An event in a worker, without what cannot be sent."""

    event: Event
    failure: SerializedError | None


@pass_instrument
class _RecordingTwin(EventInstrument):
    """Records the events of a worker."""

    def __init__(
        self, kinds: Collection[EventKind], body_kinds: Collection[EventKind], *, first: Mapping[str | None, int]
    ) -> None:
        super().__init__(kinds, body_kinds, first=first)
        self._events: list[_RemoteEvent] = []

    def handle(self, event: Event, subject: Any) -> None:
        failure = None if event.error is None else failure_of(event.error)
        self._events.append(_RemoteEvent(event._replace(run=None, error=None), failure))

    def worker_records(self) -> Sequence[_RemoteEvent]:
        """Return the events, for `merge_records` of the original."""
        return self._events
