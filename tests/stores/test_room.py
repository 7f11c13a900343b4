"""Eviction and clearing: which results stores remove, and the disk space."""

import sqlite3
from pathlib import Path
from time import time

import pytest

from apass.stores import MemoryStore, SqliteStore

pytestmark = pytest.mark.anyio


async def test_memory_store_keeps_recently_used_results() -> None:
    store = MemoryStore(limit=10)
    for key in ("a", "b"):
        await store.put(key, b"12345")
    assert await store.get("a") == b"12345"
    await store.put("c", b"12345")
    assert [await store.get(key) for key in "abc"] == [b"12345", None, b"12345"]


async def test_memory_store_ignores_results_above_the_limit() -> None:
    store = MemoryStore(limit=10)
    await store.put("a", b"12345")
    await store.put("b", b"x" * 11)
    assert [await store.get(key) for key in "ab"] == [b"12345", None]


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder."""
    return list(folder.iterdir())


async def fill_store(path: Path) -> None:
    """Create a store of 20 results of 50 bytes, least recently used first."""
    async with SqliteStore(path) as store:
        for index in range(20):
            await store.put(f"{index:02d}", bytes(50))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE results SET used = 1000 + CAST(key AS INTEGER)")
    connection.close()


async def test_first_put_evicts_to_nine_tenths(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    await fill_store(path)
    async with SqliteStore(path, limit=500) as store:
        await store.put("new", bytes(50))
        assert (await store.info()).size == 450
        assert [await store.get(key) for key in ("11", "12", "19", "new")] == [None, *[bytes(50)] * 3]


async def test_sqlite_store_keeps_recently_used_results(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    await fill_store(path)
    async with SqliteStore(path, limit=500) as store:
        assert await store.get("00") == bytes(50)
        await store.put("new", bytes(50))
        assert [await store.get(key) for key in ("00", "12", "13")] == [bytes(50), None, bytes(50)]


async def test_use_is_recorded_at_most_hourly(tmp_path: Path) -> None:
    path, recently = tmp_path / "results.db", int(time()) - 600
    await fill_store(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE results SET used = ?", (recently,))
    async with SqliteStore(path) as store:
        assert await store.get("00") == bytes(50)
    assert connection.execute("SELECT DISTINCT used FROM results").fetchall() == [(recently,)]
    connection.close()


async def test_clear_releases_disk_space(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "results.db") as store:
        for index in range(10):
            await store.put(str(index), bytes(100_000))
        await store.clear()
        assert sum(path.stat().st_size for path in files_in(tmp_path)) < 100_000


async def test_closed_store_is_a_single_file(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "results.db") as store:
        await store.put("a", b"1")
    assert [path.name for path in files_in(tmp_path)] == ["results.db"]
