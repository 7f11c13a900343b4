"""Stores: the common behavior, and the errors of each store."""

import gc
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from coredis import Redis

from apass.core.store import Store
from apass.errors import StoreError, StoreWarning
from apass.stores import MemoryStore, SqliteStore
from apass.stores.redis import RedisStore
from tests.helpers.redis_server import needs_redis, running_redis

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """Run a Redis server on a free port."""
    with running_redis() as server:
        yield server.url


@asynccontextmanager
async def store_of(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncGenerator[Store]:
    """Open an empty store."""
    if kind == "memory":
        yield MemoryStore()
    elif kind == "sqlite":
        store = SqliteStore(tmp_path / "very" / "deep" / "results.db")
        yield store
        store.close()
    else:
        async with RedisStore(request.getfixturevalue("redis_url"), timeout=60) as opened:
            await opened.clear()
            yield opened


@pytest.mark.network
@pytest.mark.process
@pytest.mark.parametrize("kind", ["memory", "sqlite", pytest.param("redis", marks=needs_redis)])
async def test_store_returns_stored_values(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with store_of(kind, tmp_path, request) as store:
        assert isinstance(store, Store)
        large = bytes(range(256)) * 4096
        assert await store.get("a/b") is None
        await store.put("a/b", b"\x00\xff")
        await store.put("large", large)
        await store.put("a/b", b"new")
        assert (await store.get("a/b"), await store.get("large")) == (b"new", large)
        info = await store.info()
        assert (info.entries, info.size) == (2, 3 + len(large))
        await store.clear()
        info = await store.info()
        assert (await store.get("a/b"), info.entries, info.size) == (None, 0, 0)


@pytest.mark.network
@pytest.mark.parametrize("kind", ["memory", "sqlite", pytest.param("redis", marks=needs_redis)])
async def test_concurrent_tasks_may_share_a_store(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    async with store_of(kind, tmp_path, request) as store:

        async def use(index: int) -> None:
            await store.put(f"key{index % 5}", str(index % 5).encode())
            assert await store.get(f"key{index % 5}") == str(index % 5).encode()

        async with anyio.create_task_group() as group:
            for index in range(50):
                group.start_soon(use, index)
        assert (await store.info()).entries == 5


async def test_least_recently_used_results_are_evicted(tmp_path: Path) -> None:
    memory = MemoryStore(limit=10)
    for key in ("a", "b", "a", "c"):
        await memory.put(key, b"12345")
    assert [await memory.get(key) for key in "abc"] == [b"12345", None, b"12345"]
    await memory.put("a", b"x" * 11)
    assert await memory.get("a") is None
    sqlite = SqliteStore(tmp_path / "results.db", limit=1000)
    for index in range(100):
        await sqlite.put(f"{index:03d}", bytes(50))
    info = await sqlite.info()
    assert info.size <= 1000 + 1000 // 16 + 50
    assert await sqlite.get("099") == bytes(50)
    sqlite.close()


def test_limit_must_be_positive() -> None:
    with pytest.raises(ValueError, match="limit must be a positive number of bytes, got 0"):
        MemoryStore(limit=0)
    with pytest.raises(ValueError, match="limit must be a positive number of bytes, got 0"):
        SqliteStore("x", limit=0)


def _damaged(folder: Path) -> list[Path]:
    """Return the renamed damaged files."""
    return [path for path in folder.iterdir() if ".damaged-" in path.name]


@pytest.mark.parametrize("damage", [b"this is no database", b"\x00" * 5000])
async def test_damaged_file_is_renamed_with_a_warning(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "results.db"
    path.write_bytes(damage)
    store = SqliteStore(path)
    with pytest.warns(StoreWarning, match=r"results\.db' is damaged .*; it was renamed to"):
        assert await store.get("a") is None
    await store.put("a", b"1")
    assert await store.get("a") == b"1"
    assert [path.read_bytes() for path in _damaged(tmp_path)] == [damage]
    store.close()


async def test_file_damaged_after_creation_is_renamed(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    store = SqliteStore(path)
    for index in range(200):
        await store.put(str(index), bytes(1000))
    store.close()
    data = bytearray(path.read_bytes())
    data[2048:] = b"\xaa" * (len(data) - 2048)
    path.write_bytes(data)

    async def fill() -> None:
        for index in range(200):
            await store.put(str(index), bytes(1000))

    with pytest.warns(StoreWarning):
        await fill()
    assert (await store.info()).entries > 0
    store.close()


async def test_damaged_result_counts_as_missing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put("a", b"right")
    with sqlite3.connect(tmp_path / "results.db") as other:
        other.execute("UPDATE results SET value = ?", (b"wrong",))
    other.close()
    with pytest.warns(StoreWarning, match="the value of 'a' in the store .* is damaged"):
        assert await store.get("a") is None
    assert (await store.info()).entries == 0
    store.close()


async def test_unwritable_path_raises_store_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be created: "):
        await SqliteStore(tmp_path / "file" / "results.db").get("a")
    with pytest.raises(StoreError, match="cannot be used: unable to open"):
        await SqliteStore(tmp_path).get("a")


_WRITER = """
import anyio, sys
from apass.stores import SqliteStore
async def main():
    store = SqliteStore(sys.argv[1])
    print("ready", flush=True)
    for index in range(10**6):
        await store.put(f"{sys.argv[2]}/{index}", f"{index}".encode() * 200)
        print(index, flush=True)
anyio.run(main)
"""


@pytest.mark.process
def test_results_survive_killed_writers(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    last_written: dict[str, int] = {}
    for round_ in range(2):
        writers = {
            name: subprocess.Popen([sys.executable, "-c", _WRITER, path, name], stdout=subprocess.PIPE, text=True)
            for name in (f"x{round_}", f"y{round_}")
        }
        for name, writer in writers.items():
            assert writer.stdout is not None
            for line in writer.stdout:
                if line.strip() == str(20 + 7 * round_):
                    break
            writer.send_signal(signal.SIGKILL)
            rest = [line for line in writer.stdout if line.endswith("\n")]
            last_written[name] = int(rest[-1]) if rest else 20 + 7 * round_
            writer.stdout.close()
            writer.wait()

    async def check() -> None:
        store = SqliteStore(path)
        for name, last in last_written.items():
            for index in range(last + 1):
                assert await store.get(f"{name}/{index}") == f"{index}".encode() * 200
        store.close()

    anyio.run(check)


@pytest.mark.network
@needs_redis
async def test_redis_store_must_be_open_and_expires_results(redis_url: str) -> None:
    store = RedisStore(redis_url, expire=3600, timeout=60)
    with pytest.raises(StoreError, match="not open; use it within `async with RedisStore"):
        await store.get("a")
    async with store:
        await store.put("a", b"1")
        assert await store.get("a") == b"1"
    with pytest.raises(StoreError, match="not open; use it within `async with RedisStore"):
        await store.get("a")
    async with RedisStore(redis_url, prefix="other:", timeout=60) as other:
        assert await other.get("a") is None
    async with Redis.from_url(redis_url) as client:
        seconds = await client.ttl("apass:a")
    assert 0 < seconds <= 3600


@pytest.mark.network
@needs_redis
async def test_redis_prefixes_are_independent(redis_url: str) -> None:
    first, other = (
        RedisStore(redis_url, prefix="first:", timeout=60),
        RedisStore(redis_url, prefix="other:", timeout=60),
    )
    async with first, other:
        await first.put("a", b"1")
        await other.put("a", b"23")
        await other.put("b", b"45")
        assert [((await store.info()).entries, (await store.info()).size) for store in (first, other)] == [
            (1, 1),
            (2, 4),
        ]
        await first.clear()
        assert (await first.get("a"), await other.get("a")) == (None, b"23")
        await other.clear()


@pytest.mark.network
async def test_missing_redis_server_raises_store_error() -> None:
    with warnings.catch_warnings():
        # coredis does not close the streams of failed connections.
        warnings.simplefilter("ignore", ResourceWarning)
        # The surrounding cancel scope must not be corrupted.
        with anyio.CancelScope(), pytest.raises(StoreError, match=r"'redis://127\.0\.0\.1:9/0' failed: "):
            await RedisStore("redis://127.0.0.1:9/0").__aenter__()
        gc.collect()


@pytest.mark.network
async def test_silent_redis_server_raises_store_error() -> None:
    with warnings.catch_warnings(), socket.socket() as silent:
        warnings.simplefilter("ignore", ResourceWarning)
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        with anyio.fail_after(60), pytest.raises(StoreError, match=r"TimeoutError: no reply within 0\.1 s"):
            await RedisStore(url, timeout=0.1).__aenter__()
        gc.collect()


def test_file_renamed_by_another_process_is_not_renamed(tmp_path: Path) -> None:
    path, store = tmp_path / "results.db", SqliteStore(tmp_path / "results.db")
    attempts: list[sqlite3.Connection] = []

    def work(connection: sqlite3.Connection) -> int:
        attempts.append(connection)
        if len(attempts) == 1:
            path.rename(tmp_path / "renamed")
            sqlite3.connect(path).close()
            path.write_bytes(b"")
            error = sqlite3.DatabaseError("malformed")
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
        return len(attempts)

    assert store._run(store._writer, work) == 2  # pyright: ignore[reportPrivateUsage]
    assert _damaged(tmp_path) == []
    store.close()


@pytest.mark.network
@needs_redis
async def test_hanging_redis_server_raises_store_error(redis_url: str) -> None:
    async with RedisStore(redis_url, timeout=60) as store:
        await store.put("a", b"1")
        pid = await _pid_of(redis_url)
        os.kill(pid, signal.SIGSTOP)
        try:
            store._timeout = 0.2  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(StoreError, match=r"TimeoutError: no reply within 0\.2 s"):
                await store.get("a")
            with pytest.raises(StoreError, match=r"TimeoutError: no reply within 0\.2 s"):
                await store.put("a", b"3")
        finally:
            os.kill(pid, signal.SIGCONT)
        store._timeout = 60.0  # pyright: ignore[reportPrivateUsage]
        await store.put("b", b"2")
        assert await store.get("b") == b"2"


async def _pid_of(url: str) -> int:
    async with Redis.from_url(url, decode_responses=True) as client:
        return int(str((await client.info("server"))["process_id"]))
