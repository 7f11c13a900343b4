"""`apass opt --executor`: passes run outside the event loop."""

import json
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, nodes_of, write_model
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
        (["proces"], "unknown executor 'proces'; did you mean 'process'?"),
        (["mars"], "unknown executor 'mars'; expected process, thread, interpreter, dask or dask://HOST:PORT"),
        (["dask://"], "--executor dask:// has no scheduler address; write dask://HOST:PORT, or dask"),
        (
            ["process", "--trace", "t.json", "--progress"],
            "--executor cannot be used with --trace, --progress, which cannot observe its passes",
        ),
        (
            ["process", "--timing", "--timing-functions", "3"],
            (
                "--timing-functions cannot be used here: passes in an executor (--executor) are not observed, "
                "so only models are timed"
            ),
        ),
    ],
)
def test_invalid_executor_options_are_rejected_before_the_run(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    model = write_model(tmp_path / "a.onnx")
    result = apass("opt", model, "--executor", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
    assert files(tmp_path) == ["a.onnx"]


@pytest.mark.parametrize("form", ["", "=list"])
def test_timing_in_an_executor_times_models(tmp_path: Path, form: str) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--executor", "thread", f"--timing{form}")
    assert (result.exit_code, result.stderr) == (0, "")
    *_, header, first, second, note = result.stdout.splitlines()
    assert header.split() == ["wall", "ms", "busy", "ms", "waiting", "ms", "of", "all", "module"]
    assert {line.split()[-1] for line in (first, second)} == {"a.onnx", "b.onnx"}
    assert note == "passes in an executor (--executor) are not observed, so only models are timed"


def test_timing_json_counts_failed_models(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    (tmp_path / "b.onnx").write_bytes((tmp_path / "b.onnx").read_bytes()[:40])
    (tmp_path / "c.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { %x }\n')
    times = tmp_path / "times.json"
    options = ["-p", "InferType", "--executor", "thread", "--timing=json", "--timing-output", times]
    result = apass("opt", tmp_path, "-o", tmp_path / "out", *options)
    assert result.exit_code == 1
    passes = json.loads(times.read_text())["passes"]
    models = [(entry["module"], entry["calls"], entry["failed"], entry["children"]) for entry in passes]
    assert sorted(models) == [("a.onnx", 1, 1, []), ("c.relay", 1, 0, [])]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python has interpreters")
def test_interpreter_executor_needs_python_3_13(tmp_path: Path) -> None:
    result = apass("opt", write_model(tmp_path / "a.onnx"), "--executor", "interpreter")
    assert (result.exit_code, "requires Python 3.13 or later" in result.stderr) == (2, True)
