"""The programs of the board of pass orders, and its bare search."""

import gzip
import json
import shutil
from pathlib import Path

import pytest

import apass
from apass.adapters.llvm import Module, spaces
from apass.search import learn_pipelines
from benchmarks.phase_order import __main__ as board
from benchmarks.phase_order import bare, learn, sources
from benchmarks.phase_order.build import DRIVERS, Program
from benchmarks.phase_order.programs import PROGRAMS
from tests.helpers.llvm_modules import TEXTS, needs_opt
from tests.helpers.rows import row

needs_clang = pytest.mark.skipif(shutil.which("clang-22") is None, reason="needs clang-22")
SOURCE = """
#include "text.h"
static int twice(int x) { return 2 * x; }
int shared(int x) { return twice(x) + 1; }
int main(void) { printf("%d\\n", shared(20)); return 3; }
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Return a program in a folder of its own."""
    monkeypatch.setenv("APASS_PHASE_ORDER", str(tmp_path))
    (tmp_path / "source.txt").write_text(SOURCE)
    return Program("written", "test", "", generator=f"cat {tmp_path}/source.txt")


def test_programs_have_archives_and_files() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS) > 24
    assert {program.archive for program in PROGRAMS} == {*sources.ARCHIVES, ""}
    for program in PROGRAMS:
        inputs = [program.driver, program.stdin, *program.arguments.split()]
        with row(program.name):
            assert all((DRIVERS / name).exists() for name in inputs if "." in name and "{" not in name)
            assert program.driver or program.arguments or program.stdin or program.generator


@pytest.mark.process
@needs_clang
def test_module_without_optimizations_works(written: Program) -> None:
    text = written.module().read_text()
    assert "alloca" in text
    assert "optnone" not in text
    assert written.check(written.module())
    assert (written.kept / "expected").read_text() == "3\n41\n"


@pytest.mark.process
@needs_clang
def test_check_fails_for_another_result(written: Program, tmp_path: Path) -> None:
    changed = tmp_path / "changed.ll"
    changed.write_text(written.module().read_text().replace("mul nsw i32 2,", "mul nsw i32 3,"))
    assert not written.check(changed)
    changed.write_text(written.module().read_text().replace("@main(", "@other("))
    assert not written.check(changed)


@pytest.mark.process
@needs_clang
@pytest.mark.skipif(shutil.which("llvm-extract-22") is None, reason="needs llvm-extract-22")
def test_part_of_functions_is_linked_to_rest(written: Program) -> None:
    part = Program("part", "test", "", generator=written.generator, only="^twice$")
    assert list(Module.parse(part.module().read_text()).functions) == ["twice"]
    assert part.check(part.module())


def test_missing_client_error_names_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APASS_PHASE_ORDER", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(sources.FetchError, match="is not installed; put the archives into"):
        sources.unpacked("bzip2_1.0.8.orig.tar.gz")
    assert not list(tmp_path.glob("*"))


@needs_opt
@pytest.mark.process
def test_bare_search_counts_as_modules_do() -> None:
    for name, text in TEXTS.items():
        mod = apass.run(apass.parse_pipeline("llvm.sroa"), Module.parse(text))
        with row(name):
            assert bare.instructions(mod.text) == mod.instructions


@pytest.mark.process
@needs_clang
@pytest.mark.skipif(shutil.which("opt-22") is None, reason="needs opt-22")
def test_bare_search_is_repeatable(written: Program) -> None:
    passes = list(bare.passes_of_opt())
    found = list(bare.random_search(written.module(), passes, 8, 20))
    assert found == list(bare.random_search(written.module(), passes, 8, 20))
    assert found[-1][0] <= found[0][0] <= bare.instructions(written.module().read_text())


ROWS: dict[str, tuple[list[str], list[int | None]]] = {
    "sroa": ([], [90, 100, 100]),
    "gvn": (["b"], [100, 50, 100]),
    "dse": (["c"], [80, 100, None]),
    "adce": ([], [95, 95, 95]),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = [{"pipeline": name, "found_on": found, "instructions": sizes} for name, (found, sizes) in ROWS.items()]
    path = tmp_path / "table.json.gz"
    document = {"programs": ["a", "b", "c"], "baseline": [100, 100, 100], "rows": rows}
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


def test_left_out_program_teaches_nothing(table: Path) -> None:
    results = learn.Results.load(table)
    assert learn_pipelines(results.table) == ["gvn", "dse", "adce", "sroa"]
    without = results.without("b")
    assert without == {"sroa": {"a": 0.9, "c": 1.0}, "dse": {"a": 0.8}, "adce": {"a": 0.95, "c": 0.95}}
    assert results.best("b", learn_pipelines(without)) == 0.95


def test_learned_list_is_written(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "list.txt"
    learn.main([f"--table={table}", "--count=2", f"--write={written}"])
    assert [line for line in written.read_text().splitlines() if line[0] != "#"] == ["gvn", "dse"]
    assert "O0, learned on the other programs: -3.36% in 2 builds" in capsys.readouterr().out


def test_list_is_learned_from_the_table() -> None:
    results = learn.Results.load()
    chosen = learn_pipelines(results.table)
    assert spaces.sequences() == chosen
    # What the others teach helps each program.
    for name in results.programs:
        assert results.best(name, learn_pipelines(results.without(name))) <= 1


def test_page_has_a_table_for_each_level() -> None:
    rows = [
        board.Row("a", "random", 200, 100, (100, 90), True, 3, 0.25, 1.0, "x"),
        board.Row("a", "coreset", 200, 100, (80, 50), True, 0, 0.5, 2.0, "y"),
        board.Row("b", "coreset", 100, 100, (100, 50), False, 1, 0.5, 2.0, "y"),
        board.Row("csmith-1", "coreset", 100, 100, (100, 50), True, 0, 0.5, 2.0, "y"),
        board.Row("a-Oz", "coreset", 90, 60, (57, 54), True, 0, 0.5, 2.0, "y"),
    ]
    page = board.page(rows, "Made here.")
    assert "each of 3 C programs" in page
    options = "--rows board.jsonl --levels Oz --strategies 'coreset' --programs 'a,b,csmith-1' --page"
    assert f"python -m benchmarks.phase_order {options} docs" in page
    assert "| 45 builds, geometric mean | 0% | -7.2% |" in page
    assert "| 45 builds, without random programs | 0% | -10.6% |" in page
    assert "| 200 builds, geometric mean | -10.0% | -50.0% |" in page
    assert "| programs that work | 1 of 1 | 2 of 3 |" in page
    assert "| a | 200 | 100 | 0% | -20.0% |" in page
    assert "| b | 100 | 100 |  | 0% |" in page
    assert page.count("| a | 90 | 60 |") == 2
    assert page.endswith("Made here.\n")
