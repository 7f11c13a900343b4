"""`read_run`: reports, folders of reports and journals; other and damaged files."""

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.batch.journal_file import JournalFile
from apass.debugging.run_diff.diff import RunDiff
from apass.debugging.run_diff.reading import read_run
from tests.helpers.recorded_runs import change, reported

MODULES = {"m": {"f": 1}, "n": {"f": 2}}


def page(path: Path, *passes: apass.Pass[Any], modules: Any = None) -> Path:
    """Write the report of a run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(reported(passes, modules or MODULES).render(), "utf-8")
    return path


def journal(path: Path, *passes: apass.Pass[Any], modules: Any = None) -> Path:
    """Write the journal of a run."""

    async def run() -> None:
        await apass.optimize_all(modules or MODULES, apass.Sequential(passes), journal=path)

    anyio.run(run)
    return path


def test_report_is_read_as_a_run(tmp_path: Path) -> None:
    run = read_run(page(tmp_path / "a.html", change("A", g=1)))
    assert (run.source, run.identity, run.samples) == (str(tmp_path / "a.html"), "text", 1)
    assert [(name, [item.name for item in module.outputs]) for name, module in run.modules.items()] == [
        ("m", ["A"]),
        ("n", ["A"]),
    ]
    assert len(run.modules["m"].times["A"]) == 1
    assert RunDiff.of(run, run).is_empty


def test_reports_of_a_folder_are_repetitions(tmp_path: Path) -> None:
    for number in range(5):
        page(tmp_path / f"{number}.html", change("A", g=1))
    (tmp_path / "notes.txt").write_text("no report")
    run = read_run(tmp_path)
    assert (run.samples, [len(module.times["A"]) for module in run.modules.values()]) == (5, [5, 5])
    assert all(module.is_repeatable for module in run.modules.values())
    assert RunDiff.of(run, run).can_judge_times


def test_other_result_of_a_repetition_is_noticed(tmp_path: Path) -> None:
    page(tmp_path / "0.html", change("A", g=1))
    page(tmp_path / "1.html", change("A", g=2))
    assert [module.is_repeatable for module in read_run(tmp_path).modules.values()] == [False, False]


def test_repetitions_have_equal_modules(tmp_path: Path) -> None:
    page(tmp_path / "0.html", change("A", g=1))
    page(tmp_path / "1.html", change("A", g=1), modules={"m": {"f": 1}})
    with pytest.raises(apass.errors.InputError, match=r"are not repetitions: only one of them has 'n'; put reports"):
        read_run(tmp_path)


def test_journal_of_values_is_read(tmp_path: Path) -> None:
    first = read_run(journal(tmp_path / "a", change("Old", g=1)))
    second = read_run(journal(tmp_path / "b", change("New", g=22)))
    assert (first.identity, first.samples, sorted(first.modules)) == ("values", 0, ["m", "n"])
    diff = RunDiff.of(first, second)
    assert [(item.name, item.result.value) for item in diff.changes] == [("m", "different"), ("n", "different")]
    assert [number.name for number in diff.changes[0].sizes] == ["bytes"]
    assert [name for name, _, _ in diff.settings] == ["pipeline"]


def test_unchanged_module_of_a_journal_is_equal(tmp_path: Path) -> None:
    first = read_run(journal(tmp_path / "a", change("Old")))
    second = read_run(journal(tmp_path / "b", change("Old")))
    assert RunDiff.of(first, second).changes == ()


def test_journal_stays_as_it_is(tmp_path: Path) -> None:
    path = journal(tmp_path / "a", change("Old", g=1))
    damaged = path.read_bytes()[:-3]
    path.write_bytes(damaged)
    path.chmod(0o444)
    assert len(read_run(path).modules) == 1
    assert path.read_bytes() == damaged


def test_journal_in_use_is_read(tmp_path: Path) -> None:
    path = journal(tmp_path / "a", change("Old", g=1))
    file = JournalFile(path)
    try:
        assert sorted(read_run(path).modules) == ["m", "n"]
    finally:
        file.close()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"key": 3, "name": "m"}, "expected str, got 3"),
        ({"key": "k"}, "expected str, got None"),
        ({"key": "k", "targets": {}}, "does not describe a finished module"),
        ({"key": '["a"]', "targets": {}}, "does not describe a finished module"),
        ({"run": 5}, "does not describe a run"),
    ],
)
def test_record_of_another_program_is_named(tmp_path: Path, head: dict[str, Any], message: str) -> None:
    file = JournalFile(tmp_path / "j")
    list(file)
    file.append(head)
    file.close()
    with pytest.raises(apass.errors.JournalError, match=r"record 1 of the journal") as caught:
        read_run(tmp_path / "j")
    assert message in str(caught.value)


def test_files_of_a_journal_have_short_names(tmp_path: Path) -> None:
    for name, folder in (("a", "/x/old"), ("b", "/y/new")):
        file = JournalFile(tmp_path / name)
        list(file)
        file.append({"run": {"pipeline": "A"}})
        for model in ("one.onnx", "more/two.onnx"):
            file.append(
                {
                    "key": json.dumps([f"{folder}/{model}", f"/out/{model}"]),
                    "sources": {f"{folder}/{model}": [9, "in"]},
                    "targets": {f"/{name}/{model}": [len(name + model), "out" if name == "a" else model]},
                    "finished": {"before": 3, "after": 2, "remark": ""},
                }
            )
        file.close()
    diff = RunDiff.of(read_run(tmp_path / "a"), read_run(tmp_path / "b"))
    assert [item.name for item in diff.changes] == ["more/two.onnx", "one.onnx"]
    assert not any(item.has_other_input or item.sizes for item in diff.changes)


EXPECTED = "expected a report that `apass opt --report` wrote, a journal of --journal, or a folder of reports"


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"\xff\x00 no report")
    (tmp_path / "empty").mkdir()
    messages = {
        "text": f"{tmp_path}/text is neither a report nor a journal; {EXPECTED}",
        "empty": f"{tmp_path}/empty contains no *.html file; {EXPECTED}",
        "missing": f"cannot read {tmp_path}/missing: No such file or directory",
    }
    for name, message in messages.items():
        with pytest.raises(apass.errors.InputError) as caught:
            read_run(tmp_path / name)
        assert str(caught.value) == message
    with pytest.raises(apass.errors.InputError, match="null"):
        read_run("a\0b")


def test_pipe_is_read_once(tmp_path: Path) -> None:
    text = page(tmp_path / "a.html", change("A", g=1)).read_bytes()
    os.mkfifo(tmp_path / "pipe")
    writer = Thread(target=(tmp_path / "pipe").write_bytes, args=(text,))
    writer.start()
    try:
        assert list(read_run(tmp_path / "pipe").modules) == ["m", "n"]
    finally:
        writer.join()


@given(st.data())
def test_cut_report_is_an_input_error(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / "cut"
    path = folder / "a.html"
    if not path.exists():
        page(path, change("A", g=1))
    text = path.read_text("utf-8")
    cut = text[: data.draw(st.integers(0, text.index("<script>") - 1))]
    (folder / "b.html").write_text(cut, "utf-8")
    if cut.count("</script>") < 2:
        with pytest.raises(apass.errors.InputError, match=r"neither a report|cannot be read"):
            read_run(folder / "b.html")
