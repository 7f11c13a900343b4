"""`.mlir` files on the command line."""

import json
from pathlib import Path

import pytest

from tests.helpers.command_line import apass, process, write_model
from tests.helpers.folders import files
from tests.helpers.xdsl_modules import CALLS, SIMPLE, SUMS, UNKNOWN

INVALID = "func.func @f(%a: i32) -> i32 {\n  func.return\n}\n"


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """Return a file of one function."""
    path = tmp_path / "sums.mlir"
    path.write_text(SUMS)
    return path


def test_default_pipeline_writes_text(sums: Path) -> None:
    result = apass("opt", sums, "-o", sums.with_name("out.mlir"))
    assert (result.exit_code, sums.with_name("out.mlir").read_text()) == (0, SIMPLE)
    assert "8 -> 4" in result.stdout
    piped = apass("opt", "-", "--from", "mlir", stdin=SUMS.encode())
    assert (piped.exit_code, piped.stdout) == (0, SIMPLE)


def test_unchanged_file_is_printed(tmp_path: Path) -> None:
    (tmp_path / "simple.mlir").write_text(f"// a comment\n{SIMPLE}")
    assert apass("opt", tmp_path / "simple.mlir", "-o", "-").stdout == SIMPLE


def test_locations_and_names_are_written(tmp_path: Path) -> None:
    (tmp_path / "calls.mlir").write_text(CALLS)
    arguments = ("opt", tmp_path / "calls.mlir", "-p", "xdsl.lower-affine", "-o", "-")
    assert '%sum = arith.addi %a, %called : i32 loc("kernel.c":1:2)' in apass(*arguments).stdout
    assert "loc(" not in apass(*arguments, "--config", "xdsl.print_locations=false").stdout
    assert '%sum = "arith.addi"(%a, %called)' in apass(*arguments, "--config", "xdsl.print_generic=true").stdout


def test_unknown_dialects_need_the_config_option(tmp_path: Path) -> None:
    path = tmp_path / "unknown.mlir"
    path.write_text(UNKNOWN)
    refused = apass("opt", path, "-o", "-")
    assert refused.exit_code == 1
    assert "unknown.mlir:1:" in refused.stderr
    allowed = apass("opt", path, "-o", "-", "--config", "xdsl.allow_unregistered_dialect=true")
    assert allowed.exit_code == 0
    assert '"foo.return"(%a) {key = #foo.attribute<1>} : (!foo.type<3>) -> ()' in allowed.stdout
    assert 'blob: "0x0400000001000000"' in allowed.stdout or "blob_" in allowed.stdout


def test_invalid_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "invalid.mlir").write_text(INVALID)
    result = apass("opt", tmp_path / "invalid.mlir", "-o", tmp_path / "out.mlir")
    assert result.exit_code == 1
    assert "invalid.mlir is not a valid module of xDSL" in result.stdout
    assert files(tmp_path) == ["invalid.mlir"]


def test_modules_of_a_file_fail_separately(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(f"{SUMS}// -----\n{INVALID}")
    failed = apass("opt", path, "--split-input-file", "-o", tmp_path / "out.mlir")
    assert (failed.exit_code, files(tmp_path)) == (1, ["two.mlir"])
    assert "two.mlir:2: VerifyError" in failed.stdout
    assert f"{tmp_path / 'out.mlir'} was not written: a module in it failed" in failed.stderr
    written = apass("opt", path, "--split-input-file", "--verify-diagnostics", "-o", tmp_path / "out.mlir")
    assert written.exit_code == 0
    first, second = (tmp_path / "out.mlir").read_text().split("// -----\n")
    assert first == SIMPLE
    assert second.startswith(f"{path} is not a valid module of xDSL:\nExpected arguments to have the same types")


def test_errors_name_the_line_in_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(f"{SIMPLE}// -----\nfunc.func @f(\n")
    result = apass("opt", path, "--split-input-file", "-o", "-")
    assert f"cannot parse {path}:10:1" in result.stderr
    lines = apass("opt", path, "--split-input-file", "-o", tmp_path / "out.mlir", "--output-format", "json").stdout
    assert [json.loads(line)["source"] for line in lines.splitlines()] == [str(path), str(path)]


def test_split_file_is_replaced_in_place(tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(f"{SUMS}// -----\n{SUMS}")
    assert apass("opt", path, "--split-input-file", "--in-place").exit_code == 0
    assert path.read_text() == f"{SIMPLE}// -----\n{SIMPLE}"
    assert files(tmp_path) == ["two.mlir"]


def test_split_needs_a_format_of_text(tmp_path: Path) -> None:
    result = apass("opt", write_model(tmp_path / "m.onnx"), "--split-input-file")
    assert (result.exit_code, files(tmp_path)) == (2, ["m.onnx"])
    assert "m.onnx: .onnx files contain one module" in result.stderr


def test_split_excludes_a_journal(sums: Path) -> None:
    result = apass("opt", sums, "--split-input-file", "--journal", sums.with_name("journal"))
    assert result.exit_code == 2
    assert "--journal cannot be used with --split-input-file" in result.stderr


@pytest.mark.slow
def test_invalid_result_is_not_written(sums: Path, tmp_path: Path) -> None:
    (tmp_path / "spoil.py").write_text(SPOIL)
    result = process("opt", sums, "--load", tmp_path / "spoil.py", "-p", "my.Spoil", "-o", tmp_path / "out.mlir")
    assert (result[0], (tmp_path / "out.mlir").exists()) == (1, False)
    assert "the result is not a valid module of xDSL" in result[1]


SPOIL = """
import apass

@apass.register_pass("my.Spoil")
@apass.module_pass(opt_level=0)
def spoil(mod, ctx):
    copy = mod.clone()
    copy.body.block.first_op.body.block.last_op.detach()
    return copy
"""
