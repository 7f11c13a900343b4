"""What a recorder knows of runs while they last, and what it keeps of them; for `ReportInstrument`."""

import traceback
from collections.abc import Hashable
from dataclasses import dataclass
from threading import get_ident
from time import perf_counter
from typing import Any, Final

import anyio

from apass.core.adapter import adapter_for
from apass.core.position import Position
from apass.errors import AdapterError
from apass.instruments.report.record import Body, Failure, PassRun, Status
from apass.instruments.report.texts import Base, TextStore

__all__ = [
    "BodyTimes",
    "Chain",
    "Entry",
    "SharedFailure",
    "failure_of",
    "is_thread_safe",
    "module_name",
    "task_at_work",
    "text_of",
]

_MOST_SLICES: Final = 64
"""How many stretches of work are kept of one run; beyond, those with the shortest pauses between them become one."""
_LONGEST_TRACEBACK: Final = 20_000


class Chain:
    """What the runs of one module have in common, from its outermost pass down."""

    __slots__ = ("_failures", "base", "mod", "size")

    def __init__(self) -> None:
        self._failures: dict[int, tuple[BaseException, SharedFailure]] = {}
        self.mod: Any = None
        """The module whose text was made last."""
        self.base: Base | None = None
        """That text."""
        self.size = 0
        """Its length."""

    def keep(self, texts: TextStore, mod: Any, text: str) -> int:
        """Keep the text of a module, and return its number."""
        base = texts.add(text, self.base)
        self.mod, self.base, self.size = mod, base, len(text)
        return base.index

    def failure(self, error: BaseException) -> "SharedFailure":
        """Return what is known of an error, the same for each pass that it goes through; each may have added notes."""
        _, shared = self._failures.setdefault(id(error), (error, SharedFailure(failure_of(error))))
        shared.failure = failure_of(error)
        return shared

    def close(self) -> None:
        """Let go of the module and the errors."""
        self.mod = self.base = None
        self._failures.clear()


@dataclass(slots=True)
class SharedFailure:
    """A failure that is known better when it has gone through more passes."""

    failure: Failure
    """What is known by now."""


class Entry:
    """One run of a pass."""

    __slots__ = (
        "after",
        "before",
        "busy",
        "chain",
        "end",
        "failure",
        "given",
        "is_outermost",
        "position",
        "slices",
        "start",
        "statistics",
        "status",
        "until",
    )

    def __init__(self, position: Position, given: Any, chain: Chain, *, is_outermost: bool) -> None:
        self.position = position
        """Where it stands."""
        self.given = given
        """The module that it was given, until it ends."""
        self.chain = chain
        """What it shares with others."""
        self.is_outermost = is_outermost
        """Whether the chain ends with it."""
        self.start = self.until = perf_counter()
        self.end: float | None = None
        self.busy = 0.0
        self.slices: list[float] = []
        self.before = self.after = -1
        self.status = Status.UNFINISHED
        self.failure: SharedFailure | None = None
        self.statistics: dict[str, float] = {}

    def begin(self, text: int) -> None:
        """Begin, on a module of that text."""
        self.before = text
        self.start = self.until = perf_counter()

    def work(self, start: float, end: float) -> None:
        """Note a stretch of work."""
        self.busy += end - start
        self.until = end
        self.slices += (max(start, self.start), end)
        if len(self.slices) > 4 * _MOST_SLICES:
            self.slices = _coarser(self.slices)

    def stop(self, now: float) -> Any:
        """Stop the clock, and return the module that the pass was given."""
        self.end = now
        given, self.given = self.given, None
        return given

    def finish(self, text: int) -> None:
        """Finish with another module, of that text; it may read the same."""
        self.after = text
        self.status = Status.UNCHANGED if text == self.before != -1 else Status.CHANGED
        self._finish()

    def finish_unchanged(self) -> None:
        """Finish with the same module."""
        self.after = self.before
        self.status = Status.UNCHANGED
        self._finish()

    def fail(self, error: BaseException) -> None:
        """Finish with an error, or a cancellation."""
        self.status = Status.FAILED if isinstance(error, Exception) else Status.CANCELLED
        if self.status is Status.FAILED:
            self.failure = self.chain.failure(error)
        self._finish()

    def value(self, now: float) -> PassRun:
        """Return what is known of the run; one that has not ended lasts until `now`."""
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
    """When the work on a function began, and how long it has held the loop."""

    start: float
    """When it began."""
    busy: float = 0.0
    """How long it has held the loop until now."""

    def value(self, position: Position, function: str, now: float, worker: int, status: Status) -> Body:
        """Return what is known when it has ended."""
        return Body(
            module=module_name(position),
            steps=position.steps,
            function=function,
            start=self.start,
            end=now,
            busy=self.busy,
            worker=worker,
            status=status,
        )


def module_name(position: Position) -> str:
    """Return the name of a module; one without a name has that of its outermost run."""
    return f"(unnamed {position.steps[0][0] + 1})" if position.module is None else position.module


def text_of(mod: Any) -> str:
    """Return the text of a module, or what was raised instead: a report must not harm what it is about."""
    try:
        return adapter_for(mod).to_text(mod)
    except Exception as error:
        return f"there is no text of this module: {type(error).__name__}: {error}"


def is_thread_safe(mod: Any) -> bool:
    """Tell whether the text of a module may be made in a thread."""
    try:
        return adapter_for(mod).thread_safe
    except AdapterError:
        return False


def failure_of(error: BaseException) -> Failure:
    """Return an error as text."""
    trace = "".join(traceback.format_exception(error))
    return Failure(
        kind=type(error).__name__,
        message=str(error),
        notes=[str(note) for note in getattr(error, "__notes__", ())],
        traceback=trace if len(trace) <= _LONGEST_TRACEBACK else "...\n" + trace[-_LONGEST_TRACEBACK:],
    )


def task_at_work() -> Hashable:
    """Return what tells the task at work from all others; outside of any event loop, the thread."""
    try:
        return anyio.get_current_task().id, get_ident()
    except RuntimeError:
        return get_ident()


def _coarser(slices: list[float]) -> list[float]:
    """Return few enough slices, with the longest of the pauses between them."""
    pauses = sorted(range(1, len(slices) - 1, 2), key=lambda at: slices[at] - slices[at + 1])
    kept = sorted(pauses[: _MOST_SLICES - 1])
    return [slices[0], *(slices[place] for at in kept for place in (at, at + 1)), slices[-1]]
