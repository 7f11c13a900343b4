"""`apass opt --dump-ir`, and `--resume-from`."""

import shlex
from pathlib import Path

import onnx

from tests.helpers.command_line import apass, nodes_of, write_model

PIPELINE = "onnx.NameFix,Repeat{times=2}(onnx.IdentityElimination),onnx.RemoveUnusedNodes"


def test_resume_commands_in_dumps_reproduce_the_result(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path / "m.onnx", "-p", PIPELINE, "--dump-ir", tmp_path / "dump", "--backend", backend)
    assert result.exit_code == 0, result.output
    expected = (tmp_path / "m.opt.onnx").read_bytes()
    commands = [
        line.removeprefix("# resume: apass ")
        for path in sorted((tmp_path / "dump").rglob("*.txt"))
        for line in path.read_text().splitlines()
        if line.startswith("# resume: ")
    ]
    assert len(commands) == 6
    for command in commands:
        (tmp_path / "m.opt.onnx").unlink()
        resumed = apass(*shlex.split(command))
        assert resumed.exit_code == 0, resumed.output
        assert onnx.load_from_string((tmp_path / "m.opt.onnx").read_bytes()) == onnx.load_from_string(expected)


def test_resume_uses_an_edited_dump(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    apass("opt", tmp_path / "m.onnx", "-p", PIPELINE, "--dump-ir", tmp_path / "dump")
    write_model(tmp_path / "dump/m.onnx/0_sequential/0_onnx.NameFix.onnx", identities=0)
    apass(
        "opt", tmp_path / "m.onnx", "-p", PIPELINE,
        "--resume-from", tmp_path / "dump/m.onnx/0_sequential/0_onnx.NameFix.txt",
    )  # fmt: skip
    assert nodes_of(tmp_path / "m.opt.onnx") == ["Relu", "Neg"]


def test_resume_errors_are_one_line(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    missing = apass("opt", tmp_path / "m.onnx", "--resume-from", tmp_path / "no.txt")
    assert (missing.exit_code, missing.stderr) == (
        2,
        f"apass: cannot resume from '{tmp_path / 'no.txt'}': No such file or directory\n",
    )
    write_model(tmp_path / "n.onnx")
    several = apass("opt", tmp_path, "--resume-from", tmp_path / "no.txt")
    assert (several.exit_code, several.stderr) == (
        2,
        "apass: --resume-from takes one model, got 2; name the model that was dumped\n",
    )
