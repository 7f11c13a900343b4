"""SQLite files used by several processes, or damaged during use."""

import gc
import os
import sqlite3
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import anyio
import anyio.from_thread
import pytest

from apass.core.store import seal
from apass.errors import StoreWarning
from apass.stores import SqliteStore, sqlite

pytestmark = pytest.mark.anyio


def damaged_in(folder: Path) -> list[Path]:
    """Return the renamed damaged files."""
    return [path for path in folder.iterdir() if ".damaged-" in path.name]


async def test_readers_do_not_wait_for_writers(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    async with SqliteStore(path) as store:
        await store.put("a", b"1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        # Otherwise it would wait 30 s, and then raise.
        assert await store.get("a") == b"1"
        other.execute("ROLLBACK")
        other.close()


async def test_forked_process_opens_its_own_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inherited: list[sqlite3.Connection] = []
    monkeypatch.setattr(sqlite, "_INHERITED", inherited)
    store = SqliteStore(tmp_path / "results.db")
    await store.put("a", b"1")
    assert await store.get("a") == b"1"
    reader: Any = store._reader  # pyright: ignore[reportPrivateUsage]
    parent_connection = reader._open
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not reader.is_open()
    store.close()
    assert parent_connection.execute("SELECT COUNT(*) FROM results").fetchone() == (1,)
    reader._open = parent_connection
    assert await store.get("a") == b"1"
    assert reader._open is not parent_connection
    store.close()
    for connection in inherited:
        connection.close()


class Connection(sqlite3.Connection):
    """A connection to which weak references are possible."""


@pytest.mark.parametrize("use", ["close", "put"])
async def test_forked_process_keeps_inherited_connections_open(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked child must not close them, and garbage collection would close them too."""
    inherited: list[sqlite3.Connection] = []
    monkeypatch.setattr(sqlite, "_INHERITED", inherited)
    store = SqliteStore(tmp_path / "results.db")
    writer: Any = store._writer  # pyright: ignore[reportPrivateUsage]
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Connection))
        await store.put("a", b"1")
    of_parent = ref(writer._open)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        if use == "put":
            await store.put("b", b"2")
        store.close()
    gc.collect()
    connection = of_parent()
    assert connection is not None
    assert connection.execute("SELECT value FROM results WHERE key = 'a'").fetchone() == (seal("a", b"1"),)
    connection.close()
    store.close()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CORRUPT_INDEX, sqlite3.SQLITE_NOTADB])
async def test_damaged_file_is_replaced_during_use(tmp_path: Path, code: int) -> None:
    path = tmp_path / "results.db"
    store = SqliteStore(path)
    await store.put("old", b"0")
    attempts: list[int] = []

    def put(connection: sqlite3.Connection) -> None:
        attempts.append(1)
        if len(attempts) == 1:
            error = sqlite3.DatabaseError("malformed")
            error.sqlite_errorcode = code
            raise error
        store._insert([("a", 1, 0, seal("a", b"1"))], connection)  # pyright: ignore[reportPrivateUsage]

    with pytest.warns(StoreWarning, match="is damaged"):
        store._run(store._writer, put)  # pyright: ignore[reportPrivateUsage]
    store.close()
    assert len(damaged_in(tmp_path)) == 1
    async with SqliteStore(path) as another:
        assert [await another.get(key) for key in ("old", "a")] == [None, b"1"]


async def test_concurrent_puts_share_a_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, batches = SqliteStore(tmp_path / "results.db"), list[int]()
    insert = store._insert  # pyright: ignore[reportPrivateUsage]

    def record(rows: Sequence[tuple[str, int, int, bytes]], connection: sqlite3.Connection) -> None:
        batches.append(len(rows))
        # The other results arrive meanwhile.
        anyio.from_thread.run(anyio.wait_all_tasks_blocked)
        insert(rows, connection)

    monkeypatch.setattr(store, "_insert", record)
    async with store:
        async with anyio.create_task_group() as group:
            for index in range(50):
                group.start_soon(store.put, f"key {index}", b"%d" % index)
        assert sum(batches) == 50
        assert len(batches) <= 3
        assert [await store.get(f"key {index}") for index in range(50)] == [b"%d" % index for index in range(50)]


async def test_failed_transaction_stores_nothing(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "results.db") as store:
        await store.put("old", b"0")
        connection: Any = store._writer._open  # pyright: ignore[reportPrivateUsage]
        wrong: Any = [("a", 1, 0, seal("a", b"1")), ("b", 1, 0, object())]
        with pytest.raises(sqlite3.Error):
            store._insert(wrong, connection)  # pyright: ignore[reportPrivateUsage]
        await store.put("c", b"2")
        assert [await store.get(key) for key in ("old", "a", "c")] == [b"0", None, b"2"]
