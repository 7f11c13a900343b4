"""What is recorded of a run, as values; `apass.instruments.report.page` makes a page of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from apass.core.position import Position
from apass.core.remarks import Remark
from apass.instruments.report.texts import KeptText

__all__ = ["Body", "Failure", "PassRun", "Record", "Said", "Status"]


class Status(IntEnum):
    """How a run of a pass, or of the body of a function, ended."""

    UNCHANGED = 0
    """It gave back what it was given, or what reads the same."""
    CHANGED = 1
    """It gave back something else."""
    FAILED = 2
    """It raised."""
    CANCELLED = 3
    """It was cancelled from outside."""
    UNFINISHED = 4
    """It has not been seen to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error, as text."""

    kind: str
    """The name of its class."""
    message: str
    """What it says."""
    notes: Sequence[str]
    """Its notes: where it was raised, what went wrong then."""
    traceback: str
    """All of it, as Python shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRun:
    """One run of a pass. Times are in seconds as of `time.perf_counter`."""

    module: str
    """The name of the module, unlike that of any other."""
    steps: tuple[tuple[int, str, str | None], ...]
    """Where it stands: the steps of its `Position`."""
    start: float
    """When it began."""
    end: float
    """When it ended, or the record was made."""
    busy: float
    """How long of that it held the loop."""
    slices: Sequence[float]
    """When it did: start and end in turn; short pauses are left out where there are many."""
    before: int
    """The text of the module it was given, by number; -1 if that was not kept."""
    after: int
    """The text of what it returned; -1 if that was not kept, or there is none."""
    status: Status
    """How it ended."""
    failure: Failure | None = None
    """What it raised."""
    statistics: Mapping[str, float] = field(default_factory=dict[str, float])
    """What it counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The work of a function pass on one function. Times are as in `PassRun`."""

    module: str
    """The name of the module."""
    steps: tuple[tuple[int, str, str | None], ...]
    """The steps of the pass."""
    function: str
    """The name of the function."""
    start: float
    """When it began."""
    end: float
    """When it ended."""
    busy: float
    """How long of that it held the loop."""
    worker: int
    """The task that did it, by number."""
    status: Status
    """How it ended."""


@dataclass(frozen=True, slots=True)
class Said:
    """A remark, and who made it."""

    remark: Remark
    """The remark."""
    position: Position | None
    """Where the run of the pass stands; None if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that a report shows."""

    title: str
    """What it is about."""
    origin: float
    """The time, as of `time.perf_counter`, from which the page counts."""
    runs: Sequence[PassRun]
    """Every run of a pass, by module and place in the pipeline."""
    bodies: Sequence[Body]
    """Work on functions: what took long, changed something or failed."""
    texts: Sequence[KeptText]
    """The texts that `runs` name by number."""
    failures: Mapping[str, Failure]
    """What went wrong with modules outside of any pass, by the name of the module."""
    remarks: Sequence[Said]
    """What passes had to say."""
    left_out: Mapping[str, int]
    """How much was left out because there was too much, by what it is."""
