"""The parameters and answers of the HTTP interface, as types."""

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from json import dumps
from typing import Annotated, Any, Final, Literal, TypedDict, cast

from apass.errors import MissingExtraError
from apass.service.jobs import JobFailure, JobOptions, JobRecord, JobState, JobSummary, is_file_kind

try:
    from msgspec import UNSET, Meta, Struct, UnsetType, convert, json, to_builtins
    from msgspec.structs import asdict, fields
except ImportError as _error:
    raise MissingExtraError(f"the service over HTTP needs msgspec ({_error}): pip install 'apass[http]'") from _error

__all__ = [
    "EVENT_KINDS",
    "PROBLEM",
    "PROBLEM_TYPE",
    "After",
    "Event",
    "Failure",
    "Health",
    "Job",
    "JobPage",
    "Kinds",
    "ListedJobs",
    "Nothing",
    "Passes",
    "Pipeline",
    "Pipelines",
    "Plan",
    "PlanRequest",
    "Problem",
    "Removal",
    "Status",
    "Submission",
    "Wait",
    "encode_json",
    "failure_of",
    "job_failure",
    "job_of",
    "query_of",
    "record_of",
    "to_builtins",
]

PROBLEM: Final = "application/problem+json"
"""The content type of errors."""

PROBLEM_TYPE: Final = "urn:apass:"
"""The `type` of a problem is this and the name of the class of the error."""

EventKind = Literal["state", "started", "finished", "failed", "waiting", "remark"]

EVENT_KINDS: Final = ("state", "started", "finished", "failed", "waiting", "remark")
"""The kinds of events that `GET /v1/events` can send."""

Count = Annotated[int, Meta(ge=0)]
Id = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
Level = Annotated[int, Meta(ge=0, le=1000)]
Time = Annotated[float, Meta(description="Seconds since 1970.")]
Waiting = Annotated[
    Annotated[float, Meta(ge=0)] | None,
    Meta(description="Seconds to wait for the end of the job.", examples=[30]),
]


class Nothing(Struct, frozen=True):
    """No parameters."""


class Wait(Struct, frozen=True):
    """The parameters of a request that may wait."""

    wait: Waiting = None


class Submission(Struct, frozen=True, kw_only=True):
    """The parameters of a submission, in its query or form."""

    pipeline: Annotated[
        str, Meta(description="The name of a pipeline, or its text if the server allows it.", examples=["default"])
    ] = "default"
    name: Annotated[str, Meta(description="A label.", examples=["lenet.onnx"])] = ""
    suffix: Annotated[str, Meta(description="The format of the model.", examples=["onnx"])] = ""
    to: Annotated[str, Meta(description="The format of the result.", examples=["onnx"])] = ""
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="Greater ones run first.", examples=[1])] = 0
    deadline: Annotated[
        Annotated[float, Meta(gt=0, le=1e9)] | None,
        Meta(description="Seconds until the job must end.", examples=[30]),
    ] = None
    opt_level: Annotated[Level, Meta(description="The level of the context.", examples=[3])] = 2
    required: Annotated[
        tuple[str, ...], Meta(description="Passes that run whatever their level.", examples=[["onnx.Inline"]])
    ] = ()
    disabled: Annotated[tuple[str, ...], Meta(description="Passes that do not run.", examples=[["onnx.Simplify"]])] = ()
    config: Annotated[str, Meta(description="Config options as an object of JSON.", examples=["{}"])] = "{}"
    report: Annotated[bool, Meta(description="Whether the report is recorded.")] = True
    functions: Annotated[bool, Meta(description="Whether there are events about functions.", examples=[True])] = False
    texts: Annotated[
        bool,
        Meta(description="Whether there are events with the text of the model around each pass.", examples=[True]),
    ] = False
    wait: Waiting = None


class ListedJobs(Struct, frozen=True):
    """The parameters of a list of jobs."""

    state: Annotated[
        tuple[JobState, ...], Meta(description="Only jobs in these states.", examples=[["queued", "running"]])
    ] = ()
    q: Annotated[
        str, Meta(description="A part of the name or the pipeline, or the beginning of the id.", examples=["lenet"])
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=200, description="Jobs of the page.", examples=[20])] = 50
    before: Annotated[Id | None, Meta(description="`next` of the page before.")] = None
    tenant: Annotated[str | None, Meta(description="Only jobs of this tenant; others need the scope admin.")] = None


