"""`SqlJobStore`: jobs in a SQLite file, or in a PostgreSQL database."""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from secrets import token_hex
from time import time
from typing import Any, Final, TypeVar, cast

import anyio

from apass.concurrency.thread_batches import ThreadBatches
from apass.errors import MissingExtraError, StoreWarning
from apass.service.errors import JobsUnavailableError
from apass.service.job_store import CHUNK, Blob, DamagedBlobError, JobChange, JobPage, JobQuery, StoreSync
from apass.service.jobs import ENDED, JobEvent, JobRecord, JobState, new_job_id
from apass.service.sql_blobs import (
    LARGE,
    NewBlob,
    UnreadableBlobError,
    abandon_uploads,
    chunks_of,
    drop_blob,
    lock_blobs,
    purge_chunks,
    read_chunk,
    start_upload,
    write_chunks,
)
from apass.service.sql_changes import Addition, Change, parse_events, parse_record, store_changes
from apass.service.sql_database import Database
from apass.service.sql_removal import REMOVED, remove_job, remove_large, remove_old, withdraw_jobs
from apass.service.sql_schema import EVENTS, IS_DONE, IS_UNFINISHED, JOBS, escape
from apass.service.sql_servers import (
    adopt_jobs,
    extend_lease,
    own_jobs,
    records_of,
    register,
    release_jobs,
    take_all_jobs,
)
from apass.util.checks import is_seconds

try:
    from sqlalchemy import Connection, bindparam, func, or_, select, text, update
    from sqlalchemy.exc import InterfaceError, OperationalError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError
except ImportError as _error:
    raise MissingExtraError(f"SqlJobStore needs SQLAlchemy ({_error}): pip install 'apass[serve]'") from _error

__all__ = ["SqlJobStore"]

R = TypeVar("R")

_GROUP: Final = 256
"""Jobs and changes that are stored in one transaction."""

_GROUP_BYTES: Final = 4 * LARGE
"""Bytes of blobs in one transaction."""

_JOB_BYTES: Final = 16 << 10
"""Bytes of a job without its model and its result: the record, the events and the report."""

_FIND: Final = select(JOBS.c.id, JOBS.c.record).where(JOBS.c.id == bindparam("job"))
_FIND_DONE: Final = (
    select(JOBS.c.id, JOBS.c.record)
    .where(JOBS.c.tenant == bindparam("owner"), JOBS.c.key == bindparam("wanted"), text(IS_DONE))
    .order_by(JOBS.c.id.desc())
    .limit(1)
)
_FIND_REQUEST: Final = select(JOBS.c.id, JOBS.c.record).where(
    JOBS.c.tenant == bindparam("owner"),
    JOBS.c.idempotency_key == bindparam("wanted"),
    text("idempotency_key IS NOT NULL"),
)
_EVENTS: Final = (
    select(EVENTS.c.data)
    .where(EVENTS.c.job == bindparam("wanted"), EVENTS.c.last > bindparam("after"))
    .order_by(EVENTS.c.last)
)


class _Add(Addition):
    """A call of `add`."""

    is_stored: bool = False
    """Whether the job is stored."""
    is_cancelled: bool = False
    """Whether the caller was cancelled."""


class _Update:
    """A call of `update`."""

    __slots__ = ("changes",)

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes


