"""The commands on files of MLIR."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import apass
from apass.adapters.mlir import MLIRModule, module_to_bytecode
from tests.helpers.command_line import apass as command
from tests.helpers.mlir_modules import CALLS, NEEDS_MLIR, mlir_opt

pytestmark = [NEEDS_MLIR, pytest.mark.process]

PIPELINE = "mlir.canonicalize,mlir.cse,mlir.inline"
EXPECTED = "builtin.module(canonicalize,cse,inline)"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.mlir"
    path.write_text(CALLS)
    return path


@pytest.fixture
def broken() -> Iterator[str]:
    """Register a pass that was broken on purpose: it subtracts where it should add."""

    @apass.module_pass(opt_level=0, name="test.Broken")
    def pass_(mod: MLIRModule, ctx: apass.PassContext) -> MLIRModule:
        return MLIRModule(mod.text.replace("arith.addi", "arith.subi"))

    apass.register_pass("test.Broken", pass_)
    yield "test.Broken"
    apass.unregister_pass("test.Broken")


def test_modules_of_one_file_are_optimized_separately(model: Path) -> None:
    model.write_text(f"{CALLS}// -----\n{CALLS}")
    result = command("opt", model, "-p", "mlir.canonicalize,mlir.cse", "--split-input-file", "-o", "-", "--quiet")
    expected = mlir_opt(CALLS, "builtin.module(canonicalize,cse)")
    assert [part.strip() for part in result.stdout.split("// -----")] == [expected.strip()] * 2


def test_unchanged_parts_of_a_file_are_printed(tmp_path: Path) -> None:
    # FileCheck would find its own comments in a copy.
    model = tmp_path / "m.mlir"
    model.write_text("// CHECK: f\nfunc.func @f() {\n  return\n}\n\n// -----\n// CHECK: g\nfunc.func @g() { return }\n")
    options = ["-p", "mlir.canonicalize", "--split-input-file", "-o", "-", "--quiet"]
    expected = [f"module {{\n  func.func @{name}() {{\n    return\n  }}\n}}\n" for name in "fg"]
    assert command("opt", model, *options).stdout.replace("\n\n", "\n") == "// -----\n".join(expected)


def test_printed_module_keeps_its_locations(tmp_path: Path) -> None:
    model = tmp_path / "m.mlir"
    model.write_text('func.func @f() { // a comment\n  return loc("a.py":1:2)\n}\n')
    printed = command("opt", model, "-p", "mlir.canonicalize", "-o", "-", "--quiet").stdout
    assert ('loc("a.py":1:2)' in printed or '"a.py":1:2' in printed, "comment" in printed) == (True, False)


@pytest.mark.parametrize(("first", "head"), [("xdsl.FromMLIR", "builtin.module {"), ("mlir.FromXDSL", "module {")])
def test_first_pass_that_converts_reads_its_own_ir(tmp_path: Path, first: str, head: str) -> None:
    model = tmp_path / "m.mlir"
    model.write_text(CALLS)
    passes = f"{first},{first.partition('.')[0]}.canonicalize"
    assert command("opt", model, "-p", passes, "-o", "-", "--quiet").stdout.startswith(f"{head}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--timing", "--print-changed", "--statistics"),
        ("--verify=changed",),
        ("--report=report.html",),
        ("--cache=results.db",),
        ("--journal=journal.jsonl",),
    ],
)
def test_opt_writes_the_result_of_mlir_opt(
    options: tuple[str, ...], model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(model.parent)
    for _ in range(2):
        result = command("opt", model, "-p", PIPELINE, "-o", "out/", *options)
        assert result.exit_code == 0, result.output
        assert Path("out/m.mlir").read_text() == mlir_opt(CALLS, EXPECTED)


@pytest.mark.slow
def test_opt_runs_in_worker_processes(model: Path) -> None:
    output = model.parent / "out.mlir"
    result = command("opt", model, "-p", PIPELINE, "-o", output, "--executor", "process")
    assert result.exit_code == 0, result.output
    assert output.read_text() == mlir_opt(CALLS, EXPECTED)


def test_bytecode_files_are_read_written_and_converted(model: Path) -> None:
    source, result, text = (model.parent / name for name in ("a.mlirbc", "b.mlirbc", "b.mlir"))
    source.write_bytes(module_to_bytecode(MLIRModule(CALLS)))
    for output in (result, text):
        assert command("opt", source, "-p", PIPELINE, "-o", output).exit_code == 0
    assert result.read_bytes().startswith(b"ML\xefR")
    assert text.read_text() == mlir_opt(CALLS, EXPECTED)


def test_bisect_finds_the_broken_pass(model: Path, broken: str) -> None:
    pipeline = f"mlir.cse,{broken},mlir.symbol-dce"
    check = "sh -c '! grep -q subi {}'"
    result = command("bisect", model, "-p", pipeline, "--check", check)
    assert result.exit_code == 0, result.output
    assert f"the first bad pass is (2) {broken}" in result.output


def test_changed_outputs_are_not_written(model: Path, broken: str) -> None:
    model.write_text("func.func @f(%a: i32) -> i32 {\n  %0 = arith.addi %a, %a : i32\n  return %0 : i32\n}\n")
    output = model.parent / "out.mlir"
    result = command("opt", model, "-p", f"mlir.cse,{broken}", "-o", output, "--verify-outputs")
    assert result.exit_code == 1
    assert "outputs changed: @f returned" in result.output
    assert not output.exists()


def test_pipeline_of_mlir_opt_needs_no_prefix(model: Path) -> None:
    pipeline = "builtin.module(func.func(canonicalize{max-iterations=5},cse))"
    result = command("opt", model, "-p", pipeline, "-o", "-", "--quiet")
    assert result.stdout == mlir_opt(model.read_text(), pipeline)


def test_plan_and_passes_describe_the_passes(model: Path) -> None:
    planned = command("plan", "-p", "mlir:builtin.module(func.func(cse))")
    assert "mlir.cse{anchor=func.func}" in planned.output
    listed = command("passes", "mlir.affine-loop-til*")
    assert "tile_sizes: list[int] = []" in listed.output
    assert "anchor: str = func.func" in listed.output


@pytest.mark.slow
def test_failure_is_replayed_and_reduced(model: Path) -> None:
    folder = model.parent / "reproducers"
    result = command("opt", model, "-p", "mlir.cse,mlir.test-pass-failure", "-o", "out/", "--reproducer", folder)
    assert result.exit_code == 1
    (found,) = folder.glob("m.mlir/*")
    assert command("replay", found).exit_code == 1
    reduced = command("reduce", found)
    assert reduced.exit_code == 0, reduced.output
    assert "func.func" not in (found / "reduced/module.mlir").read_text()
