"""Servers that share a PostgreSQL database, and faults of the database."""

import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import pytest

from apass.errors import StoreWarning
from apass.service import JobsUnavailableError, SqlJobStore, jobs, sql_jobs, sql_servers
from apass.service.job_store import Blob, StoreSync, read_blob
from apass.service.jobs import JobRecord, JobState
from apass.service.sql_blobs import LARGE
from tests.helpers.amounts import amount, some
from tests.helpers.full_disk import tiny_disk
from tests.service.postgres import USER, PostgresServer, needs_postgres, running_postgres
from tests.service.stored_jobs import done, ended, new_job, opened, running, states_of

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, needs_postgres]

MODEL = Blob.of(b"a model")
NOTHING = StoreSync([], [], [])
TABLES = ("jobs", "blobs", "chunks", "uses", "uploads", "events")


@pytest.fixture(scope="module")
def postgres() -> Generator[PostgresServer]:
    """Return a server for all tests."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty schema."""
    return postgres.create_schema()


@asynccontextmanager
async def servers(url: str, count: int) -> AsyncGenerator[list[SqlJobStore]]:
    """Open the stores of several servers, one after the other."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(opened(lambda: SqlJobStore(url))) for _ in range(count)]


async def added(store: SqlJobStore, count: int) -> list[JobRecord]:
    return [await store.add(new_job(MODEL), MODEL) for _ in range(count)]


def end_lease(postgres: PostgresServer, url: str, job: JobRecord) -> None:
    """Let the lease of the server with a job be over, without waiting for that."""
    postgres.query(
        url,
        "UPDATE apass_servers SET lease_end = now() - interval '1 s' FROM apass_jobs "
        "WHERE apass_servers.id = owner AND apass_jobs.id = %s",
        job.id,
    )


@pytest.mark.slow
async def test_lost_jobs_are_adopted_once(postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    count = amount(1_000, least=400)
    monkeypatch.setattr(sql_servers, "ADOPTED", count // 10)
    adopted: list[str] = []

    async def adopt(store: SqlJobStore) -> None:
        for _ in range(4):
            news = await store.sync()
            assert news.lost == news.cancelled == []
            adopted.extend(job.id for job in news.adopted)

    async with servers(url, 4) as (lost, *others):
        batch = [new_job(MODEL) for _ in range(count)]
        async with anyio.create_task_group() as group:
            for job in batch:
                group.start_soon(lost.add, job, MODEL)
        assert [await store.sync() for store in others] == [NOTHING] * 3
        end_lease(postgres, url, batch[0])
        async with anyio.create_task_group() as group:
            for store in others:
                group.start_soon(adopt, store)
        assert Counter(adopted) == Counter(job.id for job in batch)
        # The server continues, and learns what has happened.
        news = await lost.sync()
        assert (news.adopted, news.lost) == ([], sorted(adopted))
        assert await lost.sync() == NOTHING
        again = await added(lost, 1)
        assert [await store.sync() for store in others] == [NOTHING] * 3
        assert await lost.update([running(again[0])]) == [True]


@pytest.mark.slow
async def test_opening_servers_adopt_each_job_once(postgres: PostgresServer, url: str) -> None:
    adopted: list[str] = []

    async def open_and_adopt(store: SqlJobStore) -> None:
        adopted.extend(job.id for job in await store.open())

    async with servers(url, 1) as (lost,):
        batch = await added(lost, 30)
        end_lease(postgres, url, batch[0])
        stores = [SqlJobStore(url) for _ in range(5)]
        async with anyio.create_task_group() as group:
            for store in stores:
                group.start_soon(open_and_adopt, store)
        assert Counter(adopted) == Counter(job.id for job in batch)
        for store in stores:
            await store.close()


async def test_lost_server_cannot_change_jobs(postgres: PostgresServer, url: str) -> None:
    async with servers(url, 2) as (lost, other):
        first, second = await added(lost, 2)
        assert await other.update([ended(first)]) == [False]
        assert await lost.update([running(first)]) == [True]
        end_lease(postgres, url, first)
        assert list((await other.sync()).adopted) == [running(first).job, second]
        result = Blob.of(b"the result of the lost server")
        assert await lost.update([done(first, result), ended(second)]) == [False, False]
        with pytest.raises(KeyError):
            await lost.read(result.digest, 0)
        assert await other.update([running(first, 2), done(second, MODEL)]) == [True, True]
        assert await states_of(lost, [first, second]) == [JobState.RUNNING, JobState.DONE]
        # The refusals were the news.
        assert await lost.sync() == NOTHING


async def test_lease_is_extended_in_time(postgres: PostgresServer, url: str) -> None:
    async with servers(url, 2) as (first, second):
        (job,) = await added(first, 1)
        end_lease(postgres, url, job)
        # No other server has noticed it.
        assert await first.sync() == NOTHING
        assert await second.sync() == NOTHING
        assert await first.update([ended(job)]) == [True]


async def test_lease_ends_by_itself(url: str) -> None:
    async with opened(lambda: SqlJobStore(url, sync_seconds=0.1, lease_seconds=0.3)) as lost:
        (job,) = await added(lost, 1)
        other = SqlJobStore(url)
        # On a slow machine, the lease is over already.
        adopted = await other.open()
        for _ in range(1000):
            if adopted:
                break
            await anyio.sleep(0.02)
            adopted = (await other.sync()).adopted
        assert list(adopted) == [job]
        await other.close()


async def test_clocks_of_servers_do_not_matter(
    postgres: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers(url, 2) as (first, second):
        (job,) = await added(first, 1)
        for now in (0.0, 1e10, 5.0):
            monkeypatch.setattr(sql_jobs, "time", lambda now=now: now)
            monkeypatch.setattr(jobs, "time_ns", lambda now=now: int(now * 1e9))
            assert await first.sync() == await second.sync() == NOTHING
            await added(second, 1)
        end_lease(postgres, url, job)
        assert list((await second.sync()).adopted) == [job]


async def test_closed_server_gives_jobs_back(url: str) -> None:
    async with servers(url, 1) as (other,):
        first = SqlJobStore(url)
        await first.open()
        batch = await added(first, 3)
        await first.update([running(batch[0], 2), ended(batch[1])])
        await first.close()
        given_back = running(batch[0], 2).job.with_state(JobState.QUEUED, attempts=1)
        assert list((await other.sync()).adopted) == [given_back, batch[2]]
        assert await other.update([ended(given_back), ended(batch[2])]) == [True, True]


async def test_unreachable_database_ends_with_warning(postgres: PostgresServer) -> None:
    async with AsyncExitStack() as stack:
        url = postgres.create_schema()
        store = SqlJobStore(url)
        await store.open()
        await added(store, 1)
        await anyio.to_thread.run_sync(postgres.stop)
        stack.callback(postgres.start)
        with pytest.warns(StoreWarning, match="jobs were not given back: the store .* cannot be used"):
            await store.close()


async def test_cancellation_reaches_other_server(postgres: PostgresServer, url: str) -> None:
    async with servers(url, 3) as (first, second, third):
        batch = await added(first, 3)
        await first.update([ended(batch[2])])
        assert [await second.request_cancel(job.id) for job in (*batch, new_job(MODEL))] == [True, True, False, False]
        assert await second.sync() == NOTHING
        assert sorted((await first.sync()).cancelled) == [batch[0].id, batch[1].id]
        assert await first.sync() == NOTHING
        assert await first.update([ended(batch[0])]) == [True]
        # The server is lost before it has ended the second job.
        end_lease(postgres, url, batch[1])
        assert list((await third.sync()).adopted) == [batch[1]]
        assert list((await third.sync()).cancelled) == [batch[1].id]


async def test_damaged_record_is_adopted_with_warning(postgres: PostgresServer, url: str) -> None:
    async with servers(url, 2) as (lost, other):
        first, second = await added(lost, 2)
        postgres.query(url, "UPDATE apass_jobs SET record = '{' WHERE id = %s", first.id)
        end_lease(postgres, url, first)
        with pytest.warns(StoreWarning, match=f"the record of job '{first.id}' in .* is damaged"):
            assert list((await other.sync()).adopted) == [second]
        assert await other.sync() == NOTHING


async def test_concurrent_requests_at_two_servers_are_one(url: str) -> None:
    stored: dict[int, set[str]] = {number: set() for number in range(60)}

    async def add(store: SqlJobStore, number: int) -> None:
        model = Blob.of(b"model %d" % (number % 7))
        stored[number].add((await store.add(new_job(model, idempotency_key=str(number)), model)).id)

    async with servers(url, 3) as stores, anyio.create_task_group() as group:
        for number in range(60):
            for index in range(3):
                group.start_soon(add, stores[(number + index) % 3], number)
    assert [len(ids) for ids in stored.values()] == [1] * 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(2), least=1))
async def test_shared_blobs_survive_concurrent_removal(postgres: PostgresServer, url: str, seed: int) -> None:
    blobs = [Blob.of(b"blob %d" % number) for number in range(4)]
    blobs.append(Blob.of(Random(seed).randbytes(LARGE + 1)))

    async def use(store: SqlJobStore, name: str) -> None:
        random = Random(f"{seed} {name}")
        for _ in range(amount(40, share=0.1)):
            model, result = random.choices(blobs, weights=[8, 8, 8, 8, 1], k=2)
            job = await store.add(new_job(model), model)
            assert await read_blob(store, model.digest) == model.data
            assert await store.update([done(job, result)]) == [True]
            assert await read_blob(store, result.digest) == result.data
            assert await read_blob(store, model.digest) == model.data
            assert await store.remove(job.id)

    async def expire(store: SqlJobStore) -> None:
        for _ in range(20):
            await store.expire(1e12, 10**9)

    async with servers(url, 2) as stores:
        async with anyio.create_task_group() as group:
            for index, store in enumerate(stores):
                for name in "abcd":
                    group.start_soon(use, store, f"{index}{name}")
                group.start_soon(expire, store)
        for store in stores:
            await store.expire(None, None)
    assert [postgres.query(url, f"SELECT COUNT(*) FROM apass_{table}") for table in TABLES] == [[(0,)]] * len(TABLES)


async def test_interrupted_upload_is_removed(postgres: PostgresServer, url: str) -> None:
    async with servers(url, 2) as (lost, other):
        model = Blob.of(Random(1).randbytes(LARGE + 1))
        # A server that was lost in the middle of an upload.
        postgres.query(url, "INSERT INTO apass_servers VALUES ('dead', now() - interval '1 s')")
        postgres.query(url, "INSERT INTO apass_uploads VALUES ('body', 'dead')")
        postgres.query(url, "INSERT INTO apass_chunks SELECT 'body', n, 'data' FROM generate_series(1, 40) AS n")
        await lost.add(new_job(model), model)
        await other.sync()
        await other.expire(None, None)
        assert postgres.query(url, "SELECT COUNT(*) FROM apass_chunks") == [(5,)]
        assert postgres.query(url, "SELECT COUNT(*) FROM apass_uploads") == [(0,)]
        assert await read_blob(other, model.digest) == model.data


async def test_servers_create_tables_together(url: str) -> None:
    stores = [SqlJobStore(url) for _ in range(6)]
    async with anyio.create_task_group() as group:
        for store in stores:
            group.start_soon(store.open)
    job = await stores[0].add(new_job(MODEL), MODEL)
    assert [await store.find(job.id) for store in stores] == [job] * 6
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE TABLE apass_blobs (id TEXT)",
            "has tables of another program, such as 'apass_blobs'; it was not changed",
        ),
        ("CREATE TABLE apass_schema AS SELECT 7 AS version", "has tables of the version 7, and this apass uses 2"),
        ("CREATE TABLE apass_schema (version INTEGER)", "has tables of the version none, and this apass uses 2"),
    ],
)
async def test_foreign_tables_are_not_changed(postgres: PostgresServer, url: str, statement: str, message: str) -> None:
    postgres.query(url, statement)
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    before = postgres.query(url, tables)
    with pytest.raises(JobsUnavailableError, match=message):
        await SqlJobStore(url).open()
    assert postgres.query(url, tables) == before


async def test_other_encoding_is_refused(postgres: PostgresServer) -> None:
    url = postgres.create("ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(JobsUnavailableError, match="has the encoding LATIN1, and the texts of jobs need UTF8"):
        await SqlJobStore(url).open()


async def test_other_tables_do_not_matter(postgres: PostgresServer, url: str) -> None:
    postgres.query(url, "CREATE TABLE jobs (id TEXT)")
    async with servers(url, 1) as (store,):
        await added(store, 1)


async def test_messages_contain_no_password(postgres: PostgresServer) -> None:
    urls = [
        postgres.url("missing"),
        "postgresql://tester:hidden@127.0.0.1:1/db",
        f"postgresql://tester:hidden@127.0.0.1:{postgres.port}/postgres",
        f"postgresql://127.0.0.1:{postgres.port}/postgres?user=tester&password=hidden",
        "postgresql://tester:hidden@/db?host=/missing/folder",
        "postgresql://tester:hidden@127.0.0.1:1/db?sslmode=hidden",
    ]
    for url in urls:
        store = SqlJobStore(url, timeout=2)
        with pytest.raises(JobsUnavailableError, match=r"the store 'postgresql://.* cannot be used: ") as caught:
            await store.open()
        texts = f"{caught.value} {store!r}"
        assert "hidden" not in texts
        assert "secret" not in texts


async def test_stopped_database_is_used_again(postgres: PostgresServer, url: str) -> None:
    async with servers(url, 1) as (store,):
        (job,) = await added(store, 1)
        await anyio.to_thread.run_sync(postgres.stop)
        try:
            for call in (store.add(new_job(MODEL), MODEL), store.find(job.id), store.count(), store.sync()):
                with pytest.raises(JobsUnavailableError, match="cannot be used: "):
                    await call
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        assert await store.find(job.id) == job
        assert await store.update([running(job)]) == [True]
        assert await store.sync() == NOTHING


@pytest.mark.slow
async def test_full_disk_of_database_is_reported(postgres: PostgresServer) -> None:
    with server_disk() as disk:
        await use_full_disk(postgres, disk)


@contextmanager
def server_disk() -> Generator[Path]:
    """Mount a small file system for the user of the server.

    That user cannot enter the folder of a test.
    """
    with TemporaryDirectory(prefix="apass-disk-") as parent:
        Path(parent).chmod(0o755)
        with tiny_disk(Path(parent, "disk"), 20_000) as disk:
            (disk / "filler").write_bytes(bytes(3_000_000))
            if USER is not None:
                shutil.chown(disk, USER)
            yield disk


async def use_full_disk(postgres: PostgresServer, disk: Path) -> None:
    postgres.query("postgres", f"CREATE TABLESPACE tiny LOCATION '{disk}'")
    url = postgres.create("TABLESPACE tiny")
    # Otherwise the server writes the new database when it needs memory, and the disk may be full then.
    postgres.query("postgres", "CHECKPOINT")
    jobs: list[JobRecord] = []
    async with servers(url, 1) as (store,):
        with pytest.raises(JobsUnavailableError, match="cannot be used: the disk is full") as caught:
            await add_until_error(store, jobs)
        assert caught.value.is_full
        rejected = jobs.pop()
        assert await states_of(store, [*jobs, rejected]) == [JobState.QUEUED] * len(jobs) + [None]
        assert len(jobs) > 3
        (disk / "filler").unlink()
        await store.add(rejected, disk_model(len(jobs)))
        assert await store.sync() == NOTHING
        for number, job in enumerate([*jobs, rejected]):
            assert await read_blob(store, job.model_digest) == disk_model(number).data
    postgres.query("postgres", f"DROP DATABASE {url.rpartition('/')[2]}")
    postgres.query("postgres", "DROP TABLESPACE tiny")


def disk_model(number: int) -> Blob:
    return Blob.of(Random(number).randbytes(500_000))


async def add_until_error(store: SqlJobStore, jobs: list[JobRecord]) -> None:
    """Add jobs; the last one is that of the error."""
    while True:
        model = disk_model(len(jobs))
        jobs.append(new_job(model))
        await store.add(jobs[-1], model)
