"""State that `ReportInstrument` keeps while passes and bodies run."""

import traceback
from collections.abc import Hashable
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter
from typing import Any, Final

import anyio

from apass.core.adapter import adapter_for
from apass.core.position import Position
from apass.core.run import Run
from apass.errors import AdapterError
from apass.instruments.report.record import Body, PassRun, RecordedError, RunStatus
from apass.instruments.report.texts import Base, TextStore
from apass.instruments.support.outcomes import inner_errors, is_cancellation
from apass.util.text import text_of_error

__all__ = [
    "BodyTimes",
    "Chain",
    "RecordedPass",
    "SharedFailure",
    "current_task",
    "is_thread_safe",
    "module_name",
    "recorded_error",
    "text_of",
]

_MOST_SLICES: Final = 64
"""Maximum number of busy intervals in a record. Beyond it, the intervals with the shortest pauses are merged."""
_LONGEST_TRACEBACK: Final = 20_000


class Chain:
    """State that the runs of one module share, from the outermost pass down."""

    __slots__ = ("_failures", "base", "mod", "size")

    def __init__(self) -> None:
        self._failures: dict[int, tuple[BaseException, SharedFailure]] = {}
        self.mod: Any = None
        """The module whose text was made last."""
        self.base: Base | None = None
        """The stored text of `mod`."""
        self.size: int = 0
        """The length of that text in characters."""

    def store(self, texts: TextStore, mod: Any, text: str) -> int:
        """Store the text of a module, and return its index."""
        base = texts.add(text, self.base)
        self.mod, self.base, self.size = mod, base, len(text)
        return base.index

    def failure(self, error: BaseException) -> "SharedFailure":
        """Return the record of an error, shared by the passes that it ends."""
        _, shared = self._failures.setdefault(id(error), (error, SharedFailure(recorded_error(error))))
        # Each pass may have added notes, so the record is made anew.
        shared.failure = recorded_error(error)
        return shared

    def close(self) -> None:
        """Release the module and the errors."""
        self.mod = self.base = None
        self._failures.clear()


@dataclass(slots=True)
class SharedFailure:
    """An error record, updated while the error propagates to enclosing passes."""

    failure: RecordedError
    """The latest record of the error."""


class RecordedPass:
    """One run of a pass."""

    __slots__ = (
        "after",
        "before",
        "busy",
        "chain",
        "end",
        "failure",
        "is_outermost",
        "mod",
        "position",
        "slices",
        "start",
        "statistics",
        "status",
        "until",
    )

    def __init__(self, position: Position, mod: Any, chain: Chain, *, is_outermost: bool) -> None:
        self.position: Position = position
        """The position of the pass."""
        self.mod: Any = mod
        """The input of the pass, until the pass ends."""
        self.chain: Chain = chain
        """The state shared with other runs on the module."""
        self.is_outermost: bool = is_outermost
        """Whether it is the outermost run of the chain, which closes the chain."""
        self.start: float = perf_counter()
        self.until: float = self.start
        self.end: float | None = None
        self.busy: float = 0.0
        self.slices: list[float] = []
        self.before: int = -1
        self.after: int = -1
        self.status: RunStatus = RunStatus.UNFINISHED
        self.failure: SharedFailure | None = None
        self.statistics: dict[str, float] = {}

    def begin(self, text: int) -> None:
        """Start the clock, after the text of the input has been stored at index `text`."""
        self.before = text
        self.start = self.until = perf_counter()

    def work(self, start: float, end: float) -> None:
        """Add an interval in which the pass occupied the event loop."""
        self.busy += end - start
        self.until = end
        self.slices += (max(start, self.start), end)
        if len(self.slices) > 4 * _MOST_SLICES:
            self.slices = _coarser(self.slices)

    def stop(self, run: Run) -> Any:
        """Take the times of the run that has ended, and return the input of the pass."""
        self.start, self.end = run.started, run.ended
        mod, self.mod = self.mod, None
        return mod

    def finish(self, text: int) -> None:
        """Record a new result, whose text may equal that of the input."""
        self.after = text
        self.status = RunStatus.UNCHANGED if text == self.before != -1 else RunStatus.CHANGED
        self._finish()

    def finish_unchanged(self) -> None:
        """Record that the pass returned its input."""
        self.after = self.before
        self.status = RunStatus.UNCHANGED
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Record an error or a cancellation."""
        is_cancelled = is_cancellation(error) or isinstance(error, KeyboardInterrupt)
        self.status = RunStatus.CANCELLED if is_cancelled else RunStatus.FAILED
        if self.status is RunStatus.FAILED:
            self.failure = self.chain.failure(error)
        self._finish()

    def value(self, now: float) -> PassRun:
        """Return the record of the run. If the run has not ended, it lasts until `now`."""
        return PassRun(
            module=module_name(self.position),
            steps=self.position.steps,
            start=self.start,
            end=now if self.end is None else self.end,
            busy=self.busy,
            slices=_coarser(self.slices) if len(self.slices) > 2 * _MOST_SLICES else tuple(self.slices),
            before=self.before,
            after=self.after,
            status=self.status,
            failure=None if self.failure is None else self.failure.failure,
            statistics=dict(self.statistics),
        )

    def _finish(self) -> None:
        if self.is_outermost:
            self.chain.close()


@dataclass(slots=True)
class BodyTimes:
    """The time of a function body on the event loop."""

    busy: float = 0.0
    """Seconds on the event loop so far."""

    def value(self, position: Position, run: Run, worker: int, status: RunStatus) -> Body:
        """Return the record of the body, whose run has ended."""
        return Body(
            module=module_name(position),
            steps=position.steps,
            function=run.function or "",
            start=run.started,
            end=run.ended,
            busy=self.busy,
            worker=worker,
            status=status,
        )


def module_name(position: Position) -> str:
    """Return the module's name, or the number of its outermost run if it has none."""
    return f"(unnamed {position.steps[0][0] + 1})" if position.module is None else position.module


def text_of(mod: Any) -> str:
    """Return the text of a module, or the error that the adapter raised instead."""
    try:
        return adapter_for(mod).to_text(mod)
    except Exception as error:  # a report must not make the reported run fail
        return f"there is no text of this module: {type(error).__name__}: {error}"


def is_thread_safe(mod: Any) -> bool:
    """Return whether the text of a module may be made in a worker thread."""
    try:
        return adapter_for(mod).thread_safe
    except AdapterError:
        return False


def recorded_error(error: BaseException) -> RecordedError:
    """Return the record of an error."""
    trace = "".join(traceback.format_exception(error))
    return RecordedError(
        kind=type(error).__name__,
        message=text_of_error(error),
        notes=[*(str(note) for note in getattr(error, "__notes__", ())), *inner_errors(error)],
        traceback=trace if len(trace) <= _LONGEST_TRACEBACK else "...\n" + trace[-_LONGEST_TRACEBACK:],
    )


def current_task() -> Hashable:
    """Return an identifier of the current task, or of the thread without a task."""
    try:
        return anyio.get_current_task().id, get_ident()
    except RuntimeError:
        return get_ident()


def _coarser(slices: list[float]) -> list[float]:
    """Return at most 64 slices, separated by the longest pauses."""
    pauses = sorted(range(1, len(slices) - 1, 2), key=lambda at: slices[at] - slices[at + 1])
    longest = sorted(pauses[: _MOST_SLICES - 1])
    return [slices[0], *(slices[index] for at in longest for index in (at, at + 1)), slices[-1]]
