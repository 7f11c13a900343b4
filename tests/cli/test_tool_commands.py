"""The commands that take the command lines of other compilers."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import apass
from tests.helpers.llvm_modules import TEXTS, needs_opt
from tests.helpers.mlir_modules import NEEDS_MLIR
from tests.helpers.rows import row

pytestmark = [pytest.mark.process]

COMPILERS = {"llvm-opt": "LLVM's opt", "mlir-opt": "mlir-opt", "xdsl-opt": "xdsl-opt"}
MLIR = """\
#map = affine_map<(d0) -> (d0)>
func.func @f(%a: i32) -> i32 {
  %x = arith.addi %a, %a : i32
  %y = arith.addi %a, %a : i32
  %z = arith.muli %x, %y : i32
  return %z : i32
}
"""


def process(*arguments: object, text: str = "") -> tuple[int, str, str]:
    """Run a program, and return its exit status and its outputs."""
    done = subprocess.run([str(a) for a in arguments], input=text, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def command(*arguments: object, text: str = "") -> tuple[int, str, str]:
    """Run the command line of apass in a new process."""
    return process(sys.executable, "-m", "apass", *arguments, text=text)


@NEEDS_MLIR
def test_mlir_opt_itself_runs_without_own_options(tmp_path: Path) -> None:
    from apass.adapters.programs import MLIR_OPT

    path = tmp_path / "m.mlir"
    path.write_text(MLIR)
    for line in (
        [path, "--cse", "--canonicalize"],
        [path, "-cse", "-split-input-file", "--mlir-print-ir-after-all"],
        [path, "--pass-pipeline=builtin.module(func.func(cse))", "--mlir-print-op-generic"],
        [path, "--csee"],
        ["--cse"],
        [path, "--verify-diagnostics", "--cse"],
    ):
        with row(line):
            assert command("mlir-opt", *line, text=MLIR) == process(MLIR_OPT.find(), *line, text=MLIR)


@NEEDS_MLIR
def test_own_options_observe_the_passes_of_mlir_opt(tmp_path: Path) -> None:
    from apass.adapters.programs import MLIR_OPT

    path, out = tmp_path / "m.mlir", tmp_path / "out.mlir"
    path.write_text(MLIR)
    for line in (
        ["--cse", "--canonicalize"],
        ["--pass-pipeline=builtin.module(func.func(cse,canonicalize{max-iterations=3}))", "--mlir-print-op-generic"],
        ["-cse", "--mlir-print-debuginfo"],
    ):
        with row(line):
            _, expected, _ = process(MLIR_OPT.find(), path, *line)
            status, _, errors = command("mlir-opt", path, *line, "--timing=list", "-o", out)
            assert (status, out.read_text(), "mlir.cse" in errors) == (0, expected, True)
    path.write_text(f"{MLIR}// -----\n{MLIR}")
    status, _, errors = command("mlir-opt", path, "--cse", "-split-input-file", "--timing=list", "-o", out)
    assert (status, out.read_text()) == (0, process(MLIR_OPT.find(), path, "--cse", "-split-input-file")[1]), errors


@NEEDS_MLIR
def test_diagnostics_cannot_be_verified_with_own_options(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(MLIR)
    status, _, errors = command("mlir-opt", path, "--cse", "-verify-diagnostics", "--timing")
    assert (status, "-verify-diagnostics cannot be used with options of apass" in errors) == (2, True)


@needs_opt
def test_opt_runs_as_it_is_or_observed(tmp_path: Path) -> None:
    from apass.adapters.programs import OPT

    path, out = tmp_path / "m.ll", tmp_path / "out.ll"
    path.write_text(TEXTS["sum"])
    for line in (["-S", "-passes=sroa,gvn"], ["-S", "-O2"], ["-S", "-p", "function(gvn)"], ["-passes=gvnn", "-S"]):
        with row(line):
            expected = process(OPT.find(), path, *line)
            assert command("llvm-opt", path, *line) == expected
            if not expected[0]:
                status, _, errors = command("llvm-opt", path, *line, "--timing=list", "-o", out)
                assert (status, "llvm." in errors) == (0, True)
                assert out.read_text().count("\n") == expected[1].count("\n")
    assert command("llvm-opt", "-S", "-passes=gvn", text=TEXTS["sum"]) == process(
        OPT.find(), "-S", "-passes=gvn", text=TEXTS["sum"]
    )


XDSL = """\
import abc
from dataclasses import dataclass
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.passes import ModulePass
from apass.adapters.xdsl.extensions import register_dialect, register_xdsl_pass

@irdl_op_definition
class Note(IRDLOperation):
    name = "mine.note"

register_dialect(Dialect("mine", [Note], []))

@register_xdsl_pass
@dataclass(frozen=True)
class Tag(ModulePass):
    name = "tag"
    text: str = "seen"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        print("tagging")
        op.attributes["tag"] = StringAttr(self.text)
"""


def test_xdsl_opt_knows_registered_dialects_and_passes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(XDSL)
    (tmp_path / "m.mlir").write_text('"mine.note"() : () -> ()\n')
    line = ["--load", tmp_path / "mine.py", tmp_path / "m.mlir"]
    status, printed, errors = command("xdsl-opt", *line, "-p", "tag{text=x},cse")
    assert (status, printed) == (
        0, 'tagging\nbuiltin.module attributes {tag = "x"} {\n  "mine.note"() : () -> ()\n}\n\n'
    ), errors  # fmt: skip
    out = tmp_path / "out.mlir"
    status, _, errors = command("opt", *line, "-p", "xdsl:tag{text=y},cse", "-o", out)
    assert (status, 'tag = "y"' in out.read_text()) == (0, True), errors


def test_xdsl_opt_has_targets_and_own_options(tmp_path: Path) -> None:
    path = tmp_path / "m.mlir"
    path.write_text("riscv_func.func @f() {\n  riscv_func.return\n}\n")
    status, printed, errors = command("xdsl-opt", path, "-p", "cse,dce", "-t", "riscv-asm", "--timing=list")
    assert (status, "f:\n    ret" in printed) == (0, True), errors
    assert "xdsl.dce" in errors
    result = apass("xdsl-opt", path, "-p", "csee")
    assert (result.exit_code, "Unrecognized passes: ['csee']" in result.stderr) == (1, True)


def test_help_is_that_of_the_command() -> None:
    for name in COMPILERS:
        result = apass(name, "--help")
        assert (result.exit_code, f"Run the command line of {COMPILERS[name]}" in result.output) == (0, True)