class Removal(Struct, frozen=True):
    """The parameters of a cancellation."""

    remove: Annotated[bool, Meta(description="Whether to remove a job that has ended.")] = False


class After(Struct, frozen=True):
    """The parameters of a stream of events."""

    after: Annotated[
        int, Meta(ge=0, le=2**63 - 1, description="The id of the last event that is known.", examples=[7])
    ] = 0


class Kinds(Struct, frozen=True):
    """The parameters of the events of all jobs."""

    kinds: Annotated[tuple[EventKind, ...], Meta(description="The kinds of events.", examples=[["state"]])] = ("state",)


class PlanRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The pipeline and the options that are planned, as for a job."""

    pipeline: Annotated[str, Meta(examples=["default"])] = "default"
    suffix: Annotated[str, Meta(examples=[".onnx"])] = ""
    opt_level: Annotated[Level, Meta(examples=[3])] = 2
    required: tuple[str, ...] = ()
    disabled: Annotated[tuple[str, ...], Meta(examples=[["onnx.Inline"]])] = ()
    config: Mapping[str, Any] = {}


class Blob(Struct, frozen=True):
    """The bytes of a model or a result."""

    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: Count


class Options(Struct, frozen=True, rename={"required_pass": "required", "disabled_pass": "disabled"}):
    """The options of a job."""

    opt_level: Count
    required_pass: tuple[str, ...]
    disabled_pass: tuple[str, ...]
    config: Mapping[str, Any]
    report: bool
    functions: bool
    texts: bool


class Failure(Struct, frozen=True, rename={"pass_name": "pass"}):
    """Why a job failed."""

    kind: Annotated[str, Meta(description="The name of the class of the error.")]
    message: str
    notes: tuple[str, ...]
    pass_name: str | None
    function: str | None
    diagnostics: Annotated[
        tuple[Mapping[str, Any], ...],
        Meta(description="Each has level, message, pass, and source, line and column if they are known."),
    ]


class Links(Struct, frozen=True, rename={"own": "self"}):
    """The paths of a job."""

    own: str
    events: str
    model: str | None
    result: str | None
    report: str | None


class Job(Struct, frozen=True, kw_only=True):
    """A job."""

    id: Id
    tenant: str
    name: Annotated[str, Meta(description="A label, such as the name of a file.")]
    state: JobState
    kind: Annotated[str, Meta(description="The suffix of the model's file, or the class of a module.")]
    result_kind: str
    pipeline: Annotated[str, Meta(description="The name of a pipeline, or its text.")]
    options: Options
    priority: int
    created: Time
    started: Time | None
    finished: Time | None
    deadline: Time | None
    attempts: Count
    reused: Annotated[bool, Meta(description="Whether the result was computed for an equal job.")]
    idempotency_key: str | None
    trace: str | None
    model: Blob
    result: Blob | None
    summary: JobSummary | None
    failure: Failure | None
    links: Links


class JobPage(Struct, frozen=True):
    """A page of jobs."""

    jobs: tuple[Job, ...]
    next: Annotated[str | None, Meta(description="`before` of the next page.")]


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `data` of a server-sent event. Further members depend on the kind."""

    kind: EventKind | Literal["text", "dropped"]
    id: Count | UnsetType = UNSET
    time: Time | UnsetType = UNSET
    job: Job | UnsetType = UNSET


