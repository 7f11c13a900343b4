"""SQLite files that other processes use too, or that turn out to be damaged in the middle of the work."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from apass.errors import StoreWarning
from apass.stores import SqliteStore

pytestmark = pytest.mark.anyio


def damaged_in(folder: Path) -> list[Path]:
    """Return the files that were set aside."""
    return [one for one in folder.iterdir() if ".damaged-" in one.name]


async def test_readers_do_not_wait_for_who_writes(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    async with SqliteStore(path) as store:
        await store.put("a", b"1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        # It would wait for half a minute, and then there is an error.
        assert await store.get("a") == b"1"
        other.execute("ROLLBACK")
        other.close()


async def test_a_process_that_was_forked_off_has_connections_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "results.db")
    await store.put("a", b"1")
    assert await store.get("a") == b"1"
    reader: Any = store._reader  # pyright: ignore[reportPrivateUsage]
    of_parent = reader._open
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not reader.is_open()
    store.close()
    assert of_parent.execute("SELECT COUNT(*) FROM results").fetchone() == (1,)
    reader._open = of_parent
    assert await store.get("a") == b"1"
    assert reader._open is not of_parent
    of_parent.close()
    store.close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.SQLITE_NOTADB])
async def test_the_work_goes_on_in_a_new_file_where_one_turns_out_to_be_damaged(tmp_path: Path, code: int) -> None:
    path = tmp_path / "results.db"
    store = SqliteStore(path)
    await store.put("old", b"0")
    tries: list[int] = []

    def put(connection: sqlite3.Connection) -> None:
        tries.append(1)
        if len(tries) == 1:
            error = sqlite3.DatabaseError("malformed")
            error.sqlite_errorcode = code
            raise error
        store._put("a", b"1", connection)  # pyright: ignore[reportPrivateUsage]

    with pytest.warns(StoreWarning, match="is damaged"):
        store._in_peace(store._writer, put)  # pyright: ignore[reportPrivateUsage]
    store.close()
    assert len(damaged_in(tmp_path)) == 1
    async with SqliteStore(path) as another:
        assert [await another.get(key) for key in ("old", "a")] == [None, b"1"]
