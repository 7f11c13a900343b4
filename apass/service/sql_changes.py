"""New jobs and changes of jobs, of which `SqlJobStore` stores many at once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Connection, bindparam, insert, select, text, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from apass.core.store import SEAL_SIZE, seal
from apass.service.errors import JobsUnavailableError
from apass.service.jobs import JobEvent, JobRecord
from apass.service.sql_blobs import NewBlob, existing_blobs, store_blobs
from apass.service.sql_schema import EVENTS, IS_UNFINISHED, JOBS, USES

__all__ = ["Addition", "Change", "Unit", "parse_events", "parse_record", "sealed_text", "store_changes"]

_UNFINISHED: Final = text(IS_UNFINISHED)

_SAME_REQUESTS: Final = select(JOBS.c.tenant, JOBS.c.idempotency_key, JOBS.c.id, JOBS.c.record).where(
    tuple_(JOBS.c.tenant, JOBS.c.idempotency_key).in_(bindparam("requests", expanding=True)),
    text("idempotency_key IS NOT NULL"),
)
_OF_IDS: Final = JOBS.c.id.in_(bindparam("ids", expanding=True))
_OPEN: Final = select(JOBS.c.id).where(_OF_IDS, _UNFINISHED)
_ENDED: Final = select(JOBS.c.id, JOBS.c.record).where(_OF_IDS, text("finished IS NOT NULL"))
_ADD: Final = {
    (name, table): insert_into(table).on_conflict_do_nothing()
    for name, insert_into in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert))
    for table in (USES, EVENTS)
}
_CHANGED: Final = ("state", "finished", "attempts", "result", "report", "record")
_CHANGE: Final = (
    update(JOBS)
    .where(JOBS.c.id == bindparam("job"), _UNFINISHED)
    .values({name: bindparam(f"new_{name}") for name in _CHANGED})
)


@dataclass(slots=True, eq=False)
class Addition:
    """A job to add."""

    job: JobRecord
    """The record."""
    blobs: Mapping[str, NewBlob]
    """The model, by its digest."""
    is_stored: bool = False
    """Whether the job is stored."""
    is_cancelled: bool = False
    """Whether the caller was cancelled."""
    row: Mapping[str, Any] = field(init=False)
    """The row of the job."""

    def prepare(self) -> None:
        """Compute the row."""
        job = self.job
        self.row = {
            **_row(job),
            "id": job.id,
            "tenant": job.tenant,
            "name": job.name.lower(),
            "pipeline": job.pipeline.lower(),
            "key": job.key,
            "idempotency_key": job.idempotency_key,
            "created": job.created,
            "model": job.model_digest,
        }

    @property
    def request(self) -> tuple[str, str] | None:
        """The tenant and the idempotency key, if the job has one."""
        key = self.job.idempotency_key
        return None if key is None else (self.job.tenant, key)


@dataclass(slots=True, eq=False)
class Change:
    """A change of a job."""

    job: JobRecord
    """The new record."""
    blobs: Mapping[str, NewBlob]
    """The blobs of the record that are new, by digest."""
    events: Sequence[JobEvent]
    """New events."""
    row: Mapping[str, Any] = field(init=False)
    """The parameters of the statement that changes the job."""
    event_row: Mapping[str, Any] | None = field(init=False, default=None)
    """The row of its events."""

    def prepare(self) -> None:
        """Compute the rows.

        Raises:
            TypeError: if an event has data that JSON does not have.

        """
        job, events = self.job, self.events
        self.row = {"job": job.id, **{f"new_{name}": value for name, value in _row(job).items()}}
        if events:
            plain = [[event.id, event.kind, event.time, event.data] for event in events]
            data = sealed_text(job.id, json.dumps(plain, separators=(",", ":")))
            self.event_row = {"job": job.id, "last": max(event.id for event in events), "data": data}


Unit = Addition | Change
"""What is stored or refused as a whole."""

Outcomes = dict[Unit, JobRecord | bool | Exception]
"""What has become of each."""


def _row(job: JobRecord) -> dict[str, Any]:
    return {
        "state": str(job.state),
        "finished": (job.finished or 0.0) if job.ended else None,
        "attempts": job.attempts,
        "result": job.result_digest,
        "report": job.report_digest,
        "record": sealed_text(job.id, job.to_json()),
    }


def sealed_text(job_id: str, text: str) -> str:
    """Return a text of a job after its digest, for `_unsealed`."""
    return f"{seal(job_id, text.encode('utf-8', 'surrogatepass'))[:SEAL_SIZE].hex()} {text}"


def _unsealed(job_id: str, sealed: str) -> str:
    """Return the text of `sealed_text`; raise ValueError if it is damaged."""
    text = sealed[2 * SEAL_SIZE + 1 :]
    if sealed != sealed_text(job_id, text):
        raise ValueError("it has another digest")
    return text


def parse_record(job_id: str, record: str, label: str) -> JobRecord:
    """Return the record of a row.

    Raises:
        JobsUnavailableError: if it is damaged.

    """
    try:
        job = JobRecord.from_json(_unsealed(job_id, record))
        if job.id != job_id:
            raise ValueError(f"it is the record of job {job.id!r}")
    except (ValueError, AttributeError, RecursionError) as error:
        raise JobsUnavailableError(f"the record of job {job_id!r} in {label} is damaged: {error}") from error
    return job


def parse_events(job_id: str, rows: Iterable[str], after: int, label: str) -> Sequence[JobEvent]:
    """Return the events of rows that come after a number.

    Raises:
        JobsUnavailableError: if they are damaged.

    """
    events: list[JobEvent] = []
    try:
        for row in rows:
            for number, kind, at, data in json.loads(_unsealed(job_id, row)):
                # A batch that was stored again, after an error of the connection, may begin with the same events.
                if number > after:
                    events.append(JobEvent(int(number), str(kind), float(at), dict(data)))
                    after = number
    except (ValueError, TypeError, RecursionError) as error:
        raise JobsUnavailableError(f"the events of job {job_id!r} in {label} are damaged: {error}") from error
    return events


def store_changes(connection: Connection, items: Sequence[Unit], label: str) -> list[JobRecord | bool | Exception]:
    """Store jobs and changes in a transaction, and return the outcome of each.

    The outcome of an addition is the job itself, the earlier job with the same idempotency key, or KeyError. The
    outcome of a change is whether the job had not ended, or KeyError.

    Raises:
        UnreadableBlobError: if the file of a blob cannot be read. Nothing may be committed then.

    """
    outcomes: Outcomes = {}
    additions = [item for item in items if isinstance(item, Addition)]
    changes = [item for item in items if isinstance(item, Change)]
    if changes:
        changes = _permitted(connection, changes, outcomes)
    candidates: list[Unit] = [*additions, *changes]
    # The blobs that must exist already.
    needed = {
        item: {item.job.result_digest or "", item.job.report_digest or ""} - {"", item.job.model_digest, *item.blobs}
        for item in candidates
    }
    found = existing_blobs(connection, set[str]().union(*needed.values()))
    for item, digests in needed.items():
        if digests - found:
            outcomes[item] = KeyError(*sorted(digests - found))
    additions = _added(connection, [item for item in additions if item not in outcomes], outcomes, label)
    changes = [item for item in changes if outcomes[item] is True]
    accepted: list[Unit] = [*additions, *changes]
    blobs = {digest: new for item in accepted for digest, new in item.blobs.items()}
    missing = blobs.keys() - existing_blobs(connection, blobs)
    if missing:
        store_blobs(connection, {digest: blobs[digest] for digest in missing})
    _write(connection, additions, changes)
    return [outcomes[item] for item in items]


def _permitted(connection: Connection, changes: Sequence[Change], outcomes: Outcomes) -> list[Change]:
    """Return the changes of unfinished jobs."""
    unfinished = set(connection.scalars(_OPEN, {"ids": sorted({item.job.id for item in changes})}))
    permitted: list[Change] = []
    refused: list[Change] = []
    for item in changes:
        job = item.job
        (permitted if job.id in unfinished else refused).append(item)
        outcomes[item] = job.id in unfinished
        if job.ended:
            unfinished.discard(job.id)
    if refused:
        # If a connection is lost during a commit, the caller repeats a change that may have been made.
        rows = connection.execute(_ENDED, {"ids": sorted({item.job.id for item in refused})})
        stored = {row.id: row.record for row in rows}
        for item in refused:
            outcomes[item] = stored.get(item.job.id) == item.row["new_record"]
    return permitted


def _added(connection: Connection, additions: Sequence[Addition], outcomes: Outcomes, label: str) -> list[Addition]:
    """Insert the rows of jobs, and return the jobs.

    Those with the same idempotency key as another job are left out.
    """
    requests = {item.request for item in additions if item.request is not None}
    earlier: dict[tuple[str, str], JobRecord | Exception] = {}
    if requests:
        for row in connection.execute(_SAME_REQUESTS, {"requests": sorted(requests)}):
            try:
                earlier[row.tenant, row.idempotency_key] = parse_record(row.id, row.record, label)
            except JobsUnavailableError as error:
                earlier[row.tenant, row.idempotency_key] = error
    added: list[Addition] = []
    for item in additions:
        outcomes[item] = item.job if item.request is None else earlier.setdefault(item.request, item.job)
        if outcomes[item] is item.job:
            added.append(item)
    if added:
        connection.execute(insert(JOBS), [item.row for item in added])
    return added


def _write(connection: Connection, additions: Sequence[Addition], changes: Sequence[Change]) -> None:
    """Write what belongs to new jobs, and the changes."""
    dialect = connection.dialect.name
    uses = {
        (digest, job.id)
        for job in (*(item.job for item in additions), *(item.job for item in changes))
        for digest in (job.model_digest, job.result_digest, job.report_digest)
        if digest is not None
    }
    if uses:
        connection.execute(_ADD[dialect, USES], [{"digest": digest, "job": job_id} for digest, job_id in sorted(uses)])
    if changes:
        connection.execute(_CHANGE, [item.row for item in changes])
    events = [item.event_row for item in changes if item.event_row is not None]
    if events:
        connection.execute(_ADD[dialect, EVENTS], events)
