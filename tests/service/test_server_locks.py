"""One server at a time uses a store, and one without its lock changes nothing."""

import os
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest

from apass.service import JobsUnavailableError, SqlJobStore, StoreTakenError
from apass.service.job_store import Blob, JobQuery
from apass.service.jobs import JobRecord, JobState
from apass.service.server_locks import SessionLock
from apass.service.sql_blobs import LARGE
from tests.helpers.amounts import amount
from tests.service.adding_jobs import adding_jobs
from tests.service.postgres import PostgresServer, needs_postgres
from tests.service.stored_jobs import MODEL, done, ended, new_job, opened, running, states_of

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process]

LOCK = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"


def end_lock(postgres: PostgresServer, url: str) -> None:
    """End the connection that has the lock."""
    postgres.query(url, f"SELECT pg_terminate_backend(pid, 10000) FROM ({LOCK}) AS locks")


@pytest.fixture
def take_lock(target: str, request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return a function that lets another server have the lock."""
    if "://" in target:
        return partial(end_lock, request.getfixturevalue("postgres"), target)
    return Path(f"{target}.lock").unlink


async def all_jobs(store: SqlJobStore) -> dict[str, JobRecord]:
    return {job.id: job for job in (await store.list(JobQuery(tenant=None, limit=100_000))).jobs}


async def test_second_server_is_refused(target: str) -> None:
    async with opened(partial(SqlJobStore, target)) as store:
        job = await store.add(new_job(MODEL), MODEL)
        message = f"the store .* is in use by process {os.getpid()} on .*; stop that process, or wait for its end as a"
        for _ in range(2):
            with pytest.raises(StoreTakenError, match=message):
                await SqlJobStore(target).open()
        assert await store.update([running(job)]) == [True]


async def test_standby_gets_jobs_of_closed_store(target: str) -> None:
    got: list[JobRecord] = []

    async def stand_by(store: SqlJobStore) -> None:
        got.extend(await store.open(wait=True))

    first, second = SqlJobStore(target), SqlJobStore(target)
    await first.open()
    batch = [await first.add(new_job(MODEL), MODEL) for _ in range(4)]
    await first.update([running(batch[0], 2), ended(batch[1]), done(batch[3], MODEL)])
    async with anyio.create_task_group() as group:
        group.start_soon(stand_by, second)
        await anyio.sleep(0.7)  # one of its attempts fails
        assert got == []
        await first.close()
    # The attempt of the job that ran does not count, because the store was closed.
    given_back = running(batch[0], 2).job.with_state(JobState.QUEUED, attempts=1)
    assert got == [given_back, batch[2]]
    assert await second.update([ended(given_back), ended(batch[2])]) == [True, True]
    await second.close()
    with pytest.raises(JobsUnavailableError, match="is not open"):
        await second.find(batch[0].id)
    # A store may be opened again.
    assert await first.open() == []
    await first.close()


async def test_cancelled_standby_leaves_no_lock(target: str) -> None:
    async with opened(partial(SqlJobStore, target)):
        with anyio.move_on_after(0.7) as scope:
            await SqlJobStore(target).open(wait=True)
        assert scope.cancelled_caught
    async with opened(partial(SqlJobStore, target)) as store:
        assert await store.count() == {}


async def test_server_without_lock_changes_nothing(target: str, take_lock: Callable[[], None]) -> None:
    first, second = SqlJobStore(target), SqlJobStore(target)
    await first.open()
    jobs = [await first.add(new_job(MODEL), MODEL) for _ in range(2)]
    old = await first.add(new_job(MODEL), MODEL)
    await first.update([ended(old)])
    take_lock()
    assert await second.open() == jobs
    large = Blob.of(Random(1).randbytes(LARGE + 1))
    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: first.update([ended(jobs[0])]),
        lambda: first.update([done(jobs[0], large)]),
        lambda: first.add(new_job(MODEL), MODEL),
        lambda: first.add(new_job(large), large),
        lambda: first.remove(old.id),
        lambda: first.expire(0.0, 0),
    ]
    for change in changes:
        with pytest.raises(StoreTakenError, match=r"another server has taken over the store .*; end this one"):
            await change()
    assert await states_of(first, [*jobs, old]) == [JobState.QUEUED, JobState.QUEUED, JobState.CANCELLED]
    assert await second.update([done(jobs[0], MODEL)]) == [True]
    # It gives no jobs back.
    await second.update([running(jobs[1])])
    await first.close()
    assert await states_of(second, jobs) == [JobState.DONE, JobState.RUNNING]
    await second.close()


@needs_postgres
@pytest.mark.slow
async def test_stopped_server_is_fenced(postgres: PostgresServer, anyio_backend_name: str) -> None:
    for seed in range(amount(6, least=2)):
        url = postgres.create_schema()
        with adding_jobs(url, anyio_backend_name, str(seed), "2") as process:
            await anyio.sleep(0.3 + seed / 10)
            process.send_signal(signal.SIGSTOP)
            end_lock(postgres, url)
            # It may be stopped within a transaction, which keeps locks.
            async with opened(partial(SqlJobStore, url)) as store:
                jobs = await all_jobs(store)
                process.send_signal(signal.SIGCONT)
                out, _ = process.communicate(timeout=60)
                assert process.returncode == 3
                assert await all_jobs(store) == jobs
                # What it has reported before is stored.
                for what, job_id in (line.split() for line in out.splitlines()):
                    assert what == "added" or jobs[job_id].state is JobState.DONE


@needs_postgres
@pytest.mark.slow
async def test_stopped_server_loses_lock(url: str, anyio_backend_name: str) -> None:
    with adding_jobs(url, anyio_backend_name, "1", "1") as process:
        process.send_signal(signal.SIGSTOP)
        store = SqlJobStore(url)
        with anyio.fail_after(60):
            await store.open(wait=True)
        await store.close()


@needs_postgres
async def test_lock_ends_before_its_connection(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[SessionLock] = []

    def keep(lock: SessionLock) -> None:
        kept.append(lock)

    with monkeypatch.context() as patch:
        # PostgreSQL sees the end of a connection late, if it is busy.
        patch.setattr(SessionLock, "_disconnect", keep)
        async with opened(partial(SqlJobStore, url)):
            pass
    async with opened(partial(SqlJobStore, url)) as store:
        assert await store.count() == {}
    kept[0].release()


@needs_postgres
async def test_lost_lock_is_regained(postgres: PostgresServer, url: str) -> None:
    async with opened(partial(SqlJobStore, url, timeout=1)) as store:
        (before,) = postgres.query(url, LOCK)
        end_lock(postgres, url)
        with anyio.fail_after(60):
            while not postgres.query(url, LOCK):  # noqa: ASYNC110  it happens in a thread
                await anyio.sleep(0.05)
        assert postgres.query(url, LOCK) != [before]
        await store.add(new_job(MODEL), MODEL)
        with pytest.raises(StoreTakenError):
            await SqlJobStore(url).open()
    with anyio.fail_after(60):
        while postgres.query(url, LOCK):  # noqa: ASYNC110  the server ends the session later
            await anyio.sleep(0.05)


@needs_postgres
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:jobs were not given back")  # a machine that stalls gets no connection in time
async def test_restart_of_database_keeps_active_server(postgres: PostgresServer, url: str) -> None:
    async with opened(partial(SqlJobStore, url)) as store:
        with anyio.move_on_after(8) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(SqlJobStore(url).open, wait=True))
                await anyio.to_thread.run_sync(postgres.restart)
        assert scope.cancelled_caught
        await store.add(new_job(MODEL), MODEL)


@needs_postgres
async def test_stores_of_two_schemas_are_independent(postgres: PostgresServer) -> None:
    makers = [partial(SqlJobStore, postgres.create_schema()) for _ in range(2)]
    async with opened(makers[0]) as first, opened(makers[1]) as second:
        for store in (first, second):
            await store.add(new_job(MODEL), MODEL)
