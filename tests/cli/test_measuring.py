"""`--timing`, `--memory` and `--statistics`."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import TEST_DATA, apass, program, write_model

SQUEEZENET = TEST_DATA / "light" / "light_squeezenet.onnx"


def after_totals(out: str) -> list[str]:
    """Return the lines below the totals, without times and repeated spaces."""
    lines = out.splitlines()
    totals = max(index for index, line in enumerate(lines) if " models written" in line)
    plain = [re.sub(r"^ *[\d.]+ +[\d.]+ +[\d.]+( +[\d.]+%)?  ", "# ", line) for line in lines[totals + 1 :]]
    return [line if line.startswith("#") else re.sub(" +", " ", line.strip()) for line in plain]


def test_timing_without_value_shows_the_tree(tmp_path: Path, backend: str) -> None:
    source = program(tmp_path / "m.relay")
    out = apass("opt", source, "-p", "FoldConstant", "--timing", "--backend", backend).stdout
    assert after_totals(out) == [
        "wall ms busy ms waiting ms of parent pass",
        "# sequential",
        "#   FoldConstant",
        "#     InferType",
        "#     (hooks of instruments)",
        "#   (hooks of instruments)",
    ]
    assert after_totals(apass("opt", source, "-p", "FoldConstant", "--timing=tree").stdout) == after_totals(out)


def test_timing_list_shows_passes_modules_and_functions(tmp_path: Path, backend: str) -> None:
    program(tmp_path / "a.relay")
    program(tmp_path / "b.relay")
    out = apass("opt", tmp_path, "-o", tmp_path / "out", "-p", "FoldConstant", "--timing=list", "--backend", backend)
    shown = after_totals(out.stdout)
    heads = [line for line in shown if line and not line.startswith("#")]
    assert heads == [
        "wall ms busy ms waiting ms of all pass",
        "wall ms busy ms waiting ms of all module",
        "wall ms busy ms waiting ms function pass",
    ]
    assert sorted(line for line in shown if line.startswith("#")) == [
        "# FoldConstant (2 calls)",
        "# InferType (2 calls)",
        "# a.relay",
        "# a.relay:main  sequential/FoldConstant",
        "# b.relay",
        "# b.relay:main  sequential/FoldConstant",
        "# sequential (2 calls)",
    ]


def test_timing_list_is_complete_in_a_file(tmp_path: Path) -> None:
    for index in range(12):
        write_model(tmp_path / f"m{index:02}.onnx")
    out = apass("opt", tmp_path, "-o", tmp_path / "out", "--timing=list").stdout
    assert out.splitlines()[-1] == "and 2 more modules; use --timing-output to get all"
    file = tmp_path / "times" / "list.txt"
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--timing=list", "--timing-output", file)
    assert after_totals(result.stdout) == []
    assert sorted(re.findall(r"m\d\d\.onnx", file.read_text())) == [f"m{index:02}.onnx" for index in range(12)]


def shapes(passes: list[dict[str, Any]]) -> list[Any]:
    """Return name, module, calls and children of timings, recursively."""
    return [[entry["name"], entry["module"], entry["calls"], shapes(entry["children"])] for entry in passes]


def test_timing_json_goes_to_output_or_file(tmp_path: Path) -> None:
    arguments = ("opt", SQUEEZENET, "-o", tmp_path / "out", "-p", "onnx.IdentityElimination", "--timing=json")
    line = json.loads(apass(*arguments).stdout.splitlines()[-1])
    name = SQUEEZENET.name
    file = tmp_path / "times.json"
    result = apass(*arguments, "--timing-output", file)
    for shown in (line, json.loads(file.read_text())):
        assert list(shown) == ["version", "passes", "by_pass", "by_module", "functions"]
        assert shapes(shown["passes"]) == [["sequential", name, 1, [["onnx.IdentityElimination", name, 1, []]]]]
        assert [entry["name"] for entry in shown["by_pass"]] == ["sequential", "onnx.IdentityElimination"]
        assert [entry["module"] for entry in shown["by_module"]] == [name]
        assert shown["functions"] == []
        assert all(entry["wall"] == pytest.approx(entry["busy"] + entry["waiting"]) for entry in shown["by_pass"])
    assert after_totals(result.stdout) == []


def test_timing_functions_sets_the_number_of_functions(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    pipeline = ("opt", source, "-p", "FoldConstant,DeadCodeElimination", "--in-place")
    shown = json.loads(apass(*pipeline, "--timing=json", "--timing-functions", 1).stdout.splitlines()[-1])
    assert [(entry["module"], entry["function"]) for entry in shown["functions"]] == [("m.relay", "main")]
    tree = after_totals(apass(*pipeline, "--timing", "--timing-functions", 5).stdout)
    assert sorted(line for line in tree if "main" in line) == [
        "# m.relay:main  sequential/DeadCodeElimination",
        "# m.relay:main  sequential/FoldConstant",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--timing-output", "x"), "--timing-output needs --timing, --timing=list or --timing=json"),
        (("--timing-functions", 3), "--timing-functions needs --timing, --timing=list or --timing=json"),
        (("--timing", "--timing-output", "."), "--timing-output must name a file, but . is a folder"),
        (("--timing=rows",), "--timing must be tree, list or json, got 'rows'"),
    ],
)
def test_invalid_timing_options_are_rejected(tmp_path: Path, options: tuple[object, ...], message: str) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, *options)
    shown = " ".join(result.stderr.replace("│", " ").split())
    assert (result.exit_code, message in shown) == (2, True), shown
    assert not (tmp_path / "m.opt.onnx").exists()


def test_arguments_after_two_dashes_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = apass("opt", "--", "--timing")
    assert (result.exit_code, "no such file or directory: '--timing'" in result.stderr) == (2, True)


def test_memory_shows_the_peak_of_each_pass(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    shown = apass("opt", model, "-p", "onnx.IdentityElimination", "--memory").stdout.splitlines()[-4:]
    assert shown[0].split() == ["peak", "MiB", "grown", "MiB", "calls", "pass"]
    assert {line.split()[3] for line in shown[1:]} == {"sequential", "onnx.IdentityElimination", "(hooks"}


def test_statistics_shows_the_counters_of_passes(tmp_path: Path) -> None:
    for index in range(2):
        write_model(tmp_path / f"m{index}.onnx")
    arguments = ("opt", tmp_path, "-o", tmp_path / "out", "-p", "onnx.IdentityElimination")
    assert apass(*arguments, "--statistics").stdout.splitlines()[-3:] == [
        "onnx.IdentityElimination",
        "  2  changed",
        "  4  nodes removed",
    ]
    assert json.loads(apass(*arguments, "--statistics=json").stdout.splitlines()[-1]) == {
        "version": 1,
        "statistics": {"onnx.IdentityElimination": {"changed": 2, "nodes removed": 4}},
    }
