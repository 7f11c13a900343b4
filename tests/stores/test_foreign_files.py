"""Databases of other programs: SqliteStore raises and does not change them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from apass.errors import StoreError
from apass.stores import SqliteStore

pytestmark = pytest.mark.anyio


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    "schema", ["CREATE TABLE notes (text TEXT)", "CREATE TABLE results (points INTEGER)"], ids=["other", "same name"]
)
async def test_foreign_database_is_rejected_unchanged(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(schema)
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.__aenter__, store.info, store.clear, lambda: store.put("key", b"value")):
        with pytest.raises(StoreError, match="is a database with another schema and was not changed"):
            await use()
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["other.db"]


async def test_empty_file_or_database_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "database")) as database:
        database.execute("VACUUM")
    for name in ("empty", "database"):
        async with SqliteStore(tmp_path / name) as store:
            await store.put("key", b"value")
        async with SqliteStore(tmp_path / name) as store:
            assert await store.get("key") == b"value"
