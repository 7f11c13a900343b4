"""Outputs that cannot be written: the file is named, and nothing is half-written."""

from pathlib import Path

import pytest

from tests.helpers.command_line import apass, process, program
from tests.helpers.folders import files

FULL = Path("/dev/full")
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))"
"""Makes every write beyond a size fail as on a full disk; Python ignores the signal."""
SMALL = 500
"""A size that the result of `PROGRAM` fits in."""


def run_limited(*arguments: object, size: int = SMALL) -> tuple[int, str, str]:
    """Run the command line with a limit of the size of files."""
    return process(*arguments, body=LIMITED.format(size=size))


@pytest.mark.process
@pytest.mark.parametrize("option", ["--report", "--trace", "--timing-output"])
def test_failed_output_is_named_and_has_own_status(option: str, tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    output = tmp_path / "x" / "output"
    more = ["--timing=json"] if option == "--timing-output" else []
    status, out, err = run_limited("opt", model, "-o", tmp_path / "out", option, output, *more)
    assert (status, err) == (4, f"apass: {option} cannot write {output}: File too large\n")
    assert "1 of 1 models written" in out
    assert files(tmp_path) == ["m.relay", "out/m.relay"]


def test_every_failed_output_is_reported(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    result = apass("opt", model, "--timing", "--timing-output", FULL, "--report", FULL)
    assert result.exit_code == 4
    assert [line.split()[1] for line in result.stderr.splitlines()] == ["--timing-output", "--report"]
    assert files(tmp_path) == ["m.opt.relay", "m.relay"]


def test_failed_model_takes_precedence(tmp_path: Path) -> None:
    program(tmp_path / "m.relay", "no program")
    result = apass("opt", tmp_path / "m.relay", "--report", FULL)
    assert (result.exit_code, "apass: --report" in result.stderr) == (1, True)


@pytest.mark.process
@pytest.mark.slow
def test_failed_model_names_its_file(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    status, out, err = run_limited("opt", model, "-o", tmp_path / "out", size=20)
    assert (status, f"[Errno 27] File too large: '{tmp_path}/out/m.relay'" in out) == (1, True), err
    assert files(tmp_path) == ["m.relay"]


@pytest.mark.process
@pytest.mark.parametrize("option", ["--dump-ir", "--reproducer", "--journal"])
def test_failed_file_of_a_model_is_named(option: str, tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    output = tmp_path / "x"
    pipeline = "onnx.Checker" if option == "--reproducer" else "InferType"
    status, out, err = run_limited("opt", model, "-o", tmp_path / "out", option, output, "-p", pipeline, size=30)
    text = out + err
    assert status in (1, 2), text
    assert str(output) in text
    assert [name for name in files(tmp_path) if name not in ("m.relay", "x")] == []


@pytest.mark.process
@pytest.mark.slow
def test_reduce_names_its_output(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    folder = tmp_path / "r"
    result = apass("opt", model, "-o", tmp_path / "out", "-p", "onnx.Checker", "--reproducer", folder)
    assert result.exit_code == 1
    (inner,) = folder.glob("*/*")
    status, _, err = run_limited("reduce", inner, "-o", tmp_path / "small")
    assert (status, err) == (4, f"apass: reduce cannot write {tmp_path / 'small'}: File too large\n")
    assert not (tmp_path / "small").exists()


@pytest.mark.process
def test_bisect_names_its_output(tmp_path: Path) -> None:
    model = program(tmp_path / "m.relay")
    arguments = ["bisect", model, "-p", "FoldConstant", "--check", "grep -q 2f", "-o", tmp_path / "b"]
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "m.before.relay").mkdir()
    status, out, err = process(*arguments)
    assert (status, "the first bad pass is" in out) == (4, True)
    assert err.startswith(f"apass: --output cannot write {tmp_path}/b/m.before.relay: ")
