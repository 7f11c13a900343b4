"""The leases of the servers that share a `SqlJobStore`, and the adoption of jobs."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from apass.errors import MissingExtraError
from apass.service.errors import JobsUnavailableError
from apass.service.jobs import JobState
from apass.service.sql_changes import parse_record, sealed_text
from apass.service.sql_schema import IS_UNFINISHED, JOBS, SERVERS, UPLOADS

try:
    from sqlalchemy import Connection, Interval, bindparam, delete, exists, func, not_, or_, select, text, update
    from sqlalchemy.dialects import postgresql
except ImportError as _error:
    raise MissingExtraError(f"SqlJobStore needs SQLAlchemy ({_error}): pip install 'apass[serve]'") from _error

__all__ = [
    "ADOPTED",
    "adopt_jobs",
    "extend_lease",
    "own_jobs",
    "records_of",
    "register",
    "release_jobs",
    "take_all_jobs",
]

ADOPTED: Final = 2_000
"""Jobs that a server adopts at once, so that it shares many of them with the others."""

_UNFINISHED: Final = text(IS_UNFINISHED)
_END: Final = func.now() + bindparam("lease", type_=Interval())
_DEAD: Final = select(SERVERS.c.id).where(SERVERS.c.lease_end < func.now())
"""Lost servers, by the clock of the database: those of the servers may differ."""

_GIVE_BACK: Final = (
    update(JOBS)
    .where(JOBS.c.id == bindparam("job"))
    .values(state="queued", attempts=bindparam("new_attempts"), record=bindparam("new_record"))
)


def register(connection: Connection, server: str, lease: float) -> None:
    """Make sure that a server has a row.

    The row exists until the end of the transaction. Jobs of a server without a row would not be adopted.
    """
    query = select(SERVERS.c.id).where(SERVERS.c.id == server).with_for_update(read=True, key_share=True)
    if connection.scalar(query) is None:
        extend_lease(connection, server, lease)


def extend_lease(connection: Connection, server: str, lease: float) -> None:
    """Let the lease of a server begin now."""
    statement = postgresql.insert(SERVERS).values(id=server, lease_end=_END)
    statement = statement.on_conflict_do_update(index_elements=["id"], set_={"lease_end": _END})
    connection.execute(statement, {"lease": timedelta(seconds=lease)})


def own_jobs(connection: Connection, server: str) -> dict[str, bool]:
    """Return the unfinished jobs of a server, and whether to cancel them."""
    jobs = select(JOBS.c.id, JOBS.c.cancel_requested).where(JOBS.c.owner == server, _UNFINISHED)
    return {row.id: row.cancel_requested for row in connection.execute(jobs)}


def records_of(connection: Connection, ids: Sequence[str]) -> Sequence[tuple[str, str]]:
    """Return the ids and the records of jobs."""
    jobs = select(JOBS.c.id, JOBS.c.record).where(JOBS.c.id.in_(ids)).order_by(JOBS.c.id)
    return [(row.id, row.record) for row in connection.execute(jobs)]


def adopt_jobs(connection: Connection, server: str) -> Sequence[tuple[str, str]]:
    """Give unfinished jobs of lost and closed servers to a server.

    Return their ids and records. Of several servers that call this at once, one gets each job.
    """
    dead = list(connection.scalars(_DEAD))
    # A row that another server adopts meanwhile has another owner then, and the condition is evaluated again.
    orphans = (
        select(JOBS.c.id, JOBS.c.record)
        .where(or_(JOBS.c.owner.is_(None), JOBS.c.owner.in_(dead)), _UNFINISHED)
        .order_by(JOBS.c.id)
        .limit(ADOPTED)
        .with_for_update(skip_locked=True)
    )
    rows = [(row.id, row.record) for row in connection.execute(orphans)]
    if rows:
        ids = [job_id for job_id, _ in rows]
        connection.execute(update(JOBS).where(JOBS.c.id.in_(ids)).values(owner=server))
    if dead and len(rows) < ADOPTED:
        _forget_servers(connection, dead)
    return rows


def _forget_servers(connection: Connection, dead: Sequence[str]) -> None:
    """Remove lost servers that have no jobs any more, and what they were uploading."""
    locked = _DEAD.where(SERVERS.c.id.in_(dead)).order_by(SERVERS.c.id).with_for_update(skip_locked=True)
    ids = list(connection.scalars(locked))
    # A server that adds jobs locks its row. So this statement sees all jobs that the locked servers have.
    idle = select(SERVERS.c.id).where(
        SERVERS.c.id.in_(ids), not_(exists().where(JOBS.c.owner == SERVERS.c.id, _UNFINISHED))
    )
    gone = list(connection.scalars(idle))
    if gone:
        connection.execute(update(UPLOADS).where(UPLOADS.c.owner.in_(gone)).values(owner=None))
        connection.execute(delete(SERVERS).where(SERVERS.c.id.in_(gone)))


def take_all_jobs(connection: Connection, server: str, label: str) -> Sequence[tuple[str, str]]:
    """Give all unfinished jobs to the only server; return their ids and records."""
    # A job whose state is damaged would belong to no server.
    unknown = select(JOBS.c.id, JOBS.c.record).where(JOBS.c.state.not_in(list(map(str, JobState))))
    for job_id, record in connection.execute(unknown).all():
        with suppress(JobsUnavailableError):
            state = str(parse_record(job_id, record, label).state)
            connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(state=state))
    connection.execute(update(JOBS).where(_UNFINISHED).values(owner=server))
    connection.execute(update(UPLOADS).values(owner=None))
    jobs = select(JOBS.c.id, JOBS.c.record).where(JOBS.c.owner == server, _UNFINISHED).order_by(JOBS.c.id)
    return [(row.id, row.record) for row in connection.execute(jobs)]


def release_jobs(connection: Connection, server: str, label: str) -> None:
    """Let other servers adopt the jobs of a server that is closed.

    The attempts of those that run do not count.
    """
    running = select(JOBS.c.id, JOBS.c.record).where(JOBS.c.owner == server, _UNFINISHED, JOBS.c.state == "running")
    changes: list[dict[str, object]] = []
    for job_id, record in connection.execute(running.order_by(JOBS.c.id).with_for_update()):
        with suppress(JobsUnavailableError):  # a damaged record stays as it is
            job = parse_record(job_id, record, label)
            job = job.with_state(JobState.QUEUED, attempts=max(0, job.attempts - 1))
            record = sealed_text(job_id, job.to_json())
            changes.append({"job": job_id, "new_attempts": job.attempts, "new_record": record})
    if changes:
        connection.execute(_GIVE_BACK, changes)
    connection.execute(update(JOBS).where(JOBS.c.owner == server, _UNFINISHED).values(owner=None))
    connection.execute(update(UPLOADS).where(UPLOADS.c.owner == server).values(owner=None))
    connection.execute(delete(SERVERS).where(SERVERS.c.id == server))
