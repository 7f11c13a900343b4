"""`apass diff`: reports, journals and pipelines, compared from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from apass.instruments.report.page import render_page
from apass.instruments.report.record import PassRun, Record, RunStatus
from tests.helpers.command_line import apass, run_in, write_model

SHORT = "onnx.IdentityElimination"
BASE = (100, 101, 102, 103, 104)


def optimized(folder: Path, name: str, pipeline: str, *options: object) -> None:
    """Optimize two models, and write a report and a journal."""
    for index in range(2):
        write_model(folder / "models" / f"m{index}.onnx", identities=index)
    files = ("-o", folder / "out", "--report", folder / f"{name}.html", "--journal", folder / f"{name}.journal")
    result = apass("opt", folder / "models", "-p", pipeline, *files, *options)
    assert result.exit_code == 0, result.output


def timed_report(path: Path, milliseconds: float) -> None:
    """Write a report of one pass that took so long."""
    run = PassRun(
        module="m",
        steps=((0, "Fuse", None),),
        start=0.0,
        end=milliseconds / 1e3,
        busy=0.0,
        slices=(),
        before=-1,
        after=-1,
        status=RunStatus.UNCHANGED,
    )
    empty: dict[str, Any] = {"bodies": [], "texts": [], "failures": {}, "remarks": [], "left_out": {}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(Record(title="", origin=0.0, runs=[run], **empty)), "utf-8")


def repeated(folder: Path, factor: float) -> Path:
    """Write five reports of one run."""
    for index, milliseconds in enumerate(BASE):
        timed_report(folder / f"{index}.html", milliseconds * factor)
    return folder


def test_reports_of_two_pipelines_are_compared(tmp_path: Path) -> None:
    optimized(tmp_path, "old", "onnx.RemoveUnusedNodes")

    optimized(tmp_path, "new", f"onnx.RemoveUnusedNodes,{SHORT}")
    result = apass("diff", tmp_path / "old.html", tmp_path / "new.html")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[:6] == [
        f"first:  {tmp_path}/old.html",
        f"second: {tmp_path}/new.html",
        "2 modules compared: 1 with another result",
        "",
        "m1.onnx: the result differs",
        "  first pass that differs: 0:sequential/1:onnx.IdentityElimination, only in the second run",
    ]
    assert "    -   v1 = Identity (v0)" in lines
    result = apass("diff", tmp_path / "old.journal", tmp_path / "new.journal", "--fail-different")
    assert result.exit_code == 1
    assert "  nodes 3 -> 2 (-33.3%)" in result.stdout.splitlines()
    assert result.stdout.endswith("regression: result: m1.onnx has another result\n")


def test_report_equals_itself(tmp_path: Path) -> None:
    optimized(tmp_path, "old", SHORT)
    page = tmp_path / "old.html"
    result = apass("diff", page, page, "--fail-above", "0%", "--fail-different")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[2] == "2 modules compared: all results are equal"
    assert result.stdout.endswith(
        "times are not checked: too few samples to separate noise from change; repeat each run, at least 5 times\n"
    )


def test_slower_pass_fails_the_check(tmp_path: Path) -> None:
    old, new = repeated(tmp_path / "old", 1.0), repeated(tmp_path / "new", 1.2)
    assert apass("diff", old, new).exit_code == 0
    assert apass("diff", old, new, "--fail-above", "25%").exit_code == 0
    assert apass("diff", new, old, "--fail-above", "10%").exit_code == 0
    result = apass("diff", old, new, "--fail-above", "10 %")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        "regression: time: (all passes): 102.000 ms -> 122.400 ms (x 1.20)",
        "regression: time: Fuse: 102.000 ms -> 122.400 ms (x 1.20)",
    ]


def test_single_slower_report_passes_the_check(tmp_path: Path) -> None:
    timed_report(tmp_path / "a.html", 100)
    timed_report(tmp_path / "b.html", 900)
    result = apass("diff", tmp_path / "a.html", tmp_path / "b.html", "--fail-above", "10%")
    assert (result.exit_code, result.stdout.count("too few samples")) == (0, 2)


def test_comparison_is_written_as_json_and_page(tmp_path: Path) -> None:
    old, new = repeated(tmp_path / "old", 1.0), repeated(tmp_path / "new", 1.2)
    page = tmp_path / "more" / "diff.html"
    result = apass("diff", old, new, "--fail-above", "10%", "--output-format", "json", "--page", page)
    assert (result.exit_code, result.stderr) == (1, "")
    data = json.loads(result.stdout)
    assert (data["samples"], data["times"][0]["verdict"]) == ([5, 5], "slower")
    assert [item["kind"] for item in data["regressions"]] == ["time", "time"]
    assert "time: Fuse: 102.000 ms -&gt; 122.400 ms (x 1.20)" in page.read_text("utf-8")


def test_pipelines_are_compared_on_models(tmp_path: Path, backend: str) -> None:
    for index in range(2):
        write_model(tmp_path / f"m{index}.onnx", identities=index)
    pipelines = ("-p", "onnx.RemoveUnusedNodes", "-p", f"onnx.RemoveUnusedNodes,{SHORT}")
    options = ("--rounds", 1, "--backend", backend)
    result = apass("diff", tmp_path, *pipelines, *options, "--fail-different")
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert lines[:3] == [
        "first:  onnx.RemoveUnusedNodes",
        f"second: onnx.RemoveUnusedNodes,{SHORT}",
        "2 modules compared: 1 with another result",
    ]
    assert "  nodes 3 -> 2 (-33.3%)" in lines
    assert apass("diff", tmp_path, *pipelines[:2], *pipelines[:2], *options, "--fail-different").exit_code == 0


PASSES = """
import apass

