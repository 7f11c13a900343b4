"""`apass opt --executor`: passes run outside the event loop."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command_line import apass, nodes_of, program, write_model
from tests.helpers.folders import files


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("executor", "backend"), [("thread", "trio"), ("process", "asyncio")])
def test_models_are_optimized_in_an_executor(tmp_path: Path, executor: str, backend: str) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--executor", executor, "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    assert files(tmp_path / "out") == ["a.onnx", "b.onnx"]
    assert {tuple(nodes_of(path)) for path in (tmp_path / "out").iterdir()} == {("Relu", "Neg")}


def test_failure_in_an_executor_fails_its_model(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    result = apass("opt", tmp_path / "a.onnx", "-p", "onnx.TopologicalSort,InferType", "--executor", "thread")
    assert result.exit_code == 1
    assert "InferType" in result.output
    assert files(tmp_path) == ["a.onnx"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["proces"], "--executor names the executor 'proces'; did you mean 'process'?"),
        (["mars"], "--executor names the executor 'mars'; known are dask, dask://HOST:PORT, inline"),
        (["dask://"], "--executor names the executor 'dask://' without an address; write dask://HOST:PORT, or dask"),
        (
            ["process", "--timing", "--opt-bisect-limit", "3"],
            (
                "--opt-bisect-limit cannot be combined with --executor process: passes are numbered and reported in "
                "this process, one after the other; leave one of them out"
            ),
        ),
        (["thread", "--opt-bisect", "1-2"], "--opt-bisect cannot be combined with --executor thread: passes are"),
    ],
)
def test_invalid_executor_options_are_rejected_before_the_run(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    model = write_model(tmp_path / "a.onnx")
    result = apass("opt", model, "--executor", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert files(tmp_path) == ["a.onnx"]


def observed(folder: Path, *arguments: object) -> dict[str, Any]:
    """Optimize two programs and an unfit model, and return what the instruments wrote."""
    options = ["--progress", "--timing=json", "--timing-output", folder / "times.json", "--statistics", "--memory"]
    options += ["--remarks", folder / "remarks.yaml", "--report", folder / "report.html", "--trace", folder / "t.json"]
    options += [
        "--verify",
        "always",
        "--check-changes",
        "--reproducer",
        folder / "failures",
        "--dump-ir",
        folder / "ir",
    ]
    options += ["--print-changed", "--print-ir-before", "FoldConstant", "--log-level", "info"]
    passes = ["-p", "InferType,FoldConstant"]
    result = apass("opt", folder / "in", "-o", folder / "out", *passes, "--jobs", "1", *options, *arguments)
    assert result.exit_code == 1, result.output
    times = json.loads((folder / "times.json").read_text())
    text = re.sub(r"\d+[.:,]\d+[^ ]*|\b\d+ms\b", "TIME", result.stdout.replace(str(folder), "DIR"))
    return {
        "times": structure(times["passes"]),
        "functions": len(times["functions"]),
        # The text of a program that travels to a worker does not name its file.
        "remarks": re.sub("File: [^,]*", "File", (folder / "remarks.yaml").read_text()),
        "failures": files(folder / "failures"),
        "dumps": files(folder / "ir"),
        "written": files(folder / "out"),
        "changes": text.count("IR changed by"),
        "printed": text.count("Print IR before: "),
        "statistics": [line for line in text.splitlines() if line.startswith("  ") and "TIME" not in line],
        "logged": sorted(re.findall(r"pass_\w+ pass_name=\S+ pass_path=\S+ module_name=\S+", result.stderr)),
        "progress": re.findall(r"\d of \d modules, \d failed; running: \d modules, \d passes", result.stderr)[-1],
    }


def structure(passes: list[dict[str, Any]]) -> list[Any]:
    """Return the tree of times without the times."""
    return [
        [*(item[key] for key in ("name", "module", "calls", "failed", "unfinished")), structure(item["children"])]
        for item in passes
    ]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("executor", ["thread", "process"])
def test_instruments_observe_passes_in_an_executor(tmp_path: Path, executor: str) -> None:
    for folder in (tmp_path / "inline", tmp_path / "remote"):
        for name in ("a", "b"):
            program(folder / "in" / f"{name}.relay")
        # A pass of Relay refuses a module of LLVM.
        (folder / "in" / "unfit.ll").write_text("define i32 @f(i32 %x) {\n  ret i32 %x\n}\n")
    inline, remote = observed(tmp_path / "inline"), observed(tmp_path / "remote", "--executor", executor)
    assert remote == inline
    assert (len(inline["times"]), inline["changes"]) == (3, 2)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python has interpreters")
def test_interpreter_executor_needs_python_3_13(tmp_path: Path) -> None:
    result = apass("opt", write_model(tmp_path / "a.onnx"), "--executor", "interpreter")
    assert (result.exit_code, "requires Python 3.13 or later" in result.stderr) == (2, True)
