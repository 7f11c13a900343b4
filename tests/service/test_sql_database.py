"""Jobs in a PostgreSQL database, and its faults."""

import shutil
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import anyio
import pytest

from apass.errors import StoreWarning
from apass.service import JobsUnavailableError, SqlJobStore
from apass.service.job_store import Blob, read_blob
from apass.service.jobs import JobRecord
from apass.service.sql_blobs import LARGE
from tests.helpers.amounts import amount, some
from tests.helpers.full_disk import tiny_disk
from tests.service.postgres import USER, PostgresServer, needs_postgres
from tests.service.stored_jobs import MODEL, done, new_job, opened, running, use_full_disk

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, needs_postgres]

TABLES = ("jobs", "blobs", "chunks", "uses", "uploads", "events")


async def added(store: SqlJobStore, count: int) -> list[JobRecord]:
    return [await store.add(new_job(MODEL), MODEL) for _ in range(count)]


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

    async with opened(lambda: SqlJobStore(url)) as store:
        async with anyio.create_task_group() as group:
            for name in "abcdefgh":
                group.start_soon(use, store, name)
            group.start_soon(expire, store)
        await store.expire(None, None)
    assert [postgres.query(url, f"SELECT COUNT(*) FROM apass_{table}") for table in TABLES] == [[(0,)]] * len(TABLES)


async def test_interrupted_upload_is_removed(postgres: PostgresServer, url: str) -> None:
    async with opened(lambda: SqlJobStore(url)):
        # A server that was lost in the middle of an upload.
        postgres.query(url, "INSERT INTO apass_uploads VALUES ('body')")
        postgres.query(url, "INSERT INTO apass_chunks SELECT 'body', n, 'data' FROM generate_series(1, 40) AS n")
    model = Blob.of(Random(1).randbytes(LARGE + 1))
    async with opened(lambda: SqlJobStore(url)) as store:
        await store.add(new_job(model), model)
        await store.expire(None, None)
        assert postgres.query(url, "SELECT COUNT(*) FROM apass_chunks") == [(5,)]
        assert postgres.query(url, "SELECT COUNT(*) FROM apass_uploads") == [(0,)]
        assert await read_blob(store, model.digest) == model.data


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "CREATE TABLE apass_blobs (id TEXT)",
            "has tables of another program, such as 'apass_blobs'; it was not changed",
        ),
        ("CREATE TABLE apass_schema AS SELECT 7 AS version", "has tables of the version 7, and this apass uses 3"),
        ("CREATE TABLE apass_schema (version INTEGER)", "has tables of the version none, and this apass uses 3"),
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
    async with opened(lambda: SqlJobStore(url)) as store:
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
    async with opened(lambda: SqlJobStore(url)) as store:
        (job,) = await added(store, 1)
        await anyio.to_thread.run_sync(postgres.stop)
        try:
            for call in (store.add(new_job(MODEL), MODEL), store.find(job.id), store.count()):
                with pytest.raises(JobsUnavailableError, match="cannot be used: "):
                    await call
        finally:
            await anyio.to_thread.run_sync(postgres.start)
        assert await store.find(job.id) == job
        assert await store.update([running(job)]) == [True]


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


@pytest.mark.slow
async def test_full_disk_of_database_is_reported(postgres: PostgresServer) -> None:
    with server_disk() as disk:
        postgres.query("postgres", f"CREATE TABLESPACE tiny LOCATION '{disk}'")
        url = postgres.create("TABLESPACE tiny")
        # Otherwise the server writes the new database when it needs memory, and the disk may be full then.
        postgres.query("postgres", "CHECKPOINT")
        async with opened(lambda: SqlJobStore(url)) as store:
            await use_full_disk(store, disk / "filler", 500_000)
        postgres.query("postgres", f"DROP DATABASE {url.rpartition('/')[2]}")
        postgres.query("postgres", "DROP TABLESPACE tiny")