@apass.register_pass("my.Break")
@apass.module_pass(opt_level=0)
def Break(mod, ctx):
    raise ValueError("broken on purpose")

@apass.register_pass("my.Exit")
@apass.module_pass(opt_level=0)
def Exit(mod, ctx):
    raise SystemExit(3)
"""


def test_missing_model_is_a_difference(tmp_path: Path) -> None:
    optimized(tmp_path, "old", SHORT)
    (tmp_path / "models" / "m1.onnx").unlink()
    result = apass("opt", tmp_path / "models", "-p", SHORT, "-o", tmp_path / "out", "--report", tmp_path / "new.html")
    assert result.exit_code == 0
    result = apass("diff", tmp_path / "old.html", tmp_path / "new.html", "--fail-different")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        1,
        "regression: missing: m1.onnx is only in the first run",
    )
    assert apass("diff", tmp_path / "old.html", tmp_path / "new.html").exit_code == 0
    assert apass("diff", tmp_path / "new.html", tmp_path / "old.html", "--fail-different").exit_code == 0


@pytest.mark.process
@pytest.mark.slow
def test_pass_that_fails_is_a_regression(tmp_path: Path) -> None:
    (tmp_path / "passes.py").write_text(PASSES)
    write_model(tmp_path / "m.onnx")
    pipelines = ("-p", SHORT, "-p", f"{SHORT},my.Break")
    status, output, errors = run_in(
        tmp_path, "--load", "passes.py", "diff", "m.onnx", *pipelines, "--rounds", "1", "--fail-above", "50%"
    )
    assert (status, errors) == (1, "")
    line = "regression: failure: m.onnx: ValueError: broken on purpose (in 0:sequential/1:my.Break)"
    assert line in output.splitlines()


@pytest.mark.process
def test_pass_that_exits_is_a_regression(tmp_path: Path) -> None:
    (tmp_path / "passes.py").write_text(PASSES)
    write_model(tmp_path / "m.onnx")
    pipelines = ("-p", SHORT, "-p", f"{SHORT},my.Exit")
    status, output, errors = run_in(
        tmp_path, "--load", "passes.py", "diff", "m.onnx", *pipelines, "--rounds", "1", "--fail-above", "50%"
    )
    assert (status, errors) == (1, "")
    assert "regression: failure: m.onnx: SystemExit: 3 (in 0:sequential/1:my.Exit)" in output.splitlines()


def test_misuse_is_one_line(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    page = tmp_path / "a.html"
    timed_report(page, 1)
    messages = {
        (page,): "expected two runs, got 1; to run two pipelines on models, give -p for each of them",
        (page, model): f"{model} is neither a report nor a journal; expected a report that `apass opt --report` "
        "wrote, a journal of --journal, or a folder of reports",
        (model, "-p", SHORT): "expected -p twice, for the first and the second run, got it 1 times",
        (page, page, "--fail-above", "10"): "--fail-above must be a percentage such as 10%, got '10'",
        (page, page, "--fail-above", "-1%"): "--fail-above must be a percentage such as 10%, got '-1%'",
        (page, page, "--page", tmp_path): f"--page must name a file, but {tmp_path} is a folder",
        (page, tmp_path / "b.html"): f"cannot read {tmp_path}/b.html: No such file or directory",
    }
    for arguments, message in messages.items():
        result = apass("diff", *arguments)
        assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")
