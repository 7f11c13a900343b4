"""Damaged SQLite files: a result is the right one or missing, never another."""

import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import pytest

from apass.errors import StoreError, StoreWarning
from apass.stores import SqliteStore

pytestmark = pytest.mark.anyio

VALUES = {f"f{number}": f"value {number} ".encode() * 20 for number in range(6)}


def read(path: Path) -> bytes:
    """Return the bytes of a file."""
    return path.read_bytes()


def write(path: Path, data: bytes) -> None:
    """Replace a file and SQLite's files beside it."""
    for remaining in path.parent.glob(f"{path.name}*"):
        remaining.unlink()
    path.write_bytes(data)


def names_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def store_bytes(path: Path) -> bytes:
    """Return the bytes of a store of VALUES."""
    async with SqliteStore(path) as store:
        for key, value in VALUES.items():
            await store.put(key, value)
    return read(path)


async def check_damaged_file(path: Path, data: bytes) -> None:
    """Check that a store with these bytes returns no other value, and can be used."""
    write(path, data)
    store = SqliteStore(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StoreWarning)
            for key, value in VALUES.items():
                assert await store.get(key) in (None, value)
            await store.put("new", b"value")
            assert await store.get("new") == b"value"
            await store.info()
            await store.clear()
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stride", "bits"),
    [(97, 255), pytest.param(41, 1, marks=pytest.mark.slow), pytest.param(43, 255, marks=pytest.mark.slow)],
)
async def test_changed_byte_never_returns_another_value(tmp_path: Path, stride: int, bits: int) -> None:
    data = await store_bytes(tmp_path / "whole.db")
    # The first 100 bytes are the header, and the last of the first page the schema.
    for position in {*range(0, len(data), stride), *range(0, 100, 7), *range(3900, 4096, 7)}:
        damaged = bytearray(data)
        damaged[position] ^= bits
        await check_damaged_file(tmp_path / "results.db", bytes(damaged))


async def test_truncated_file_never_returns_another_value(tmp_path: Path) -> None:
    data = await store_bytes(tmp_path / "whole.db")
    for size in range(0, len(data), 509):
        await check_damaged_file(tmp_path / "results.db", data[:size])


async def test_value_of_another_key_counts_as_missing(tmp_path: Path) -> None:
    await store_bytes(tmp_path / "results.db")
    with closing(sqlite3.connect(tmp_path / "results.db")) as other, other:
        other.execute("UPDATE results SET key = 'x' WHERE key = 'f0'")
        other.execute("UPDATE results SET key = 'f0' WHERE key = 'f1'")
    async with SqliteStore(tmp_path / "results.db") as store:
        with pytest.warns(StoreWarning, match=r"'f0' in the store .* is damaged; it is computed again"):
            assert await store.get("f0") is None
        assert await store.get("f0") is None  # without a warning: the row was deleted


async def test_damaged_schema_is_set_aside(tmp_path: Path) -> None:
    data = await store_bytes(tmp_path / "results.db")
    write(tmp_path / "results.db", data.replace(b"key TEXT", b"kex TEXT"))
    store = SqliteStore(tmp_path / "results.db")
    with pytest.warns(StoreWarning, match=r"results.db' is damaged \(the schema is damaged\); it was renamed to"):
        assert await store.get("f0") is None
    await store.put("f0", b"value")
    store.close()
    assert [name.partition("-")[0] for name in names_in(tmp_path)] == ["results.db", "results.db.damaged"]


async def test_damaged_database_of_another_program_is_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE notes (text TEXT)")
    data = read(path).replace(b"CREATE TABLE", b"CREATE XABLE")
    write(path, data)
    with pytest.raises(StoreError, match=r"other\.db' cannot be used: malformed database schema"):
        await SqliteStore(path).get("key")
    assert (names_in(tmp_path), read(path)) == (["other.db"], data)
