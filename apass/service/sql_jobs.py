"""`SqlJobStore`: jobs in a SQLite file, or in a PostgreSQL database."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import time
from typing import Any, Final, TypeVar, cast

import anyio

from apass.errors import MissingExtraError, StoreWarning

try:
    from sqlalchemy import Connection, bindparam, func, or_, select, text, update
    from sqlalchemy.exc import InterfaceError, OperationalError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError
except ImportError as _error:
    raise MissingExtraError(f"SqlJobStore needs SQLAlchemy ({_error}): pip install 'apass[serve]'") from _error

from apass.concurrency.thread_batches import ThreadBatches
from apass.service.errors import JobsUnavailableError, StoreTakenError
from apass.service.job_store import CHUNK, Blob, DamagedBlobError, JobChange, JobPage, JobQuery
from apass.service.jobs import ENDED, JobEvent, JobRecord, JobState, new_job_id
from apass.service.sql_blobs import (
    LARGE,
    NewBlob,
    UnreadableBlobError,
    chunks_of,
    drop_blob,
    existing_blobs,
    purge_chunks,
    read_chunk,
    write_chunks,
)
from apass.service.sql_changes import Addition, Change, Unit, parse_events, parse_record, sealed_text, store_changes
from apass.service.sql_database import Database
from apass.service.sql_removal import REMOVED, remove_job, remove_large, remove_old, withdraw_jobs
from apass.service.sql_schema import EVENTS, IS_DONE, IS_UNFINISHED, JOBS, escape
from apass.util.checks import is_seconds

__all__ = ["SqlJobStore"]

R = TypeVar("R")

STANDBY_SECONDS: Final = 0.5
"""Seconds between two attempts of a standby to get the store."""

UNREACHABLE_SECONDS: Final = 2.5
"""Seconds before the next attempt if the database cannot be reached.

