"""Commands that take the command lines of other compilers."""

import subprocess
from pathlib import Path

import pytest

from apass.adapters.programs import MLIR_OPT, OPT
from tests.helpers.command_line import apass
from tests.helpers.llvm_modules import TEXTS, needs_opt
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, script

pytestmark = pytest.mark.process


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
