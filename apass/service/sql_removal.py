"""The removal of jobs from `SqlJobStore`, in transactions of a bounded size."""

from collections import Counter
from collections.abc import Collection
from typing import Final

from sqlalchemy import ColumnElement, Connection, TextClause, bindparam, delete, exists, func, not_, select, text

from apass.service.sql_blobs import free_blobs
from apass.service.sql_schema import BLOBS, EVENTS, IS_UNFINISHED, JOBS, USES

__all__ = ["REMOVED", "remove_job", "remove_large", "remove_old", "withdraw_jobs"]

REMOVED: Final = 250
"""Jobs that are removed in one transaction."""

_OLD: Final = (
    select(JOBS.c.id).where(JOBS.c.finished < bindparam("limit")).order_by(JOBS.c.finished, JOBS.c.id).limit(REMOVED)
)
_OLDEST: Final = (
    select(JOBS.c.id, JOBS.c.model, JOBS.c.result, JOBS.c.report)
    .where(text("finished IS NOT NULL"))
    .order_by(JOBS.c.id)
    .limit(REMOVED)
)


def remove_job(connection: Connection, job_id: str) -> bool:
    """Remove a job that has ended; return whether it was there."""
    return bool(_remove(connection, [job_id], JOBS.c.finished.is_not(None)))


def remove_old(connection: Connection, limit: float) -> int:
    """Remove some of the jobs that ended before a time; return how many."""
    ids = list(connection.scalars(_OLD, {"limit": limit}))
    return _remove(connection, ids, JOBS.c.finished.is_not(None))


def remove_large(connection: Connection, max_bytes: int) -> int:
    """Remove some of the oldest jobs that have ended; return how many.

    Those that remain have few enough bytes, or more are to be removed.
    """
    excess = (connection.scalar(select(func.sum(BLOBS.c.size))) or 0) - max_bytes
    rows = connection.execute(_OLDEST).all() if excess > 0 else ()
    if not rows:
        return 0
    blobs = {row.id: {row.model, row.result, row.report} - {None} for row in rows}
    # The blobs that no other job refers to, with the number of jobs here that do.
    users = Counter(digest for digests in blobs.values() for digest in digests)
    others = exists().where(USES.c.digest == BLOBS.c.digest, USES.c.job.not_in(list(blobs)))
    freeable = select(BLOBS.c.digest, BLOBS.c.size).where(BLOBS.c.digest.in_(list(users)), not_(others))
    sizes = {row.digest: row.size for row in connection.execute(freeable)}
    ids: list[str] = []
    for job_id, digests in blobs.items():
        if excess <= 0:
            break
        ids.append(job_id)
        users.subtract(digests)
        excess -= sum(sizes.get(digest, 0) for digest in digests if not users[digest])
    return _remove(connection, ids, JOBS.c.finished.is_not(None))


def withdraw_jobs(connection: Connection, ids: Collection[str]) -> int:
    """Remove jobs whose submission was cancelled; return how many."""
    return _remove(connection, ids, text(IS_UNFINISHED))


def _remove(connection: Connection, ids: Collection[str], condition: ColumnElement[bool] | TextClause) -> int:
    jobs = select(JOBS.c.id, JOBS.c.model, JOBS.c.result, JOBS.c.report).where(JOBS.c.id.in_(ids), condition)
    rows = connection.execute(jobs).all() if ids else ()
    if not rows:
        return 0
    found = [row.id for row in rows]
    digests = {digest for row in rows for digest in (row.model, row.result, row.report)} - {None}
    connection.execute(delete(JOBS).where(JOBS.c.id.in_(found)))
    connection.execute(delete(USES).where(USES.c.digest.in_(list(digests)), USES.c.job.in_(found)))
    connection.execute(delete(EVENTS).where(EVENTS.c.job.in_(found)))
    free_blobs(connection, digests)
    return len(rows)
