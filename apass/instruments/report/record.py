"""Values that describe a recorded run, from which `page` renders a page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from apass.core.position import Position
from apass.core.remarks import Remark
from apass.instruments.provenance.history import Provenance
from apass.instruments.report.texts import StoredText

__all__ = ["Body", "PassRun", "Record", "RecordedError", "RecordedRemark", "RunStatus"]


class RunStatus(IntEnum):
    """The outcome of a run of a pass or of a function body."""

    UNCHANGED = 0
    """It returned its input, or a module with the same text."""
    CHANGED = 1
    """It returned another result."""
    FAILED = 2
    """It raised."""
    CANCELLED = 3
    """It was cancelled."""
    UNFINISHED = 4
    """It has not ended, or its end was not observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedError:
    """An error, as text."""

    kind: str
    """The name of its class."""
    message: str
    """The error's message."""
    notes: Sequence[str]
    """The error's notes, such as the pass and the function that raised it."""
    traceback: str
    """The full traceback, formatted by Python."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun:
    """One run of a pass. Times are in seconds as of `time.perf_counter`."""

    module: str
    """The unique name of the module."""
    steps: tuple[tuple[int, str, str | None], ...]
    """The steps of its `Position`."""
    start: float
    """The time at which it began."""
    end: float
    """The time at which it ended, or at which the record was made."""
    busy: float
    """Seconds for which it occupied the event loop."""
    slices: Sequence[float]
    """The intervals in which it did, as alternating starts and ends. If there are many, short pauses are left out."""
    before: int
    """The index of its input's text, or -1 if that was not stored."""
    after: int
    """The index of its result's text, or -1 if that was not stored or there is no result."""
    status: RunStatus
    """The outcome."""
    failure: RecordedError | None = None
    """The error that it raised."""
    statistics: Mapping[str, float] = field(default_factory=dict[str, float])
    """The statistics that it counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """One run of a function pass on one function. Times are as in `PassRun`."""

    module: str
    """The name of the module."""
    steps: tuple[tuple[int, str, str | None], ...]
    """The steps of the pass."""
    function: str
    """The name of the function."""
    start: float
    """The time at which it began."""
    end: float
    """The time at which it ended."""
    busy: float
    """Seconds for which it occupied the event loop."""
    worker: int
    """The number of the task that ran it."""
    status: RunStatus
    """The outcome."""


@dataclass(frozen=True, slots=True)
class RecordedRemark:
    """A remark with the position of the pass that made it."""

    remark: Remark
    """The remark."""
    position: Position | None
    """The position of the pass, or None if the remark was made outside of any pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The data of a report."""

    title: str
    """The heading of the page."""
    origin: float
    """The zero of the page's time axis, as of `time.perf_counter`."""
    runs: Sequence[PassRun]
    """All runs of passes, sorted by module and pipeline position."""
    bodies: Sequence[Body]
    """The function bodies that took long, changed something or failed."""
    texts: Sequence[StoredText]
    """The texts to which the indices in `runs` refer."""
    failures: Mapping[str, RecordedError]
    """Errors of modules outside of any pass, by module name."""
    remarks: Sequence[RecordedRemark]
    """The remarks of passes."""
    provenance: Mapping[str, Provenance] = field(default_factory=dict[str, Provenance])
    """The passes that touched each node, by module name."""
    left_out: Mapping[str, int]
    """How many items of each kind exceeded a limit and were left out."""
