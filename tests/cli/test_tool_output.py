"""Command lines of `opt` and `mlir-opt` with options of apass."""

import subprocess
from pathlib import Path

import pytest

from apass.adapters.programs import MLIR_OPT, OPT, Tool
from tests.helpers.command_line import apass, run_in
from tests.helpers.llvm_modules import TEXTS, needs_opt
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, script

pytestmark = [NEEDS_MLIR, needs_opt, pytest.mark.process]

CALLER = """\
source_filename = "a.c"

define i32 @f(i32 %x) {
  %a = mul i32 %x, %x
  %b = add i32 %a, 0
  ret i32 %b
}

define i32 @g(i32 %x) {
  %r = call i32 @f(i32 %x)
  ret i32 %r
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.ll").write_text(CALLER)
    (tmp_path / "a.mlir").write_text(CALLS)
    return tmp_path


def expected(tool: Tool, folder: Path, arguments: str) -> tuple[int, str]:
    """Return the exit status and the output of the compiler itself."""
    done = subprocess.run(
        [tool.find(), *arguments.split()], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        "a.ll -S -passes=inline,instcombine",
        "a.ll -S -passes=instcombine -print-changed",
        "a.ll -S -O1 -disable-output",
        "a.ll -S",
        "a.ll -S -passes=instcombine -no-such-option",
        "a.ll -no-such-option",
        "a.mlir --canonicalize --cse",
        "a.mlir --canonicalize --mlir-print-debuginfo",
        "a.mlir",
        "a.mlir --no-such-option",
    ],
)
def test_output_is_that_of_the_compiler(folder: Path, arguments: str) -> None:
    command, tool = ("llvm-opt", OPT) if "a.ll" in arguments else ("mlir-opt", MLIR_OPT)
    status, out, err = run_in(folder, command, *arguments.split(), "--timing", "--report", "r.html")
    assert (status, out) == expected(tool, folder, arguments), err


def test_messages_go_to_standard_error(folder: Path) -> None:
    for command, arguments, shown in (
        ("llvm-opt", "a.ll -S -passes=instcombine -print-changed", "IR Dump After InstCombinePass on f"),
        ("llvm-opt", "a.ll -S -passes=instcombine -print-after-all", "IR Dump After InstCombinePass on f"),
        ("mlir-opt", "a.mlir --cse --mlir-print-ir-after-all", "IR Dump After CSE"),
    ):
        status, _, err = run_in(folder, command, *arguments.split(), "-o", "out", "--timing")
        assert status == 0
        assert shown in err
        assert "wall ms" in err


def test_cache_distinguishes_options_of_the_compiler(folder: Path) -> None:
    pipeline = "a.ll -S -passes=inline"
    for flags in ("-inline-threshold=-1000", "-inline-threshold=1000"):
        _, out, _ = run_in(folder, "llvm-opt", *pipeline.split(), flags, "--cache", "c.db")
        assert (0, out) == expected(OPT, folder, f"{pipeline} {flags}")


def test_executor_refuses_options_of_the_compiler(folder: Path) -> None:
    arguments = "a.ll -S -passes=inline -inline-threshold=-1000 --executor process"
    status, out, err = run_in(folder, "llvm-opt", *arguments.split())
    assert (status, out) == (2, "")
    assert "--executor cannot be used with -inline-threshold=-1000" in err
    assert "APASS_LLVM_ARGS" in err


def test_result_that_cannot_be_written_is_an_error(folder: Path) -> None:
    status, out, err = run_in(folder, "llvm-opt", "a.ll", "-S", "-passes=gvn", "-o", "no/a.ll", "--timing")
    assert (status, out) == (2, "")
    assert "cannot write no/a.ll: No such file or directory" in err


@needs_opt
def test_printed_module_has_no_temporary_name(tmp_path: Path) -> None:
    source, results = tmp_path / "m.ll", [tmp_path / "a.ll", tmp_path / "b.ll"]
    source.write_text(TEXTS["sum"])
    line = ["-S", "-passes=sroa,gvn"]
    with source.open() as file:
        subprocess.run([OPT.find(), *line, "-", "-o", results[0]], stdin=file, check=True)
    assert apass("llvm-opt", *line, source, "-o", results[1], "--timing").exit_code == 0
    texts = [result.read_text() for result in results]
    # The name of the source is in the bitcode.
    assert texts[1].replace(str(source), "<stdin>") == texts[0]


@needs_opt
def test_arguments_without_options_are_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    program = script(f'printf "%s\\n" "$@" > {log}; exit 3', tmp_path / "opt")
    monkeypatch.setenv(OPT.variable, str(program))
    line = ["-S", "-passes=default<O2>", "-time-passes", "a file.ll", "-o", "-"]
    assert apass("llvm-opt", *line).exit_code == 3
    assert log.read_text().splitlines() == line


@NEEDS_MLIR
def test_result_is_that_of_mlir_opt(tmp_path: Path) -> None:
    source, results = tmp_path / "m.mlir", [tmp_path / "a.mlir", tmp_path / "b.mlir"]
    source.write_text(CALLS)
    line = ["--inline", "--canonicalize=max-iterations=3", "--mlir-print-op-generic"]
    subprocess.run([MLIR_OPT.find(), source, *line, "-o", results[0]], check=True)
    assert apass("mlir-opt", source, *line, "-o", results[1], "--timing").exit_code == 0
    assert results[1].read_text() == results[0].read_text()
