"""Journal files: records survive damage at the end; other files are not changed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.batch.journal_file import JournalFile
from apass.errors import JournalError, JournalWarning

RECORDS = [({"name": str(size)}, bytes(size)) for size in (0, 1, 5, 3000)]


def contents(path: Path) -> list[tuple[object, bytes | None]]:
    """Return the records of a file."""
    file = JournalFile(path)
    try:
        return [(entry.head, file.read(entry)) for entry in file]
    finally:
        file.close()


def write_records(path: Path) -> list[int]:
    """Make a file of RECORDS; return its size after each."""
    file = JournalFile(path)
    assert list(file) == []
    sizes = [path.stat().st_size]
    for head, data in RECORDS:
        file.append(head, data)
        sizes.append(path.stat().st_size)
    file.close()
    return sizes


@pytest.mark.parametrize("fsync", [False, True])
def test_records_are_read_in_order(tmp_path: Path, fsync: bool) -> None:
    path = tmp_path / "new" / "run.journal"
    for count in range(3):
        file = JournalFile(path, fsync=fsync)
        assert [(entry.head, file.read(entry)) for entry in file] == RECORDS * count
        added = [file.append(head, data) for head, data in RECORDS]
        assert [file.read(entry) for entry in added] == [data for _, data in RECORDS]
        file.close()
    assert contents(path) == RECORDS * 3


def test_truncated_file_keeps_complete_records(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    sizes = write_records(path)
    whole = path.read_bytes()
    places = {*range(sizes[3] + 100), *range(sizes[3] + 100, len(whole), 171), len(whole)}
    for at in sorted(places):
        path.write_bytes(whole[:at])
        count = max(0, sum(size <= at for size in sizes) - 1)
        if at in {0, *sizes} or at < sizes[0]:
            assert contents(path) == RECORDS[:count]
        else:
            with pytest.warns(JournalWarning, match=rf"damaged from byte {sizes[count]} on"):
                assert contents(path) == RECORDS[:count]
        file = JournalFile(path)
        assert len(list(file)) == count
        file.append({"name": "more"}, b"more")
        file.close()
        assert contents(path) == [*RECORDS[:count], ({"name": "more"}, b"more")]


@given(data=st.data())
def test_changed_bytes_are_detected(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "flipped.journal"
    path.unlink(missing_ok=True)
    sizes = write_records(path)
    whole = bytearray(path.read_bytes())
    at = data.draw(st.integers(sizes[0], len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    with pytest.warns(JournalWarning):
        found = contents(path)
    hit = sum(size <= at for size in sizes) - 1
    assert found[:hit] == RECORDS[:hit]
    assert all(kept in ([record, (record[0], None)]) for kept, record in zip(found, RECORDS, strict=False))


def test_foreign_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x01" * 30)
    with pytest.raises(JournalError, match=r"model.onnx' is not a journal and was not changed; use another path"):
        JournalFile(path)
    assert path.read_bytes() == b"\x08\x01" * 30


def test_journal_cannot_be_opened_twice(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    first = JournalFile(path)
    with pytest.raises(JournalError, match="is in use by another run"):
        JournalFile(path)
    first.close()
    JournalFile(path).close()


def test_unwritable_path_error_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match=r"cannot be used: Is a directory"):
        JournalFile(tmp_path)


def test_failed_write_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.journal"
    file = JournalFile(path, fsync=True)
    file.append(*RECORDS[2])

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fail)
        with pytest.raises(JournalError, match=r"cannot write to the journal .*: No space left on device"):
            file.append(*RECORDS[3])
    file.append(*RECORDS[1])
    file.close()
    assert contents(path) == [RECORDS[2], RECORDS[1]]
