"""`apass opt --executor`: models optimized elsewhere than in the event loop."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.models import apass, files, nodes_of, write_model


@pytest.mark.parametrize(("executor", "backend"), [("thread", "trio"), ("process", "asyncio")])
def test_models_are_optimized_there_and_written_here(tmp_path: Path, executor: str, backend: str) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--executor", executor, "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    assert files(tmp_path / "out") == ["a.onnx", "b.onnx"]
    assert {tuple(nodes_of(one)) for one in (tmp_path / "out").iterdir()} == {("Relu", "Neg")}


def test_a_pass_that_fails_there_fails_its_model_alone(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    result = apass("opt", tmp_path / "a.onnx", "-p", "onnx.TopologicalSort,InferType", "--executor", "thread")
    assert result.exit_code == 1
    assert "InferType" in result.output
    assert files(tmp_path) == ["a.onnx"]


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (["proces"], "no executor 'proces'; did you mean 'process'?"),
        (["mars"], "no executor 'mars'; known are process, thread, interpreter, dask and dask://HOST:PORT"),
        (["dask://"], "--executor dask:// lacks the address of a scheduler: dask://HOST:PORT, or dask alone"),
        (
            ["process", "--trace", "t.json", "--progress"],
            "--executor sends models elsewhere, where --trace, --progress would see nothing; leave it out",
        ),
        (
            ["process", "--timing", "--timing-functions", "3"],
            (
                "--timing-functions shows nothing here: the passes run elsewhere (--executor), so only whole models "
                "are timed"
            ),
        ),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_begun(tmp_path: Path, given: list[str], complaint: str) -> None:
    model = write_model(tmp_path / "a.onnx")
    result = apass("opt", model, "--executor", *given)
    assert (result.exit_code, complaint in result.stderr) == (2, True), result.stderr
    assert files(tmp_path) == ["a.onnx"]


@pytest.mark.parametrize("form", ["", "=list"])
def test_whole_models_are_timed(tmp_path: Path, form: str) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--executor", "thread", f"--timing{form}")
    assert (result.exit_code, result.stderr) == (0, "")
    *_, header, first, second, note = result.stdout.splitlines()
    assert header.split() == ["wall", "ms", "busy", "ms", "waiting", "ms", "of", "all", "module"]
    assert {line.split()[-1] for line in (first, second)} == {"a.onnx", "b.onnx"}
    assert note == "the passes run elsewhere (--executor), so only whole models are timed"


def test_whole_models_are_timed_as_json_with_failed_ones(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / f"{name}.onnx")
    (tmp_path / "b.onnx").write_bytes((tmp_path / "b.onnx").read_bytes()[:40])
    (tmp_path / "c.relay").write_text('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { %x }\n')
    times = tmp_path / "times.json"
    options = ["-p", "InferType", "--executor", "thread", "--timing=json", "--timing-output", times]
    result = apass("opt", tmp_path, "-o", tmp_path / "out", *options)
    assert result.exit_code == 1
    found = [
        (one["module"], one["calls"], one["failed"], one["children"]) for one in json.loads(times.read_text())["passes"]
    ]
    assert sorted(found) == [("a.onnx", 1, 1, []), ("c.relay", 1, 0, [])]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="this Python has interpreters")
def test_an_older_python_has_no_interpreters(tmp_path: Path) -> None:
    result = apass("opt", write_model(tmp_path / "a.onnx"), "--executor", "interpreter")
    assert (result.exit_code, "need Python 3.13 or later" in result.stderr) == (2, True)
