"""`JobRecord`: the values that describe a job, its end and its events."""

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from hashlib import sha256
from secrets import token_hex
from time import time_ns
from typing import Any, Final, Self, cast

from apass.util.checks import check_type, is_seconds

__all__ = [
    "ENDED",
    "JobEvent",
    "JobFailure",
    "JobOptions",
    "JobRecord",
    "JobState",
    "JobSummary",
    "is_file_kind",
    "job_key",
    "new_job_id",
]


class JobState(StrEnum):
    """The state of a job."""

    QUEUED = "queued"
    """It waits, possibly after an attempt that did not end."""
    RUNNING = "running"
    """Its passes run."""
    DONE = "done"
    """It has a result."""
    FAILED = "failed"
    """A pass raised an error, the deadline was exceeded, or every attempt lost its worker."""
    CANCELLED = "cancelled"
    """It was cancelled."""


ENDED: Final = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
"""The states in which a job stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of a job besides its pipeline.

    Raises:
        TypeError: if a value has another type.
        ValueError: if a value is out of range.

    """

    opt_level: int = 2
    """The level of the `PassContext`."""
    required_pass: tuple[str, ...] = ()
    """Names of passes that run whatever their level."""
    disabled_pass: tuple[str, ...] = ()
    """Names of passes that do not run."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of registered config options. A server allows the keys of `Limits.config`."""
    report: bool = True
    """Whether the report is recorded."""
    functions: bool = False
    """Whether there are events about function bodies, and not only about passes."""
    texts: bool = False
    """Whether there are events with the text of the model before and after each pass."""

    def __post_init__(self) -> None:
        """Check the values, which may come from a request."""
        if not isinstance(self.opt_level, int) or isinstance(self.opt_level, bool):
            raise TypeError(f"opt_level must be an int, got {self.opt_level!r}")
        if not 0 <= self.opt_level <= 1000:
            raise ValueError(f"opt_level must be between 0 and 1000, got {self.opt_level!r}")
        for name in ("required_pass", "disabled_pass"):
            value: object = getattr(self, name)
            items = list(cast("Iterable[object]", value)) if isinstance(value, list | tuple | Set) else [None]
            if not all(isinstance(item, str) for item in items):
                raise TypeError(f"{name} must be a list of names of passes, got {value!r}")
            object.__setattr__(self, name, tuple(items))
        check_type("config", self.config, Mapping)
        object.__setattr__(self, "config", dict(self.config))
        check_type("report", self.report, bool)
        check_type("functions", self.functions, bool)
        check_type("texts", self.texts, bool)

    def as_json(self) -> dict[str, Any]:
        """Return the options that differ from the defaults, as values of JSON."""
        values: dict[str, Any] = {
            name: value for name, default in _DEFAULTS.items() if (value := getattr(self, name)) != default
        }
        return {name: list(value) if name.endswith("_pass") else value for name, value in values.items()}


