"""Output to a full device: one line on standard error; the models are written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, nodes_of, write_model
from tests.helpers.folders import files
from tests.helpers.repository import ROOT

FULL = Path("/dev/full")


def run_into_full_device(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line with a full device as standard output."""
    command = [sys.executable, "-c", "from apass.cli import main; main()", *map(str, arguments)]
    with FULL.open("w") as full:
        return subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("command", ["opt", "passes"])
def test_full_output_is_reported(tmp_path: Path, command: str) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = run_into_full_device(*((command, model) if command == "opt" else (command,)))
    message = "apass: cannot write the output: No space left on device\n"
    assert (result.returncode, result.stderr) == (4, message)
    if command == "opt":
        assert nodes_of(tmp_path / "m.opt.onnx") == ["Relu", "Neg"]


def test_full_timing_output_is_reported(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--timing", "--timing-output", FULL)
    assert result.stderr == "apass: --timing-output cannot write /dev/full: No space left on device\n"
    assert files(tmp_path) == ["m.onnx", "m.opt.onnx"]


def test_invalid_timing_output_is_rejected_before_the_run(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--timing", "--timing-output", model / "times.txt")
    message = f"apass: --timing-output cannot write {model}/times.txt: File exists\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
    assert files(tmp_path) == ["m.onnx"]