class Problem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457)."""

    type: Annotated[str, Meta(description="`urn:apass:` and the name of the class of the error, or about:blank.")]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str
    notes: tuple[str, ...] = ()
    failure: Failure | UnsetType = UNSET
    job: Annotated[str | UnsetType, Meta(description="The id of the job.")] = UNSET
    retry_after: Annotated[
        float | UnsetType, Meta(description="Seconds after which another attempt is worthwhile.")
    ] = UNSET


class PassOption(TypedDict):
    """An option of a pass."""

    name: str
    type: str | None
    required: bool
    default: str | None
    outside: Annotated[str | None, Meta(description="What it reaches besides the module.")]
    allowed: Annotated[bool, Meta(description="Whether the text of a pipeline may set it.")]


class Pass(TypedDict):
    """A pass that pipelines contain, or may contain."""

    name: str
    level: int | None
    requires: list[str]
    ir: str | None
    options: list[PassOption]
    doc: str
    contract: dict[str, Any]
    error: str | None
    allowed: Annotated[bool, Meta(description="Whether the text of a pipeline may name it.")]


class Passes(Struct, frozen=True):
    """The passes."""

    passes: tuple[Pass, ...]


class Pipeline(TypedDict):
    """A named pipeline."""

    name: str
    text: str | None
    doc: str
    passes: list[str]


class Pipelines(Struct, frozen=True):
    """The named pipelines."""

    pipelines: tuple[Pipeline, ...]
    allow: Annotated[
        tuple[str, ...], Meta(description="The names and patterns that the text of a pipeline may contain.")
    ]


class PlannedPass(TypedDict):
    """What becomes of a pass and of the passes within it."""

    name: str
    text: str
    level: int
    decision: Literal["run", "skip", "maybe"]
    reason: str
    passes: "list[PlannedPass]"


class Plan(Struct, frozen=True):
    """Which passes of a pipeline run."""

    pipeline: str | None
    plan: PlannedPass


class ConfigOption(TypedDict):
    """A config option that a job may set."""

    name: str
    type: str
    default: Any
    doc: str


class Load(Struct, frozen=True):
    """What the server does now."""

    queued: Count
    running: Count
    workers: Count
    jobs: Count
    oldest: float
    error: str | None


class Status(Struct, frozen=True, kw_only=True):
    """What the server does and accepts."""

    version: str
    accepts: bool
    tenant: str
    scopes: list[str]
    jobs: Annotated[dict[JobState, Count], Meta(description="The number of visible jobs by state.")]
    limits: dict[str, int | float | None]
    suffixes: tuple[str, ...]
    config: list[ConfigOption]
    server: Load | None


class Health(Struct, frozen=True, omit_defaults=True):
    """Whether the server works."""

    status: Literal["ok", "ready", "not ready"]
    reason: str = ""


def encode_json(value: object) -> bytes:
    """Return a value as JSON."""
    try:
        return json.encode(value)
    except UnicodeEncodeError:
        # A message may contain a part of a surrogate pair, such as that of the name of a file.
        return dumps(to_builtins(value)).encode()


def query_of(parameters: Struct) -> list[tuple[str, str]]:
    """Return parameters as texts, without those that have their defaults."""
    query: list[tuple[str, str]] = []
    for item in fields(parameters):
        value = getattr(parameters, item.name)
        if value != item.default:
            text = ",".join(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else str(value)
            query.append((item.name, text.lower() if isinstance(value, bool) else text))
    return query


def job_of(record: JobRecord, root: str, *, may_read: bool = True) -> Job:
    """Return a job as the interface describes it.

    Parameters:
        record: the job.
        root: the path below which the application is mounted, for the links.
        may_read: whether the receiver may read jobs. Otherwise, what the job has computed is left out.

    """
    path = f"{root}/v1/jobs/{record.id}"
    result: Blob | None = None
    if may_read and record.state is JobState.DONE and record.result_digest is not None:
        result = Blob(record.result_digest, record.result_size or 0)
    return Job(
        **{name: getattr(record, name) for name in _SHARED},
        options=convert(record.options, Options, from_attributes=True),
        model=Blob(record.model_digest, record.model_size),
        result=result,
        summary=record.summary if may_read else None,
        failure=failure_of(record.failure) if may_read and record.failure is not None else None,
        links=Links(
            path,
            f"{path}/events",
            f"{path}/model" if may_read and is_file_kind(record.kind) else None,
            f"{path}/result" if result is not None and is_file_kind(record.result_kind) else None,
            f"{path}/report" if may_read and record.report_digest is not None else None,
        ),
    )


def failure_of(failure: JobFailure) -> Failure:
    """Return the failure of a job as the interface describes it."""
    return convert(failure, Failure, from_attributes=True)


def job_failure(failure: Failure) -> JobFailure:
    """Return a failure without the names of the interface."""
    return JobFailure(**asdict(failure))


def record_of(job: Job) -> JobRecord:
    """Return the record of a job, without what the interface leaves out."""
    return JobRecord(
        **{name: getattr(job, name) for name in _SHARED},
        options=JobOptions(**asdict(job.options)),
        key="",
        model_digest=job.model.digest,
        model_size=job.model.size,
        result_digest=None if job.result is None else job.result.digest,
        result_size=None if job.result is None else job.result.size,
        summary=job.summary,
        failure=None if job.failure is None else job_failure(job.failure),
    )


_SHARED: Final = ({item.name for item in fields(Job)} & {item.name for item in dataclass_fields(JobRecord)}) - {
    "options",
    "summary",
    "failure",
}
"""The members that a job and its record share."""