_DEFAULTS: Final[Mapping[str, Any]] = {item.name: getattr(JobOptions(), item.name) for item in fields(JobOptions)}


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why a job failed, as text."""

    kind: str
    """The name of the class of the error."""
    message: str
    """The message of the error."""
    notes: tuple[str, ...] = ()
    """The notes of the error, such as the location."""
    pass_name: str | None = None
    """The pass that raised it, if known."""
    function: str | None = None
    """The function that it ran on, if known."""
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    """The errors and warnings of the job, each with `level`, `message`, `pass`, and a span if it has one."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """What a finished job did."""

    before: int | None = None
    """Nodes of the model."""
    after: int | None = None
    """Nodes of the result."""
    changed: bool = False
    """Whether the result is another model."""
    changed_by: Mapping[str, int] = field(default_factory=dict[str, int])
    """How often each pass changed the model."""
    cached: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many results of each pass came from the cache."""
    seconds: float = 0.0
    """Wall time in the worker, from reading the model to writing the result."""
    diagnostics: tuple[Mapping[str, Any], ...] = ()
    """Warnings and notes of the passes; see `JobFailure.diagnostics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """All that is known about a job, except for the bytes of its model and result."""

    id: str
    """The identifier, which cannot be guessed. Later jobs have greater ones."""
    tenant: str
    """The user or program that owns the job."""
    name: str
    """A label, such as the name of a file."""
    kind: str
    """The suffix of model files, such as `.onnx`, or the name of the class of modules."""
    result_kind: str
    """The suffix of the result's file, or the name of the class of modules."""
    pipeline: str
    """The name of the pipeline, or its text."""
    options: JobOptions
    """The options."""
    priority: int
    """Of the jobs of a tenant, those with a greater priority run first."""
    deadline: float | None
    """The time by which the job must end, in seconds since 1970; None for no limit."""
    key: str
    """Equal jobs of all tenants have equal keys; see `job_key`."""
    model_digest: str
    """The SHA-256 of the model."""
    model_size: int
    """Bytes of the model."""
    created: float
    """When it was accepted, in seconds since 1970."""
    idempotency_key: str | None = None
    """A name for the request, by which a repeated request finds the job."""
    trace: str | None = None
    """The `traceparent` of the request."""
    state: JobState = JobState.QUEUED
    """The state."""
    attempts: int = 0
    """How often its passes were started, without the attempts that ended with the server or another job."""
    starts: int = 0
    """How often its passes were started."""
    started: float | None = None
    """When the last attempt began."""
    finished: float | None = None
    """When it ended."""
    result_size: int | None = None
    """Bytes of the result, if it has one."""
    result_digest: str | None = None
    """The SHA-256 of the result, if it has one."""
    report_digest: str | None = None
    """The SHA-256 of the data of the report, if there is one."""
    reused: bool = False
    """Whether the result was computed for an equal job."""
    failure: JobFailure | None = None
    """The error of a failed job."""
    summary: JobSummary | None = None
    """What a job that is done did."""

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self.state in ENDED

    def with_state(self, state: JobState, **changes: Any) -> "JobRecord":
        """Return the record in another state."""
        return replace(self, state=state, **changes)

    def to_json(self) -> str:
        """Return the record as JSON text, for a store on a disk."""
        # Stores in memory do not need the library.
        from msgspec import to_builtins

        # `msgspec.json` cannot encode a part of a surrogate pair, which the name of a file may contain.
        return json.dumps(to_builtins(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the record that `to_json` wrote.

        Raises:
            ValueError: if the text is not that of a record.

        """
        # Stores in memory do not need the library.
        from msgspec import MsgspecError, convert

        try:
            return convert(json.loads(text), cls)
        except (MsgspecError, ValueError, RecursionError) as error:
            raise ValueError(f"this is not the record of a job: {error}") from error


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job.

    The kinds are:

    - `state`: the job has another state, which `data` names;
    - those of `apass.instruments.events`, about the passes of the job, with the fields of `Event.as_json` in `data`;
    - `text`: a text of the model, encoded by `TextEncoder`. A later `started` event of a pass names the index of the
      text before it in `text`, and its `finished` event that of the text after it;
    - `dropped`: events are missing here, and `data` counts them.
    """

    id: int
    """The number of the event in its job, from 1."""
    kind: str
    """The kind."""
    time: float
    """When it happened, in seconds since 1970."""
    data: Mapping[str, Any]
    """Values of JSON."""

    def as_json(self) -> dict[str, Any]:
        """Return the event as values of JSON."""
        return {"id": self.id, "kind": self.kind, "time": self.time, **self.data}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the event that `as_json` wrote."""
        data = {key: value for key, value in values.items() if key not in ("id", "kind", "time")}
        return cls(int(values["id"]), str(values["kind"]), float(values["time"]), data)


def new_job_id() -> str:
    """Return a new identifier.

    It consists of 12 hexadecimal digits of the time in milliseconds, and 20 random ones.
    """
    return f"{time_ns() // 1_000_000:012x}{token_hex(10)}"


def job_key(model: bytes, *parts: object) -> str:
    """Return the key of a job.

    Parameters:
        model: the SHA-256 of the model.
        *parts: everything else that the result depends on, as values of JSON.

    """
    return sha256(json.dumps([model.hex(), *parts], sort_keys=True, default=str).encode()).hexdigest()


def is_file_kind(kind: str) -> bool:
    """Return whether models of a kind are files, and no modules of a program.

    >>> [is_file_kind(kind) for kind in (".onnx", "builtins.dict")]
    [True, False]
    """
    # The kind of a module is the name of its class.
    return kind.startswith(".")


def check_deadline(value: object) -> None:
    """Raise ValueError unless a value is a positive number of seconds or None."""
    if value is not None and not is_seconds(value):
        raise ValueError(f"deadline must be a positive number of seconds or None, got {value!r}")
