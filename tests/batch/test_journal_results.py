"""The identity of runs and results in a journal, and partial reads and writes."""

import errno
import os
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

import apass
import apass.batch.journal
from apass import PassContext, Sequential, module_pass, optimize_all, optimize_stream, relay
from apass.adapters.mapping import DictAdapter
from apass.batch import Journal
from apass.batch import journal_file as files
from apass.batch.journal import OpenJournal
from apass.batch.journal_file import JournalFile
from apass.errors import JournalError, JournalWarning
from apass.plugins import Caching
from apass.relay import transform
from tests.helpers.full_disk import file_size_limit

Module = dict[str, Any]


@module_pass(opt_level=0, version="7")
def Versioned(mod: Module, ctx: PassContext) -> Module:
    """Leave it as it is."""
    return mod


async def refusal(path: Path, pass_: apass.Pass[Any], **options: Any) -> str:
    """Return in what a run differs from that of a journal."""
    async with PassContext(**options):
        with pytest.raises(JournalError) as caught:
            await optimize_all([{"f": 7}], pass_, journal=path)
    return str(caught.value).partition("belongs to another run: ")[2].partition("; use the pipeline")[0]


@pytest.mark.anyio
async def test_run_description_distinguishes_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [apass.register_config_option(f"journal.Kept.{name}", int, default=1).key for name in ("one", "two")]
    path, pipeline = tmp_path / "run.journal", Sequential([Versioned])
    async with PassContext(config={keys[0]: 7, keys[1]: 8}):
        await optimize_all([{"f": 7}], pipeline, journal=path)
    same = {keys[0]: 7, keys[1]: 8}
    assert await refusal(path, pipeline, config={keys[0]: 7, keys[1]: 9}) == f"other values of config {keys[1]}"
    assert await refusal(path, pipeline, config={keys[0]: 7}) == f"other values of config {keys[1]}"
    required = await refusal(path, pipeline, config=same, required_pass=["PrintIR"])
    assert required == "required passes none, not ['PrintIR']"
    monkeypatch.setattr(Versioned, "caching", Caching(version="8"))
    told = await refusal(path, pipeline, config=same)
    assert told == "versions of passes {'Versioned': '7'}, not {'Versioned': '8'}"
    monkeypatch.undo()
    monkeypatch.setattr(apass.batch.journal, "own_version", lambda: "0.0")
    assert (await refusal(path, pipeline, config=same)).endswith(", not '0.0'")


