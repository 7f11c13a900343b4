"""Faults of SQL job stores: killed processes, full disks, lost connections."""

import os
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import anyio
import pytest

from apass.errors import StoreWarning
from apass.service import JobsUnavailableError, SqlJobStore, StoreTakenError
from apass.service.job_store import Blob, JobQuery, read_blob
from apass.service.jobs import JobRecord, JobState
from tests.helpers.amounts import amount
from tests.helpers.full_disk import tiny_disk
from tests.helpers.rows import row
from tests.service.adding_jobs import adding_jobs, result_of
from tests.service.postgres import PostgresServer, needs_postgres
from tests.service.stored_jobs import MODEL, done, ended, fill_disk, new_job, opened, running, states_of, use_full_disk

pytestmark = pytest.mark.anyio

in_thread = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For tests of what happens in the thread of a store, to which the event loop does not matter."""


async def killed_at(random: Random, *arguments: str) -> list[list[str]]:
    """Run the program, kill it after a random number of lines, and return all lines."""
    with adding_jobs(*arguments) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.randrange(1, 149))]
        with pytest.raises(StoreTakenError, match=f"in use by process {process.pid} on"):
            await SqlJobStore(arguments[0]).open()
        process.send_signal(signal.SIGKILL)
        # What it wrote before the signal arrived counts, too.
        lines += process.stdout.read().splitlines()
    return [line.split() for line in lines]


async def check_jobs(store: SqlJobStore, lines: Sequence[Sequence[str]]) -> None:
    """Check that no job is missing or half-written."""
    page = await store.list(JobQuery(tenant=None, limit=10_000))
    jobs = {job.id: job for job in page.jobs}
    assert page.next is None
    for what, job_id in lines:
        assert job_id in jobs
        assert what == "added" or jobs[job_id].state is JobState.DONE
    for job in jobs.values():
        data = await read_blob(store, job.model_digest)
        assert Blob.of(data).digest == job.model_digest
        if job.result_digest is not None:
            assert await read_blob(store, job.result_digest) == result_of(data)


async def unfinished(store: SqlJobStore) -> list[str]:
    page = await store.list(JobQuery(tenant=None, states=[JobState.QUEUED, JobState.RUNNING], limit=10_000))
    return sorted(job.id for job in page.jobs)


@pytest.mark.slow
@pytest.mark.process
async def test_killed_process_loses_no_job(target: str, anyio_backend_name: str) -> None:
    random = Random(1)
    lines: list[list[str]] = []
    kills = amount(8, least=2)
    for seed in range(kills):
        lines += await killed_at(random, target, anyio_backend_name, str(seed))
        store = SqlJobStore(target)
        with anyio.fail_after(60):
            # The database may not have noticed the end of the process.
            jobs = await store.open(wait="://" in target)
        assert sorted(job.id for job in jobs) == await unfinished(store)
        await check_jobs(store, lines)
        await store.close()
    assert len(lines) > 25 * kills


@pytest.mark.process
@pytest.mark.slow
async def test_forked_process_does_not_keep_lock(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with adding_jobs(str(path), "fork") as process:
        assert process.stdout is not None
        forked = int(process.stdout.readline())
        try:
            process.kill()
            process.wait()
            async with opened(lambda: SqlJobStore(path)) as store:
                assert await store.count() == {}
        finally:
            os.kill(forked, signal.SIGKILL)


@in_thread
async def test_full_disk_loses_no_job(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 6000) as folder:
        filler = folder / "filler"
        filler.write_bytes(bytes(3_000_000))
        make = partial(SqlJobStore, folder / "jobs.db")
        async with opened(make) as store:
            jobs = await use_full_disk(store, filler, 50_000)
            assert await store.update([running(job) for job in jobs]) == [True] * len(jobs)
        async with opened(make) as store:
            assert await unfinished(store) == [job.id for job in jobs]


async def add_ended_until_error(store: SqlJobStore, jobs: list[JobRecord]) -> None:
    """Add jobs that have ended, of which the last one may not have."""
    while True:
        model = Blob.of(os.urandom(300_000))
        jobs.append(new_job(model))
        await store.add(jobs[-1], model)
        await store.update([ended(jobs[-1])])


@pytest.mark.slow
@in_thread
async def test_jobs_are_removed_from_a_full_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 80_000) as folder:
        path = folder / "jobs.db"
        jobs: list[JobRecord] = []
        async with opened(lambda: SqlJobStore(path)) as store:
            removed: list[JobRecord] = []
            # The reserve is used, and kept again.
            for _ in range(3):
                with pytest.raises(JobsUnavailableError, match="the disk is full"):
                    await add_ended_until_error(store, jobs)
                removed = jobs[:5]
                del jobs[:5], jobs[-1]
                assert [await store.remove(job.id) for job in removed] == [True] * 5
                assert path.with_name("jobs.db.reserve").exists()
            assert set(await states_of(store, jobs)) == {JobState.CANCELLED}
            assert set(await states_of(store, removed)) == {None}


@in_thread
async def test_store_with_reserve_opens_on_full_disk(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 80_000) as folder:
        path = folder / "jobs.db"
        async with opened(lambda: SqlJobStore(path)) as store:
            kept, removed = new_job(MODEL), new_job(MODEL)
            for job in (kept, removed):
                await store.add(job, MODEL)
            await store.update([ended(removed)])
            assert await store.remove(removed.id)  # which makes the reserve
        for number in range(3):
            fill(folder / f"filler{number}")
            async with opened(lambda: SqlJobStore(path)) as store:
                assert await states_of(store, [kept]) == [JobState.QUEUED]
                with pytest.raises(JobsUnavailableError, match="the disk is full") as caught:
                    await store.add(new_job(MODEL), MODEL)
                assert caught.value.is_full
                assert str(caught.value).endswith("free some space, or remove jobs")


@pytest.mark.slow
@in_thread
async def test_every_accepted_job_has_room_for_its_result(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 60_000) as folder:
        path, filler = folder / "jobs.db", folder / "filler"
        async with opened(lambda: SqlJobStore(path)) as store:
            *jobs, refused = await fill_disk(store, 800_000)
            fill(filler)
            # The log of SQLite fills the rest, and has to become smaller.
            with suppress(JobsUnavailableError):
                for job in jobs * 20:
                    await store.update([running(job)])
        async with opened(lambda: SqlJobStore(path)) as store:
            assert await unfinished(store) == [job.id for job in jobs]
            with pytest.raises(JobsUnavailableError, match="the disk is full"):
                await store.add(refused, MODEL)
            filler.unlink()
            assert len(jobs) > 10
            for job in jobs:
                assert await store.update([done(job, Blob.of(os.urandom(800_000)))]) == [True]
            for job in jobs[:5]:
                assert await store.remove(job.id)
            await store.add(refused, MODEL)
        assert path.with_name("jobs.db.reserve").stat().st_size == 20 << 20


def fill(path: Path) -> None:
    """Write a file until the disk is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 12)):
            pass