class SqlJobStore:
    """A `JobStore` in a database.

    Accepted jobs survive the end of the process, and a loss of power.

    - A **SQLite** file has one server. While it is open, the file `NAME.lock` names the process. After a crash, the
      next process that opens it gets all unfinished jobs.
    - A **PostgreSQL** database has any number of servers. Each has a lease, which `sync` extends. When a lease is over,
      by the clock of the database, the other servers adopt the unfinished jobs. A server that continues after its lease
      cannot change these jobs any more.

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
            for `apass[postgres]`. The tables are created if they do not exist. Passwords are not part of messages.
        sync_seconds: how often a server of PostgreSQL extends its lease, and asks for the news of other servers.
        lease_seconds: the time after which the jobs of a lost server are adopted.
        timeout: seconds to wait for a connection, or for the lock of another program.

    Raises:
        ValueError: if the URL is invalid, or a number is not positive, or the lease is shorter than two
            `sync_seconds`.
        MissingExtraError: if the driver of the database is not installed.
        JobsUnavailableError: by every method, if the database cannot be read or written, or is not open. The next call
            tries to connect again.

    """

    is_durable: bool = True
    """Jobs survive the end of the process."""

    def __init__(
        self,
        path_or_url: Path | str,
        *,
        sync_seconds: float = 2.0,
        lease_seconds: float = 10.0,
        timeout: float = 10.0,
    ) -> None:
        for name, value in (("sync_seconds", sync_seconds), ("lease_seconds", lease_seconds), ("timeout", timeout)):
            if not is_seconds(value):
                raise ValueError(f"{name} must be a positive number of seconds, got {value!r}")
        if lease_seconds < 2 * sync_seconds:
            raise ValueError(
                f"lease_seconds must be at least twice sync_seconds ({sync_seconds:g}), got {lease_seconds:g}; "
                "otherwise a server loses its jobs when one call is late"
            )
        self._database = Database(path_or_url, timeout)
        self.sync_seconds: float | None = sync_seconds if self._database.is_shared else None
        """Seconds between two calls of `sync`; None for SQLite."""
        self._lease = lease_seconds
        self._server = ""
        self._known: dict[str, int] = {}
        """The unfinished jobs of this server, with the sizes of their models. Only the thread that writes uses it."""
        self._reported: set[str] = set()
        """The jobs whose cancellation `sync` has returned."""
        self._withdrawn: set[str] = set()
        """Jobs that are to be removed again, because their submission was cancelled."""
        self._abandoned: list[str] = []
        """Uploads that are to be removed, because they were not needed or have failed."""
        # One thread writes: SQLite has one writer, and the transactions of a server need no locks among themselves.
        self._writes: ThreadBatches[_Add | _Update | Callable[[], Any], Any] = ThreadBatches(self._write_all)
        self._lookups: ThreadBatches[Callable[[Connection], Any], Any] = ThreadBatches(
            self._database.read, threads=2, size=64
        )
        # A search takes longer, and must not let lookups wait.
        self._scans: ThreadBatches[Callable[[Connection], Any], Any] = ThreadBatches(
            self._database.read, threads=2, size=1
        )

    def __repr__(self) -> str:
        return f"<SqlJobStore: {self._database.label}>"

    async def open(self) -> Sequence[JobRecord]:
        """Open the store, and return the unfinished jobs that this server has to run.

        Raises:
            JobsUnavailableError: if the database cannot be used, another process has the SQLite file, or the tables are
                those of another program or version. These are not changed.

        """
        return await anyio.to_thread.run_sync(self._open)

    def _open(self) -> Sequence[JobRecord]:
        self._database.open()
        # Another id each time: what an earlier use of the store still does must not change jobs.
        self._server = token_hex(16)
        self._known.clear()
        self._reported.clear()
        self._withdrawn.clear()
        self._abandoned.clear()
        try:
            if self._database.is_shared:
                rows = self._database.write(self._take)
            else:
                rows = self._database.write_reserved(self._take_all, is_removal=False)
        except BaseException:
            self._database.close()
            raise
        return self._adopted(rows)

    def _take(self, connection: Connection) -> Sequence[tuple[str, str]]:
        extend_lease(connection, self._server, self._lease)
        return adopt_jobs(connection, self._server)

    def _take_all(self, connection: Connection) -> Sequence[tuple[str, str]]:
        return take_all_jobs(connection, self._server, self._database.label)

    async def close(self) -> None:
        """Give the unfinished jobs back, and close the connections.

        The attempts of jobs that run do not count. If the database cannot be written, a StoreWarning says so, and other
        servers adopt the jobs at the end of the lease.
        """
        await self._writes.run(self._close)

    def _close(self) -> None:
        if not self._database.is_open:
            return
        try:
            release = partial(release_jobs, server=self._server, label=self._database.label)
            self._database.write_reserved(release, is_removal=False)
        except JobsUnavailableError as error:
            warnings.warn(f"jobs were not given back: {error}", StoreWarning, 2)
        finally:
            self._database.close()

    async def add(self, job: JobRecord, model: Blob) -> JobRecord:
        """Store a new job; see `JobStore`.

        If the caller is cancelled, the job is not stored, or removed again.

        Raises:
            KeyError: if the result or the report does not exist any more.
            OSError: if the file of the model cannot be read, or has changed.

        """
        body = await self._upload(model)
        item = _Add(job, NewBlob(model, body))
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
                # Without effect if the job has it.
                self._abandoned.append(body)

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
        return await self._scan(partial(self._list, query))

    async def count(self, tenant: str | None = None) -> Mapping[JobState, int]:
        """Return the number of jobs in each state."""
        return await self._scan(partial(self._count, tenant))

    async def update(self, changes: Sequence[JobChange]) -> Sequence[bool]:
        """Make changes of unfinished jobs of this server; see `JobStore`.

        To repeat a call that has failed is safe.

        Raises:
            KeyError: if the result or the report of a job does not exist.
            OSError: if the file of a blob cannot be read, or has changed.

        """
        bodies: dict[str, str] = {}
        try:
            items = [Change(change, await self._new_blobs(change, bodies)) for change in changes]
            return cast("Sequence[bool]", await self._writes.run(_Update(items)))
        finally:
            self._abandoned += bodies.values()

    async def request_cancel(self, job_id: str) -> bool:
        """Request that the server with the job cancels it; its `sync` returns the request."""
        if not self._database.is_shared:
            return False
        return await self._run(partial(_request_cancel, job_id))

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

    async def sync(self) -> StoreSync:
        """Extend the lease of this server, and return what others have done."""
        if not self._database.is_shared:
            return StoreSync()
        return cast("StoreSync", await self._writes.run(self._sync))

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

    async def _run(self, function: Callable[[Connection], R]) -> R:
        """Call a function in a transaction that must not survive a loss of power."""
        return cast("R", await self._writes.run(partial(self._database.write, function, is_durable=False)))

    async def _remove(self, function: Callable[[Connection], R]) -> R:
        """Call a function that removes rows; see `Database.write_reserved`."""
        return cast("R", await self._writes.run(partial(self._database.write_reserved, function, is_removal=True)))

    async def _look_up(self, function: Callable[[Connection], R]) -> R:
        """Call a function that reads little."""
        return cast("R", await self._lookups.run(function))

    async def _scan(self, function: Callable[[Connection], R]) -> R:
        """Call a function that reads much."""
        return cast("R", await self._scans.run(function))

    async def _purge(self) -> None:
        """Delete the chunks of large blobs that were removed."""
        # Another call may purge at the same time.
        bodies, self._abandoned = self._abandoned, []
        if bodies:
            try:
                await self._remove(partial(abandon_uploads, bodies=bodies))
            except BaseException:
                self._abandoned += bodies
                raise
        while await self._remove(purge_chunks):
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
        if await self._look_up(partial(lock_blobs, digests=(blob.digest,))):
            return None
        body, first, chunks = new_job_id(), 0, chunks_of(blob)
        try:
            await self._run(partial(start_upload, body=body, server=self._server))
            while some := await anyio.to_thread.run_sync(lambda: list(islice(chunks, LARGE // CHUNK))):
                write = partial(
                    write_chunks, body=body, digest=blob.digest, server=self._server, first=first, chunks=some
                )
                await self._run(write)
                first += len(some)
        except BaseException as error:
            self._abandoned.append(body)
            if isinstance(error, UnreadableBlobError):
                raise error.cause from error
            raise
        return body

    def _write_all(self, items: Sequence[_Add | _Update | Callable[[], Any]]) -> Sequence[Any]:
        """Handle the calls of concurrent callers; return the result or the error of each."""
        if self._withdrawn:
            with suppress(JobsUnavailableError):
                self._withdraw()
        units: list[Addition | Change] = []
        for item in items:
            if isinstance(item, _Add):
                units.append(item)
            elif isinstance(item, _Update):
                units += item.changes
        outcomes: dict[Addition | Change, Any] = {}
        for group in _groups(units):
            self._store_group(group, outcomes)
        return [_result(item, outcomes) for item in items]

    def _store_group(self, units: Sequence[Addition | Change], outcomes: dict[Addition | Change, Any]) -> None:
        """Store jobs and changes in a transaction.

        An error of one does not affect the others.
        """
        ready: list[Addition | Change] = []
        size = 0
        for unit in units:
            try:
                unit.prepare(self._server)
                if isinstance(unit, Addition):
                    # A job that is accepted without room for its result could not end.
                    size = size or sum(self._known.values()) + _JOB_BYTES * len(self._known)
                    self._database.check_room(size + (more := _needed_bytes(unit)))
                    size += more
            except Exception as error:
                outcomes[unit] = error
            else:
                ready.append(unit)
        if not ready:
            return
        # The end of a job need not survive a loss of power: the job then runs again.
        is_durable = any(isinstance(unit, Addition) for unit in ready)
        try:
            stored = self._database.write(
                partial(self._store, ready), is_durable=is_durable or self._database.is_shared
            )
        except UnreadableBlobError as error:
            outcomes |= {unit: error.cause for unit in ready if error.digest in _digests(unit)}
            self._store_group([unit for unit in ready if unit not in outcomes], outcomes)
        except JobsUnavailableError as error:
            # Without a connection, or on a full disk, one by one would fail in the same way.
            is_general = isinstance(error.__cause__, OperationalError | InterfaceError | PoolTimeoutError)
            if is_general or len(ready) == 1:
                outcomes |= dict.fromkeys(ready, error)
            else:
                for unit in ready:
                    self._store_group([unit], outcomes)
        else:
            outcomes |= zip(ready, stored, strict=True)
            for unit in ready:
                self._note(unit, outcomes[unit])

    def _store(self, units: Sequence[Addition | Change], connection: Connection) -> Sequence[Any]:
        if self._database.is_shared:
            register(connection, self._server, self._lease)
        return store_changes(connection, units, self._server, self._database.label)

    def _note(self, unit: Addition | Change, outcome: Any) -> None:
        """Record which jobs this server has, after a transaction."""
        if isinstance(unit, Change):
            if outcome is False or (outcome is True and unit.change.job.ended):
                self._known.pop(unit.change.job.id, None)
        elif outcome is unit.job:
            if not outcome.ended:
                self._known[outcome.id] = outcome.model_size
            if isinstance(unit, _Add):
                unit.is_stored = True
                if unit.is_cancelled:
                    self._withdrawn.add(outcome.id)

    def _withdraw(self) -> None:
        """Remove the jobs whose submission was cancelled after they were stored."""
        ids = tuple(self._withdrawn)
        if ids:
            self._database.write(partial(withdraw_jobs, ids=ids, server=self._server), is_durable=False)
            self._forget(ids)
            self._withdrawn.difference_update(ids)

    def _sync(self) -> StoreSync:
        own, rows = self._database.write(self._exchange)
        lost = sorted(self._known.keys() - own.keys())
        self._forget(lost)
        jobs = self._adopted(rows)
        cancelled = [job_id for job_id, is_cancelled in own.items() if is_cancelled and job_id not in self._reported]
        self._reported.intersection_update(own)
        self._reported.update(cancelled)
        return StoreSync(cancelled, lost, jobs)

    def _exchange(self, connection: Connection) -> tuple[Mapping[str, bool], Sequence[tuple[str, str]]]:
        extend_lease(connection, self._server, self._lease)
        own = own_jobs(connection, self._server)
        # If the connection is lost during a commit, `add` raises an error although the job may be stored.
        unknown = sorted(own.keys() - self._known.keys())
        rows = [*records_of(connection, unknown)] if unknown else []
        return own, [*rows, *adopt_jobs(connection, self._server)]

    def _adopted(self, rows: Sequence[tuple[str, str]]) -> Sequence[JobRecord]:
        """Note that this server has some jobs; return their records."""
        jobs = self._parsed(rows)
        # A job with a damaged record, too: it is not new at the next `sync`.
        self._known.update((job_id, 0) for job_id, _ in rows)
        self._known.update((job.id, job.model_size) for job in jobs)
        return jobs

    def _forget(self, ids: Iterable[str]) -> None:
        for job_id in ids:
            self._known.pop(job_id, None)

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
        statement = select(JOBS.c.id, JOBS.c.record).order_by(JOBS.c.id.desc()).limit(query.limit + 1)
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
            position = func.strpos if self._database.is_shared else func.instr
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


def _request_cancel(job_id: str, connection: Connection) -> bool:
    jobs = update(JOBS).where(JOBS.c.id == job_id, text(IS_UNFINISHED))
    return connection.execute(jobs.values(cancel_requested=True)).rowcount == 1


def _digests(unit: Addition | Change) -> Collection[str]:
    return (unit.model.blob.digest,) if isinstance(unit, Addition) else unit.blobs.keys()


def _needed_bytes(new: Addition) -> int:
    """Return about how many bytes a job will need."""
    if new.job.ended:  # model and result are those of an equal job
        return _JOB_BYTES
    return _JOB_BYTES + new.job.model_size + (new.model.blob.size if new.model.body is None else 0)


def _groups(units: Sequence[Addition | Change]) -> Iterator[Sequence[Addition | Change]]:
    """Iterate over parts that one transaction stores."""
    group: list[Addition | Change] = []
    size = 0
    for unit in units:
        blobs = (unit.model,) if isinstance(unit, Addition) else unit.blobs.values()
        size += sum(new.blob.size for new in blobs if new.body is None)
        if group and (len(group) == _GROUP or size > _GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(unit)
    if group:
        yield group


def _result(item: _Add | _Update | Callable[[], Any], outcomes: Mapping[Addition | Change, Any]) -> Any:
    """Return the result or the error of a call."""
    if isinstance(item, _Add):
        return outcomes[item]
    if isinstance(item, _Update):
        results = [outcomes[change] for change in item.changes]
        return next((result for result in results if isinstance(result, Exception)), results)
    try:
        return item()
    except Exception as error:
        return error
