"""`python -m benchmarks`: selection, table, JSON, errors and missing libraries."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import area
from benchmarks.__main__ import AREAS, main
from benchmarks.area import selects
from tests.helpers import benchmark_samples
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.process

SAMPLES = {"tests.helpers.benchmark_samples": ()}


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run the samples; return the exit status and the document."""
    file = folder / "table.json"
    status = main([*arguments, f"--json={file}"], SAMPLES)
    return status, json.loads(file.read_text())


def test_every_file_of_benchmarks_is_listed() -> None:
    files = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "BENCHMARKS = (" in path.read_text()}
    assert {f"benchmarks.{file}" for file in files} == set(AREAS)


def test_list_names_benchmarks_and_runs_none(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only=benchmark_samples.s*"], SAMPLES) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["benchmark_samples.sleeps", "benchmark_samples.sizes"]
    assert lines[0].endswith("Compare a sleep with a longer one. (quick)")


@pytest.mark.parametrize(
    ("only", "selected"),
    [
        (None, ["runner", "runner.memory", "caching.hits"]),
        (["runner"], ["runner", "runner.memory"]),
        (["*.hits"], ["runner", "caching.hits"]),
        (["runner.m*", "caching"], ["runner", "runner.memory", "caching.hits"]),
        (["memory"], []),
    ],
)
def test_patterns_select_files_and_functions(only: list[str] | None, selected: list[str]) -> None:
    names = ("runner", "runner.memory", "caching.hits")
    assert [name for name in names if selects(only, *name.split("."))] == selected


@pytest.mark.slow
def test_document_has_machine_calibration_and_rows(tmp_path: Path) -> None:
    status, document = run(tmp_path, "--only=benchmark_samples.s*", "--backend=both")
    assert status == 0  # although a bound does not hold
    assert document.keys() == {
        *("apass", "revision", "revision_date", "date", "python", "platform", "cpus"),
        *("calibration", "rows", "left_out", "errors"),
    }
    assert all(value > 0 for value in document["calibration"].values())
    assert [(row["name"], row["backend"], row["holds"]) for row in document["rows"]] == [
        ("sleep", "asyncio", None),
        ("sleep", "trio", None),
        ("size above its limit", "", False),
        ("rounds", "", None),
    ]
    sleep, _, size, _ = document["rows"]
    assert (size["ours"], size["other"], size["ratio"], size["bound"], size["spread"]) == (30, 10, 3.0, 1.0, None)
    assert min(sleep["ours"], sleep["other"], sleep["ratio"]) > 0
    assert sleep["spread"] >= 0


@pytest.mark.slow
def test_raising_benchmark_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, document = run(tmp_path, "--only=*.raising", "--only=*.sizes")
    output = capfd.readouterr()
    assert (status, document["errors"]) == (1, ["benchmark_samples.raising"])
    assert [row["name"] for row in document["rows"]][-1] == "row before the error"
    assert "RuntimeError: the benchmark is broken" in output.err
    assert output.out.endswith("raised: benchmark_samples.raising\n")


@pytest.mark.slow
def test_file_that_cannot_run_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([], {"benchmarks.no_such_file": ()}) == 1
    assert capfd.readouterr().out.endswith("raised: no_such_file, exit status 1\n")


@pytest.mark.slow
def test_missing_libraries_are_named_at_the_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    status, document = run(tmp_path, "--only=*.lacking")
    assert (status, document["left_out"]) == (0, {"benchmark_samples.lacking": ["no_such_library"]})
    assert main([], {"benchmarks.absent": ("no_such_library",)}) == 0
    line = "left out: absent, which needs no_such_library: pip install 'apass[bench]'\n"
    assert capfd.readouterr().out.endswith(line)


@pytest.mark.slow
def test_table_without_rich_is_plain(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    def find_nothing(name: str) -> None: ...

    monkeypatch.setattr("benchmarks.__main__.find_spec", find_nothing)
    assert main(["--only=*.sizes"], SAMPLES) == 0
    table = capfd.readouterr().out.partition("\narea")[2].splitlines()
    assert table[1].split() == [
        *("benchmark_samples", "size", "above", "its", "limit", "30", "bytes", "10", "bytes"),
        *("3.00", "1.00", "OVER", "limit"),
    ]


@pytest.mark.slow
def test_quick_runs_the_subset_with_few_rounds(capfd: pytest.CaptureFixture[str]) -> None:
    assert area.main("samples.py", benchmark_samples.BENCHMARKS, ["--quick"]) == 0
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()[2:]] == ["sleep"]


@pytest.mark.slow
def test_rounds_replace_those_of_the_benchmark(capfd: pytest.CaptureFixture[str]) -> None:
    assert area.main("samples.py", benchmark_samples.BENCHMARKS, ["--only=samples.sizes", "--rounds=2"]) == 0
    assert capfd.readouterr().out.splitlines()[-1].split() == ["rounds", "2", "rounds"]


@pytest.mark.slow
def test_smallest_real_row_has_its_bound(backend: str, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    assert main(["--only=runner.memory", f"--backend={backend}", f"--json={file}"]) == 0
    (row,) = json.loads(file.read_text())["rows"]
    assert (row["backend"], row["unit"], row["holds"]) == (backend, "bytes", True)