@in_thread
async def test_full_disk_cannot_be_opened(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 16) as folder:
        (folder / "filler").write_bytes(bytes(8_000))
        store = SqlJobStore(folder / "jobs.db")
        with pytest.raises(JobsUnavailableError, match="the disk is full") as caught:
            await store.open()
        assert caught.value.is_full


@in_thread
async def test_read_only_disk_is_reported(tmp_path: Path) -> None:
    with tiny_disk(tmp_path / "disk", 3000) as folder:
        path = folder / "jobs.db"
        async with opened(lambda: SqlJobStore(path)) as store:
            await store.add(new_job(MODEL), MODEL)
        before = path.read_bytes()
        await anyio.run_process(["mount", "-o", "remount,ro", str(folder)])
        with pytest.raises(JobsUnavailableError, match=r"cannot be opened; check .* the permissions of its folder"):
            await SqlJobStore(path).open()
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing/jobs.db", "cannot be created: the folder .*missing' is missing"),
        ("folder", "cannot be used: it is a folder; write the path of a file"),
        ("text", "cannot be used: it is no database; use another file"),
        ("foreign.db", "is a database of another program and was not changed; use another file"),
        ("old.db", "has tables of the version 0, and this apass uses 3; use another database"),
    ],
)
async def test_unusable_file_is_not_changed(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("no database, but a long text" * 100)
    with sqlite3.connect(tmp_path / "foreign.db") as connection:
        connection.execute("CREATE TABLE apass_jobs (id TEXT)")
    connection.close()
    async with opened(lambda: SqlJobStore(tmp_path / "old.db")):
        pass
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute("UPDATE apass_schema SET version = 0")
    connection.close()
    before = contents(tmp_path)
    with pytest.raises(JobsUnavailableError, match=message):
        await SqlJobStore(tmp_path / name).open()
    assert contents(tmp_path) == before


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def modes_of(folder: Path) -> dict[str, int]:
    """Return the permissions of the files in a folder."""
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def test_files_are_readable_by_user_only(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        async with opened(lambda: SqlJobStore(tmp_path / "jobs.db")) as store:
            await store.add(new_job(MODEL), MODEL)
            modes = modes_of(tmp_path)
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(("jobs.db", "jobs.db.lock", "jobs.db-wal", "jobs.db-shm"), 0o600)
    # The permissions of a file that exists are those that its owner has chosen.
    (tmp_path / "jobs.db").chmod(0o640)
    async with opened(lambda: SqlJobStore(tmp_path / "jobs.db")):
        assert (tmp_path / "jobs.db").stat().st_mode & 0o777 == 0o640


@in_thread
async def test_damaged_record_does_not_stop_server(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    jobs = [new_job(MODEL, idempotency_key=f"request {number}") for number in range(3)]
    async with opened(lambda: SqlJobStore(path)) as store:
        for job in jobs:
            await store.add(job, MODEL)
        await store.update([done(jobs[2], MODEL)])
    another = jobs[1].to_json()
    for damaged in ("{", "null", "[]", '{"id": 1}', "[" * 100_000, b"\xff\xfe", b"", another):
        with row(damaged[:20]):
            # Both jobs are damaged: one that is queued, and one that has ended.
            with sqlite3.connect(path) as connection:
                ids = (jobs[0].id, jobs[2].id)
                connection.execute("UPDATE apass_jobs SET record = ? WHERE id IN (?, ?)", (damaged, *ids))
            connection.close()
            store = SqlJobStore(path)
            with pytest.warns(
                StoreWarning, match=f"the record of job '{jobs[0].id}' in .* is damaged: .*; the job is left out"
            ):
                assert await store.open() == [jobs[1]]
            with pytest.raises(JobsUnavailableError, match=f"the record of job '{jobs[0].id}' in .* is damaged"):
                await store.find(jobs[0].id)
            with pytest.raises(JobsUnavailableError, match=f"the record of job '{jobs[0].id}' in .* is damaged"):
                await store.add(new_job(MODEL, idempotency_key="request 0"), MODEL)
            with pytest.warns(StoreWarning, match="is damaged"):
                assert (await store.list(JobQuery(tenant=None))).jobs == [jobs[1]]
            assert await store.find(jobs[1].id) == jobs[1]
            assert await store.remove(jobs[2].id)
            # For the next row.
            await store.add(jobs[2], MODEL)
            await store.update([done(jobs[2], MODEL)])
            await store.close()


@pytest.mark.parametrize(
    ("target", "timeout", "message"),
    [
        ("", 10, "the path of the store is empty"),
        ("mysql://user:secret@host/db", 10, "got a URL of 'mysql'"),
        ("sqlite://", 10, "the URL of a SQLite store has no file"),
        ("postgresql://user:secret@host:port/db", 10, "the URL of the store is invalid"),
        ("jobs.db", 0, "timeout must be a positive number of seconds, got 0"),
    ],
)
def test_invalid_arguments_are_errors(target: str, timeout: float, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        SqlJobStore(target, timeout=timeout)
    assert "secret" not in str(caught.value)


async def add_again(store: SqlJobStore, number: int, added: dict[int, str]) -> None:
    """Add a job; repeat the request until the store accepts it."""
    model = Blob.of(b"model %d" % number)
    while True:
        job = new_job(model, idempotency_key=f"request {number}")
        try:
            added[number] = (await store.add(job, model)).id
        except JobsUnavailableError:
            await anyio.sleep(0.01)
        else:
            return


async def check_requests(store: SqlJobStore, added: dict[int, str]) -> None:
    """Check that each request has one job."""
    page = await store.list(JobQuery(tenant=None, limit=10_000))
    assert {job.idempotency_key: job.id for job in page.jobs} == {f"request {n}": i for n, i in added.items()}
    assert len(page.jobs) == len(added)
    for number in added:
        assert await read_blob(store, Blob.of(b"model %d" % number).digest) == b"model %d" % number


def kill_connections(postgres: PostgresServer) -> None:
    postgres.query(
        "postgres",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.process
@needs_postgres
@pytest.mark.parametrize(("fault", "times"), [(PostgresServer.restart, 3), (kill_connections, 24)])
async def test_lost_connections_lose_no_job(
    postgres: PostgresServer, url: str, fault: Callable[[PostgresServer], None], times: int
) -> None:
    count = amount(800)
    added: dict[int, str] = {}
    async with opened(lambda: SqlJobStore(url)) as store:
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(add_again, store, number, added)
                if number * times % count < times:
                    await anyio.to_thread.run_sync(fault, postgres)
        await check_requests(store, added)
