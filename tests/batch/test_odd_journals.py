"""Journals that apass did not write: one error with a place, and no endless wait."""

import os
import socket
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import apass
from apass.batch.journal_file import JournalFile
from apass.errors import ApassError, JournalError, JournalWarning
from tests.helpers.amounts import amount
from tests.helpers.full_disk import file_size_limit

Module = dict[str, Any]
MODULES: dict[str, Module] = {"a": {"f": 1}, "b": {"f": 2}}


@apass.module_pass(opt_level=0, name="AppendForJournal")
def append(mod: Module, ctx: apass.PassContext) -> Module:
    """Append a function."""
    return {**mod, "last": 0}


PIPELINE = apass.Sequential([append])


def optimize(path: Path) -> Any:
    """Run a batch with a journal, and return its results."""

    async def main() -> Any:
        return await apass.optimize_all(MODULES, PIPELINE, journal=path)

    return anyio.run(main)


def run(path: Path) -> None:
    """Run a batch with a journal, and check its results."""
    assert optimize(path) == {name: {**mod, "last": 0} for name, mod in MODULES.items()}


def write_journal(path: Path, heads: list[Any], data: bytes = b"") -> None:
    """Write records with these heads, whose checksums are right."""
    path.unlink(missing_ok=True)
    with closing(JournalFile(path)) as file:
        assert list(file) == []
        for head in heads:
            file.append(head, data)


def heads_of(path: Path) -> list[Any]:
    """Return the heads of a journal of a run."""
    run(path)
    with closing(JournalFile(path)) as file:
        return [dict(record.head) for record in file]


ODD_HEADS: list[Any] = [[], 7, None, "text", {}, {"key": 7}, {"key": None}, {"key": []}, {"key": {}}, {"run": {}}]


@pytest.mark.parametrize("head", ODD_HEADS, ids=repr)
def test_odd_head_raises_with_its_record(head: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    first = heads_of(path)[0]
    write_journal(path, [first, head])
    with pytest.raises(JournalError, match=r"record 2 of the journal '.*run\.journal' has (no key|a head)"):
        run(path)


@pytest.mark.parametrize("description", [..., None, [], 7, "text", {"config": 7}], ids=repr)
def test_odd_description_of_the_run_raises(description: Any, tmp_path: Path) -> None:
    write_journal(tmp_path / "run.journal", [{} if description is ... else {"run": description}])
    with pytest.raises(JournalError, match=r"record 1 of the journal .* does not describe the run; it was written by"):
        run(tmp_path / "run.journal")


@pytest.mark.parametrize("kind", [..., 7, [], {}], ids=repr)
def test_odd_type_of_a_result_raises(kind: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    first, *rest = heads_of(path)
    odd = {"key": rest[0]["key"]} if kind is ... else {**rest[0], "type": kind}
    write_journal(path, [first, odd])
    with pytest.raises(JournalError, match=r"record 2 of the journal .* does not name the type of its result"):
        run(path)


@pytest.mark.parametrize("data", [b"", b"\xff", b"{", b"[" * 100_000], ids=["empty", "bytes", "cut", "deep"])
def test_unreadable_result_is_computed_again(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    write_journal(path, heads_of(path), data)
    with pytest.warns(JournalWarning, match=r"record \d of the journal .* cannot be read \(.*; its module is computed"):
        run(path)
    run(path)


def test_unknown_type_of_a_result_is_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    first, *rest = heads_of(path)
    write_journal(path, [first, *({**head, "type": "antigravity:Module"} for head in rest)])
    run(path)


def test_long_difference_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    first = heads_of(path)[0]
    long = {**first["run"], "pipeline": "x" * 10**6, **{f"more {number}": number for number in range(1000)}}
    write_journal(path, [{"run": long}])
    with pytest.raises(JournalError, match="belongs to another run: ") as caught:
        run(path)
    assert len(str(caught.value)) < 5000


def make_pipe(path: Path) -> None:
    """Make a named pipe."""
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    """Make a socket."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def link_to_device(path: Path) -> None:
    """Make a link to a device."""
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [make_pipe, make_socket, link_to_device, Path.mkdir])
def test_other_kind_of_file_raises(make: Any, tmp_path: Path) -> None:
    path = tmp_path / "j"
    make(path)
    with pytest.raises(JournalError, match=r"the journal '.*j' (is a device or a pipe|cannot be used: )"):
        run(path)


def test_path_with_null_character_raises() -> None:
    with pytest.raises(JournalError, match="cannot be used: embedded null byte"):
        run(Path("a\0b"))


def test_full_disk_error_names_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "run.journal"
    with (
        file_size_limit(5),
        pytest.raises(JournalError, match=r"cannot write to the journal '.*run\.journal': File"),
    ):
        run(path)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["key", "type", "run", "x"]), inner),
    max_leaves=5,
)


def check_changed_journal(data: st.DataObject, folder: Path) -> None:
    """Change heads or bytes of a journal; it must work, or raise one short error."""
    path = folder / "changed.journal"
    path.unlink(missing_ok=True)
    heads = heads_of(path)
    if data.draw(st.booleans()):
        position = data.draw(st.integers(0, len(heads) - 1))
        field = data.draw(st.sampled_from(["key", "type", "facts", "run", ""]))
        value = data.draw(VALUES)
        heads[position] = {**heads[position], field: value} if field else value
        write_journal(path, heads, data.draw(st.binary(max_size=8)))
    else:
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content[: data.draw(st.integers(0, len(content)))] + data.draw(st.binary(max_size=8)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JournalWarning)
        try:
            optimize(path)
        except ApassError as error:
            assert len(str(error)) < 5000  # noqa: PT017  a journal that works is right, too


@settings(max_examples=amount(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_changed_journal_works_or_raises(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_changed_journal(data, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@settings(max_examples=amount(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_many_changed_journals_work_or_raise(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_changed_journal(data, tmp_path_factory.getbasetemp())