After its restart, the active server is the first to get its lock again.
"""

_GROUP: Final = 256
"""Jobs and changes that are stored in one transaction."""

_GROUP_BYTES: Final = 4 * LARGE
"""Bytes of blobs in one transaction."""

_JOB_BYTES: Final = 16 << 10
"""Bytes of a job without its model and its result: the record, the events and the report."""

_RECORDS: Final = select(JOBS.c.id, JOBS.c.record)
_UNFINISHED: Final = _RECORDS.where(text(IS_UNFINISHED)).order_by(JOBS.c.id)
_DAMAGED: Final = _RECORDS.where(JOBS.c.state.not_in(list(map(str, JobState))))
_FIND: Final = _RECORDS.where(JOBS.c.id == bindparam("job"))
_OF_OWNER: Final = _RECORDS.where(JOBS.c.tenant == bindparam("owner"))
_FIND_DONE: Final = (
    _OF_OWNER.where(JOBS.c.key == bindparam("wanted"), text(IS_DONE)).order_by(JOBS.c.id.desc()).limit(1)
)
_FIND_REQUEST: Final = _OF_OWNER.where(
    JOBS.c.idempotency_key == bindparam("wanted"), text("idempotency_key IS NOT NULL")
)
_EVENTS: Final = (
    select(EVENTS.c.data)
    .where(EVENTS.c.job == bindparam("wanted"), EVENTS.c.last > bindparam("after"))
    .order_by(EVENTS.c.last)
)


_Call = Addition | list[Change] | Callable[[], Any]
"""A call of `add` or `update`, or another one that writes."""


class SqlJobStore:
    """A `JobStore` in a database.

    Accepted jobs survive the end of the process, and a loss of power.

    One server at a time uses it. The next one gets all unfinished jobs.

    - Beside a **SQLite** file, the file `NAME.lock` names the process that has locked it.
    - In a **PostgreSQL** database, a connection of the server has an advisory lock. If the server is stopped or lost,
      the database ends this connection after `timeout` seconds. After that, if another server has taken the database
      over, no method of this one can change anything: it raises StoreTakenError.

    Concurrent calls share transactions. Models and results are stored in chunks, so that memory stays bounded.

    On a full disk, SQLite needs space to start, to remove jobs and to empty its log. The file `NAME.reserve` keeps
    20 MiB for that, if the disk has room. It is created when the store has 16 MiB, when jobs are first removed or
    expire, or when a job is refused. That happens if the disk has no room for its result beside those of the accepted
    jobs.

    Chunks of blobs, records and events have digests. A damaged blob counts as missing, with a StoreWarning: a result is
    computed again for the next job, and a job whose model is damaged fails. A job whose record is damaged costs a
    StoreWarning when the store is opened, and JobsUnavailableError when the job is read. A damaged table or index of a
    SQLite file is JobsUnavailableError when the store is opened.

    Parameters:
        path_or_url: the path of a SQLite file, whose folder must exist; or `postgresql://USER:PASSWORD@HOST/DATABASE`,
            for `apass[postgres]` and PostgreSQL 14 or later. The tables are created if they do not exist. Passwords are
            not part of messages.
        timeout: seconds to wait for a connection, for the lock of another program, or for a sign of life of the server
            that has the lock of a PostgreSQL database.

    Raises:
        ValueError: if the URL is invalid, or `timeout` is not positive.
        MissingExtraError: if the driver of the database is not installed.
        JobsUnavailableError: by every method, if the database cannot be read or written, or is not open. The next call
            tries to connect again.

    """

    is_durable: bool = True
    """Jobs survive the end of the process."""

    def __init__(self, path_or_url: Path | str, *, timeout: float = 10.0) -> None:
        if not is_seconds(timeout):
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
        self._database = Database(path_or_url, timeout)
        self._known: dict[str, int] = {}
        """The unfinished jobs, with the sizes of their models. Only the thread that writes uses it."""
        self._withdrawn: set[str] = set()
        """Jobs that are to be removed again, because their submission was cancelled."""
        self._uploads: set[str] = set()
        """The bodies of uploads that are not over."""
        # One thread writes: SQLite has one writer, and transactions need no locks among themselves.
        self._writes: ThreadBatches[_Call, Any] = ThreadBatches(self._write_all)
        self._lookups: ThreadBatches[Callable[[Connection], Any], Any] = ThreadBatches(
            self._database.read, threads=2, size=64
        )
        # A search takes longer, and must not let lookups wait.
        self._scans: ThreadBatches[Callable[[Connection], Any], Any] = ThreadBatches(
            self._database.read, threads=2, size=1
        )

    def __repr__(self) -> str:
        return f"<SqlJobStore: {self._database.label}>"

    async def open(self, *, wait: bool = False) -> Sequence[JobRecord]:
        """Open the store, and return the unfinished jobs.

        Parameters:
            wait: whether to wait while another server uses the store, or the database cannot be reached.

        Raises:
            StoreTakenError: if another server uses the store.
            JobsUnavailableError: if the database cannot be used, or its tables are those of another program or a later
                version. These are not changed.

        """
        if self._database.is_open:
            raise JobsUnavailableError(f"{self._database.label} is open already; use another `SqlJobStore`")
        try:
            while True:
                try:
                    return await anyio.to_thread.run_sync(self._open)
                except JobsUnavailableError as error:
                    if not wait or not (_is_unreachable(error) or isinstance(error, StoreTakenError)):
                        raise
                    pause = UNREACHABLE_SECONDS if _is_unreachable(error) else STANDBY_SECONDS
                await anyio.sleep(pause)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._database.close)
            raise

    def _open(self) -> Sequence[JobRecord]:
        self._database.open()
        self._withdrawn.clear()
        self._uploads.clear()
        try:
            rows = self._database.write_reserved(self._unfinished, is_removal=False)
        except BaseException:
            self._database.close()
            raise
        jobs = self._parsed(rows)
        # A job with a damaged record may need room, too.
        self._known = {**dict.fromkeys((job_id for job_id, _ in rows), 0), **{job.id: job.model_size for job in jobs}}
        return jobs

    def _unfinished(self, connection: Connection) -> Sequence[tuple[str, str]]:
        """Return the ids and the records of unfinished jobs."""
        # A job whose state is damaged would be none of them.
        for job_id, record in connection.execute(_DAMAGED).all():
            with suppress(JobsUnavailableError):
                state = str(parse_record(job_id, record, self._database.label).state)
                connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(state=state))
        return [(row.id, row.record) for row in connection.execute(_UNFINISHED)]

    async def close(self) -> None:
        """Give the unfinished jobs back, and let another server use the store.

        The attempts of jobs that run do not count. If the database cannot be written, a StoreWarning says so, and they
        count.
        """
        await self._writes.run(self._close)

    def _close(self) -> None:
        if not self._database.is_open:
            return
        try:
            self._database.write_reserved(self._give_back, is_removal=False)
        except StoreTakenError:
            pass  # another server runs them
        except JobsUnavailableError as error:
            warnings.warn(f"jobs were not given back: {error}", StoreWarning, 2)
        finally:
            self._database.close()

    def _give_back(self, connection: Connection) -> None:
        for job_id, record in connection.execute(_UNFINISHED.where(JOBS.c.state == "running")).all():
            with suppress(JobsUnavailableError):  # a damaged record stays as it is
                job = parse_record(job_id, record, self._database.label)
                job = job.with_state(JobState.QUEUED, attempts=max(0, job.attempts - 1))
                values = {"state": "queued", "attempts": job.attempts, "record": sealed_text(job_id, job.to_json())}
                connection.execute(update(JOBS).where(JOBS.c.id == job_id).values(values))

    async def add(self, job: JobRecord, model: Blob) -> JobRecord:
        """Store a new job; see `JobStore`.

        If the caller is cancelled, the job is not stored, or removed again.

        Raises:
            KeyError: if the result or the report does not exist any more.
            OSError: if the file of the model cannot be read, or has changed.

        """
        body = await self._upload(model)
        item = Addition(job, {model.digest: NewBlob(model, body)})
        try:
            return cast("JobRecord", await self._writes.run(item))
        except BaseException as error:
            # This task and the thread each set a flag, then read the other's. Whichever comes second sees both.
            item.is_cancelled = not isinstance(error, Exception)
            if item.is_cancelled and item.is_stored:
                self._withdrawn.add(job.id)
                with anyio.CancelScope(shield=True), suppress(JobsUnavailableError):
                    await self._writes.run(self._withdraw)
            raise
        finally:
            if body is not None:
                self._uploads.discard(body)

    async def find(self, job_id: str) -> JobRecord | None:
        """Return a job."""
        return await self._look_up(partial(self._find, _FIND, {"job": job_id}))

    async def find_done(self, tenant: str, key: str) -> JobRecord | None:
        """Return the latest job of a tenant that is done and has this key."""
        return await self._look_up(partial(self._find, _FIND_DONE, {"owner": tenant, "wanted": key}))

    async def find_idempotent(self, tenant: str, idempotency_key: str) -> JobRecord | None:
        """Return a job by its idempotency key."""
        parameters = {"owner": tenant, "wanted": idempotency_key}
        job = await self._look_up(partial(self._find, _FIND_REQUEST, parameters))
        return None if job is None or job.id in self._withdrawn else job

    async def list(self, query: JobQuery) -> JobPage:
        """Return a page of jobs.

        Those with damaged records are left out, with a StoreWarning.
        """
        return cast("JobPage", await self._scans.run(partial(self._list, query)))

    async def count(self, tenant: str | None = None) -> Mapping[JobState, int]:
        """Return the number of jobs in each state."""
        return cast("Mapping[JobState, int]", await self._scans.run(partial(self._count, tenant)))

    async def update(self, changes: Sequence[JobChange]) -> Sequence[bool]:
        """Make changes of unfinished jobs; see `JobStore`.

        Raises:
            KeyError: if the result or the report of a job does not exist.
            OSError: if the file of a blob cannot be read, or has changed.

        """
        bodies: dict[str, str] = {}
        try:
            items = [Change(each.job, await self._new_blobs(each, bodies), each.events) for each in changes]
            return cast("Sequence[bool]", await self._writes.run(items))
        finally:
            self._uploads.difference_update(bodies.values())

    async def read(self, digest: str, index: int) -> bytes:
        """Return a chunk of a blob; see `JobStore`."""
        try:
            return await self._look_up(partial(read_chunk, digest=digest, number=index))
        except DamagedBlobError as error:
            warnings.warn(f"{self._database.label}: {error}; it is removed", StoreWarning, 2)
            with suppress(JobsUnavailableError):  # the next reader tries again
                await self._remove(partial(drop_blob, digest=digest))
            raise

    async def events(self, job_id: str, after: int) -> Sequence[JobEvent]:
        """Return the stored events of a job that come after a number."""
        return await self._look_up(partial(self._events, job_id, after))

    async def expire(self, max_age: float | None, max_bytes: int | None) -> int:
        """Remove old jobs; see `JobStore`. A transaction removes a part of them."""
        removed = 0
        if max_age is not None:
            limit = time() - max_age
            while count := await self._remove(partial(remove_old, limit=limit)):
                removed += count
                if count < REMOVED:
                    break
        while max_bytes is not None and (count := await self._remove(partial(remove_large, max_bytes=max_bytes))):
            removed += count
        await self._purge()
        return removed

    async def remove(self, job_id: str) -> bool:
        """Remove a job that has ended; return whether it was there."""
        is_removed = await self._remove(partial(remove_job, job_id=job_id))
        if is_removed:
            await self._purge()
        return is_removed

    async def _remove(self, function: Callable[[Connection], R]) -> R:
        """Call a function that removes rows; see `Database.write_reserved`."""
        return cast("R", await self._writes.run(partial(self._database.write_reserved, function, is_removal=True)))

    async def _look_up(self, function: Callable[[Connection], R]) -> R:
        """Call a function that reads little."""
        return cast("R", await self._lookups.run(function))

    async def _purge(self) -> None:
        """Delete chunks of removed blobs, and of uploads that were not needed."""
        # The uploads are those of the moment of each transaction.
        while await self._remove(lambda connection: purge_chunks(connection, tuple(self._uploads))):
            pass

    async def _new_blobs(self, change: JobChange, bodies: dict[str, str]) -> Mapping[str, NewBlob]:
        """Return the new blobs of a record.

        Large ones are uploaded, and their bodies are added to `bodies`.
        """
        wanted = (change.job.result_digest, change.job.report_digest)
        blobs: dict[str, NewBlob] = {}
        for blob in change.blobs:
            if blob.digest in wanted:
                if blob.digest not in bodies and (body := await self._upload(blob)) is not None:
                    bodies[blob.digest] = body
                blobs[blob.digest] = NewBlob(blob, bodies.get(blob.digest))
        return blobs

    async def _upload(self, blob: Blob) -> str | None:
        """Write the chunks of a large blob, and return their body.

        It is None if the blob is small, or exists.
        """
        if blob.size <= LARGE:
            return None
        if await self._look_up(partial(existing_blobs, digests=(blob.digest,))):
            return None
        body, first, chunks = new_job_id(), 0, chunks_of(blob)
        self._uploads.add(body)
        try:
            while some := await anyio.to_thread.run_sync(lambda: list(islice(chunks, LARGE // CHUNK))):
                write = partial(write_chunks, body=body, digest=blob.digest, first=first, chunks=some)
                await self._writes.run(partial(self._database.write, write, is_durable=False))
                first += len(some)
        except BaseException as error:
            self._uploads.discard(body)
            if isinstance(error, UnreadableBlobError):
                raise error.cause from error
            raise
        return body

    def _write_all(self, items: Sequence[_Call]) -> Sequence[Any]:
        """Handle the calls of concurrent callers; return the result or the error of each."""
        if self._withdrawn:
            with suppress(JobsUnavailableError):
                self._withdraw()
        outcomes: dict[Unit, Any] = {}
        for group in _groups([unit for item in items for unit in _units(item)]):
            self._store_group(group, outcomes)
        return [_result(item, outcomes) for item in items]

    def _store_group(self, units: Sequence[Unit], outcomes: dict[Unit, Any]) -> None:
        """Store jobs and changes in a transaction.

        An error of one does not affect the others.
        """
        ready = self._prepared(units, outcomes)
        if not ready:
            return
        # The end of a job need not survive a loss of power: the job then runs again.
        is_durable = any(isinstance(unit, Addition) for unit in ready)
        try:
            store = partial(store_changes, items=ready, label=self._database.label)
            stored = self._database.write(store, is_durable=is_durable or self._database.is_remote)
        except UnreadableBlobError as error:
            outcomes |= {unit: error.cause for unit in ready if error.digest in unit.blobs}
            self._store_group([unit for unit in ready if unit not in outcomes], outcomes)
        except JobsUnavailableError as error:
            # One by one would fail in the same way.
            if _is_unreachable(error) or isinstance(error, StoreTakenError) or len(ready) == 1:
                outcomes |= dict.fromkeys(ready, error)
            else:
                for unit in ready:
                    self._store_group([unit], outcomes)
        else:
            outcomes |= zip(ready, stored, strict=True)
            for unit in ready:
                self._note(unit, outcomes[unit])

    def _prepared(self, units: Sequence[Unit], outcomes: dict[Unit, Any]) -> Sequence[Unit]:
        """Return the jobs and changes that can be stored."""
        ready: list[Unit] = []
        size = 0
        for unit in units:
            try:
                unit.prepare()
                if isinstance(unit, Addition):
                    # A job that is accepted without room for its result could not end.
                    size = size or sum(self._known.values()) + _JOB_BYTES * len(self._known)
                    # The model and the result of a job that has ended are those of an equal one.
                    more = _JOB_BYTES + (0 if unit.job.ended else unit.job.model_size + _blob_bytes(unit))
                    self._database.check_room(size + more)
                    size += more
            except Exception as error:
                outcomes[unit] = error
            else:
                ready.append(unit)
        return ready

    def _note(self, unit: Unit, outcome: Any) -> None:
        """Record which jobs are unfinished, after a transaction."""
        if isinstance(unit, Change):
            if outcome is False or (outcome is True and unit.job.ended):
                self._known.pop(unit.job.id, None)
        elif outcome is unit.job:
            if not outcome.ended:
                self._known[outcome.id] = outcome.model_size
            unit.is_stored = True
            if unit.is_cancelled:
                self._withdrawn.add(outcome.id)

    def _withdraw(self) -> None:
        """Remove the jobs whose submission was cancelled after they were stored."""
        ids = tuple(self._withdrawn)
        if ids:
            self._database.write(partial(withdraw_jobs, ids=ids), is_durable=False)
            for job_id in ids:
                self._known.pop(job_id, None)
            self._withdrawn.difference_update(ids)

    def _parsed(self, rows: Sequence[tuple[str, str]]) -> Sequence[JobRecord]:
        """Return the records of rows without those that are damaged."""
        jobs: list[JobRecord] = []
        for job_id, record in rows:
            try:
                jobs.append(parse_record(job_id, record, self._database.label))
            except JobsUnavailableError as error:
                warnings.warn(f"{error}; the job is left out", StoreWarning, 2)
        return jobs

    def _find(self, statement: Any, parameters: Mapping[str, str], connection: Connection) -> JobRecord | None:
        row = connection.execute(statement, parameters).one_or_none()
        return None if row is None else parse_record(row.id, row.record, self._database.label)

    def _list(self, query: JobQuery, connection: Connection) -> JobPage:
        statement = _RECORDS.order_by(JOBS.c.id.desc()).limit(query.limit + 1)
        if query.tenant is not None:
            statement = statement.where(JOBS.c.tenant == query.tenant)
        if query.before is not None:
            statement = statement.where(JOBS.c.id < query.before)
        if query.states:
            statement = statement.where(JOBS.c.state.in_([str(state) for state in query.states]))
            if not ENDED.intersection(query.states):
                # Otherwise SQLite reads all jobs that have ended, because the result is ordered.
                statement = statement.where(JOBS.c.id.in_(select(JOBS.c.id).where(text(IS_UNFINISHED))))
        if query.text:
            # Not LIKE, which has wildcards, and a limited length.
            wanted = escape(query.text.lower())
            position = func.strpos if self._database.is_remote else func.instr
            statement = statement.where(
                or_(
                    position(JOBS.c.name, wanted) > 0,
                    position(JOBS.c.pipeline, wanted) > 0,
                    func.substr(JOBS.c.id, 1, len(wanted)) == wanted,
                )
            )
        rows = [(row.id, row.record) for row in connection.execute(statement)]
        page = rows[: query.limit]
        return JobPage(self._parsed(page), page[-1][0] if len(rows) > len(page) > 0 else None)

    def _count(self, tenant: str | None, connection: Connection) -> Mapping[JobState, int]:
        statement = select(JOBS.c.state, func.count()).group_by(JOBS.c.state)
        if tenant is not None:
            statement = statement.where(JOBS.c.tenant == tenant)
        return {JobState(state): count for state, count in connection.execute(statement)}

    def _events(self, job_id: str, after: int, connection: Connection) -> Sequence[JobEvent]:
        rows = list(connection.scalars(_EVENTS, {"wanted": job_id, "after": after}))
        return parse_events(job_id, rows, after, self._database.label)


def _is_unreachable(error: JobsUnavailableError) -> bool:
    """Return whether there is no connection, or no room on the disk."""
    return isinstance(error.__cause__, OperationalError | InterfaceError | PoolTimeoutError)


def _blob_bytes(unit: Unit) -> int:
    """Return the bytes of the blobs that are not uploaded."""
    return sum(new.blob.size for new in unit.blobs.values() if new.body is None)


def _groups(units: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
    """Iterate over parts that one transaction stores."""
    group: list[Unit] = []
    size = 0
    for unit in units:
        size += _blob_bytes(unit)
        if group and (len(group) == _GROUP or size > _GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(unit)
    if group:
        yield group


def _units(item: _Call) -> Sequence[Unit]:
    """Return what a call stores."""
    if isinstance(item, Addition):
        return (item,)
    return () if callable(item) else item


def _result(item: _Call, outcomes: Mapping[Unit, Any]) -> Any:
    """Return the result or the error of a call."""
    results = [outcomes[unit] for unit in _units(item)]
    if isinstance(item, Addition):
        return results[0]
    if isinstance(item, list):
        return next((result for result in results if isinstance(result, Exception)), results)
    try:
        return item()
    except Exception as error:
        return error
