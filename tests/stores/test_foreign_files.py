"""Databases of other programs, named by mistake: told, and left as they are."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from apass.errors import StoreError
from apass.stores import SqliteStore

pytestmark = pytest.mark.anyio


def names_in(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir()]


@pytest.mark.parametrize(
    "schema", ["CREATE TABLE notes (text TEXT)", "CREATE TABLE results (points INTEGER)"], ids=["other", "same name"]
)
async def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(schema)
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.__aenter__, store.info, store.clear, lambda: store.put("key", b"value")):
        with pytest.raises(StoreError, match="is a database of something else, and is left as it is"):
            await use()
    assert path.read_bytes() == before
    assert names_in(tmp_path) == ["other.db"]


async def test_an_empty_file_and_an_empty_database_are_begun(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "database")) as made:
        made.execute("VACUUM")
    for name in ("empty", "database"):
        async with SqliteStore(tmp_path / name) as store:
            await store.put("key", b"value")
        async with SqliteStore(tmp_path / name) as store:
            assert await store.get("key") == b"value"
