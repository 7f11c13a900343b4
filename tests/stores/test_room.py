"""What stores let go of, and when: what was not used longest, all of it when told, and the room on the disk."""

import sqlite3
from pathlib import Path
from time import time

import pytest

from apass.stores import MemoryStore, SqliteStore

pytestmark = pytest.mark.anyio


async def test_what_was_asked_for_stays_in_memory_longer() -> None:
    store = MemoryStore(limit=10)
    for key in ("a", "b"):
        await store.put(key, b"12345")
    assert await store.get("a") == b"12345"
    await store.put("c", b"12345")
    assert [await store.get(key) for key in "abc"] == [b"12345", None, b"12345"]


async def test_what_is_too_large_for_the_memory_drives_nothing_else_out() -> None:
    store = MemoryStore(limit=10)
    await store.put("a", b"12345")
    await store.put("b", b"x" * 11)
    assert [await store.get(key) for key in "ab"] == [b"12345", None]


def files_in(folder: Path) -> list[Path]:
    """Return the files."""
    return list(folder.iterdir())


async def filled(path: Path) -> None:
    """Put 20 results of 50 bytes in a file; they were used in the order of their keys, the first longest ago."""
    async with SqliteStore(path) as store:
        for index in range(20):
            await store.put(f"{index:02d}", bytes(50))
    with sqlite3.connect(path) as one:
        one.execute("UPDATE results SET used = 1000 + CAST(key AS INTEGER)")
    one.close()


async def test_the_first_result_of_a_process_makes_room_down_to_nine_tenths(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    await filled(path)
    async with SqliteStore(path, limit=500) as store:
        await store.put("new", bytes(50))
        assert (await store.info()).size == 450
        assert [await store.get(key) for key in ("11", "12", "19", "new")] == [None, *[bytes(50)] * 3]


async def test_a_result_that_is_used_again_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    await filled(path)
    async with SqliteStore(path, limit=500) as store:
        assert await store.get("00") == bytes(50)
        await store.put("new", bytes(50))
        assert [await store.get(key) for key in ("00", "12", "13")] == [bytes(50), None, bytes(50)]


async def test_a_use_soon_after_another_is_not_noted(tmp_path: Path) -> None:
    path, lately = tmp_path / "results.db", int(time()) - 600
    await filled(path)
    one = sqlite3.connect(path, isolation_level=None)
    one.execute("UPDATE results SET used = ?", (lately,))
    async with SqliteStore(path) as store:
        assert await store.get("00") == bytes(50)
    assert one.execute("SELECT DISTINCT used FROM results").fetchall() == [(lately,)]
    one.close()


async def test_clearing_gives_the_room_on_the_disk_back(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "results.db") as store:
        for index in range(10):
            await store.put(str(index), bytes(100_000))
        await store.clear()
        assert sum(one.stat().st_size for one in files_in(tmp_path)) < 100_000


async def test_a_file_that_is_closed_is_one_file(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "results.db") as store:
        await store.put("a", b"1")
    assert [one.name for one in files_in(tmp_path)] == ["results.db"]