def test_missing_values_are_listed_as_differences(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.journal")
    OpenJournal(journal, {"both": (1, 2), "old": 1}).close()
    # As JSON has it, a tuple is a list.
    OpenJournal(journal, {"both": (1, 2), "old": 1}).close()
    with pytest.raises(JournalError, match=r"another run: old 1, not none; new none, not 2; use"):
        OpenJournal(journal, {"both": (1, 2), "new": 2})
    # The one that was refused has let go of the file.
    OpenJournal(journal, {"both": [1, 2], "old": 1}).close()


@pytest.mark.anyio
async def test_stored_result_has_inferred_types(tmp_path: Path) -> None:
    mod = relay.parse("def @main(%x: float32) { add(%x, %x) }")
    for _ in range(2):
        made = await optimize_all([mod], transform.InferType(), journal=tmp_path / "run.journal")
        assert made[0]["main"].checked_type_ is not None


class Gone(dict[str, int]):
    """A type of modules that will not be there any more."""


class GoneAdapter(DictAdapter):
    """An adapter of its own."""

    def loads(self, data: bytes) -> Gone:
        """Read a module of that type."""
        return Gone(super().loads(data))


apass.register_adapter(Gone, GoneAdapter())


@pytest.mark.anyio
async def test_result_of_a_missing_type_is_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, calls = Gone, list[str]()

    @module_pass(opt_level=0)
    def Make(mod: Any, ctx: PassContext) -> Any:
        calls.append("made")
        return kind(mod)

    for _ in range(2):
        assert type((await optimize_all([{"f": 1}], Make, journal=tmp_path / "run.journal"))[0]) is kind
    monkeypatch.delattr("tests.batch.test_journal_results.Gone")
    assert type((await optimize_all([{"f": 1}], Make, journal=tmp_path / "run.journal"))[0]) is kind
    assert len(calls) == 2


def contents(path: Path) -> list[bytes | None]:
    """Return the data of all records of a file."""
    file = JournalFile(path)
    try:
        return [file.read(entry) for entry in file]
    finally:
        file.close()


def test_records_follow_a_truncated_end(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    file = JournalFile(path)
    file.append({}, b"one")
    file.append({}, b"two")
    file.close()
    path.write_bytes(path.read_bytes()[:-1])
    file = JournalFile(path)
    with pytest.warns(JournalWarning, match="is damaged from byte"):
        assert len(list(file)) == 1
    file.append({}, b"three")
    file.close()
    assert contents(path) == [b"one", b"three"]


class Trickle:
    """A file that reads and writes a few bytes at a time, as a system may."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def read(self, size: int) -> bytes:
        """Read three bytes at most."""
        data: bytes = self.file.read(min(size, 3))
        return data

    def write(self, data: memoryview) -> int:
        """Write three bytes at most."""
        written: int = self.file.write(data[:3])
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_partial_reads_and_writes_keep_records_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual: Any = files._open  # pyright: ignore[reportPrivateUsage]

    def trickling(path: Path, *, read_only: bool) -> Trickle:
        return Trickle(usual(path, read_only=read_only))

    monkeypatch.setattr(files, "_open", trickling)
    path = tmp_path / "run.journal"
    file = JournalFile(path)
    entry = file.append({"name": "a"}, bytes(range(100)))
    assert file.read(entry) == bytes(range(100))
    file.close()
    assert contents(path) == [bytes(range(100))]


@pytest.mark.parametrize("fsync", [False, True])
def test_fsync_is_called_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: bool) -> None:
    waited: list[int] = []
    file = JournalFile(tmp_path / "run.journal", fsync=fsync)
    monkeypatch.setattr(os, "fsync", waited.append)
    file.append({}, b"one")
    file.close()
    assert len(waited) == fsync


def test_lock_failure_differs_from_file_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files, "lock_now", fail)
    with pytest.raises(JournalError, match="cannot be locked: No locks available"):
        JournalFile(tmp_path / "run.journal")


@pytest.mark.anyio
async def test_concurrent_results_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, inside, flushed = tmp_path / "run.journal", 0, list[int]()
    everyone = anyio.Event()

    @module_pass(opt_level=0)
    async def Meet(mod: Module, ctx: PassContext) -> Module:
        nonlocal inside
        inside += 1
        if inside == 50:
            everyone.set()
        await everyone.wait()
        return mod

    def flush(descriptor: int) -> None:
        flushed.append(descriptor)
        # The results of the other modules arrive meanwhile.
        anyio.from_thread.run(anyio.wait_all_tasks_blocked)

    modules = [{"f": index} for index in range(50)]
    async with optimize_stream(modules, Meet, journal=Journal(path, fsync=True)) as outcomes:
        monkeypatch.setattr(os, "fsync", flush)
        assert len([outcome async for outcome in outcomes]) == 50
    assert 0 < len(flushed) < 10
    monkeypatch.undo()
    done = await optimize_all(modules, Meet, journal=path, errors="collect")
    assert all(one.resumed for one in done)


@pytest.mark.anyio
@pytest.mark.parametrize("fsync", [False, True])
async def test_each_returned_outcome_is_in_the_file(tmp_path: Path, fsync: bool) -> None:
    path, known = tmp_path / "run.journal", set[bytes]()

    @module_pass(opt_level=0)
    async def Double(mod: Module, ctx: PassContext) -> Module:
        for _ in range(mod["f"] % 3):
            await anyio.lowlevel.checkpoint()
        return {"f": 2 * mod["f"]} if mod["f"] % 2 else mod

    modules = {f"module {index}": {"f": index} for index in range(40)}
    async with optimize_stream(modules, Double, limit=5, journal=Journal(path, fsync=fsync)) as outcomes:
        async for outcome in outcomes:
            known.add(str(outcome.name).encode())
            written = path.read_bytes()
            assert all(b'"name": "%b"' % name in written for name in known)


def test_failed_batch_of_records_is_written_singly(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    file = JournalFile(path)
    with file_size_limit(300):
        records = file.append_all([({"n": 1}, b"one"), ({"n": 2}, bytes(500)), ({"n": 3}, b"three")])
    assert [type(record).__name__ for record in records] == ["JournalRecord", "JournalError", "JournalRecord"]
    file.close()
    assert contents(path) == [b"one", b"three"]
