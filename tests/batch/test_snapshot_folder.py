"""Folders with the latest module of each pipeline."""

import json
import os
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.batch.snapshot_folder import LARGEST, LATEST, SnapshotFolder, chunks_of, snapshot_key
from tests.helpers.folders import files

KEY = snapshot_key("m", "pipeline")


@given(st.binary(max_size=2000), st.integers(0, 5))
def test_chunks_are_the_data(data: bytes, copies: int) -> None:
    whole = data * 10**copies
    chunks = list(chunks_of(whole))
    assert b"".join(chunks) == whole
    assert max(map(len, chunks), default=0) <= LARGEST


def test_insertion_changes_few_chunks() -> None:
    data = Random(0).randbytes(4_000_000)
    before, after = set(chunks_of(data)), set(chunks_of(data[:1000] + b"inserted" + data[1000:]))
    assert len(before) > 40
    assert len(after - before) <= 2


def test_snapshot_is_read_again(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.write(KEY, ("0:a",), {"f": 1})
    found = folder.read(KEY)
    assert found is not None
    assert (found[0].positions, found[1]) == (("0:a",), {"f": 1})


def test_only_latest_module_is_kept(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    for number in range(3):
        folder.write(KEY, (f"{number}:a",), {"f": number})
    assert len(files(tmp_path)) == 2
    found = folder.read(KEY)
    assert found is not None
    assert (found[0].positions, found[1]) == (("2:a",), {"f": 2})
    folder.remove(KEY)
    assert not tmp_path.exists()


def test_other_version_of_module_is_replaced(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    other, foreign = snapshot_key("m", "other"), snapshot_key("n", "pipeline")
    for key in (KEY, foreign, other):
        folder.write(key, ("0:a",), {"f": 1})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other, foreign])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": 2}',
        '{"format": 1, "positions": "a", "module_type": "builtins:dict", "facts": null, "chunks": []}',
        '{"format": 1, "positions": [], "module_type": "builtins:dict", "facts": null, "chunks": ["../../etc/passwd"]}',
        '{"format": 1, "positions": [], "module_type": "os:nothing", "facts": null, "chunks": []}',
    ],
)
def test_foreign_file_is_no_snapshot(tmp_path: Path, text: str) -> None:
    (tmp_path / KEY).mkdir()
    (tmp_path / KEY / LATEST).write_text(text)
    assert SnapshotFolder(tmp_path).read(KEY) is None


def test_damaged_chunk_is_no_snapshot(tmp_path: Path) -> None:
    folder = SnapshotFolder(tmp_path)
    folder.write(KEY, ("0:a",), {"f": 1})
    [chunk] = [path for path in (tmp_path / KEY).iterdir() if path.name != LATEST]
    assert chunk.name == sha256(chunk.read_bytes()).hexdigest()
    chunk.write_bytes(b'{"f": 2}')
    assert folder.read(KEY) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")
def test_devices_of_a_stranger_are_not_read(tmp_path: Path) -> None:
    names = ["/dev/zero", "0" * 64]
    for name in names:
        key = snapshot_key("m", name)
        (tmp_path / key).mkdir()
        (tmp_path / key / LATEST).write_text(
            json.dumps({"format": 1, "positions": [], "module_type": "builtins:dict", "facts": None, "chunks": [name]})
        )
        os.mkfifo(tmp_path / key / ("0" * 64))
        assert SnapshotFolder(tmp_path).read(key) is None
