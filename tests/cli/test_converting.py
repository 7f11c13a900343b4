"""The commands with pipelines that convert models to another IR."""

from pathlib import Path

import pytest

from apass.adapters.llvm import Module
from tests.helpers import command_line
from tests.helpers.command_line import apass

PIPELINE = "onnx.Default,tvm.FromONNX,tvm.ToLLVM,llvm.O1"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of an ONNX model."""
    monkeypatch.setenv("COLUMNS", "200")  # of the tables
    return command_line.write_model(tmp_path / "m.onnx")


@pytest.mark.parametrize("name", ["out.ll", "out.bc"])
def test_opt_writes_the_ir_of_the_result(model: Path, name: str) -> None:
    output = model.with_name(name)
    done = apass("opt", model, "-p", PIPELINE, "-o", output, "--verify-outputs")
    assert done.exit_code == 0
    assert "outputs not verified: the pipeline converts the model to another IR" in done.output
    data = output.read_bytes()
    mod = Module.parse(data.decode()) if name == "out.ll" else Module.from_bitcode(data)
    assert "__tvm_ffi_relu" in mod.functions


def test_opt_converts_to_a_folder_of_results(model: Path) -> None:
    folder = model.parent / "results"
    assert apass("opt", model, "-p", PIPELINE, "--to", "ll", "-o", folder).exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["m.ll"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", PIPELINE, "-o", "out"], "returns a model for .ll files, which cannot be written as .onnx; name the"),
        (["-p", PIPELINE, "-o", "out.relax"], "returns a model for .ll files, which cannot be written as .relax; name"),
        (["-p", "onnx.Default", "-o", "out.ll"], "cannot be converted to a .ll file; supported conversions: "),
        (
            ["--to", "llvm", "-o", "out.ll"],
            "--to llvm names no format of model files; expected one of bc, json, ll, mlir, ",
        ),
        (["-o", "out.ll"], "cannot be converted to a .ll file; supported conversions: "),
    ],
)
def test_wrong_formats_stop_before_the_run(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(model.parent)
    done = apass("opt", model, *arguments)
    assert (done.exit_code, list(model.parent.iterdir())) == (2, [model])
    assert message in done.output


def test_skipped_conversion_writes_no_other_ir(model: Path) -> None:
    output = model.with_name("out.ll")
    done = apass("opt", model, "-p", PIPELINE, "-o", output, "--opt-bisect-limit", 0)
    assert (done.exit_code, output.exists()) == (1, False)
    assert "which cannot be written as .ll" in done.output


def test_conversion_results_are_cached(model: Path) -> None:
    texts: list[str] = []
    outputs: list[str] = []
    for name in ("computed.ll", "first.ll", "stored.ll"):
        cache = [] if name == "computed.ll" else ["--cache", model.with_name("cache.db")]
        done = apass("opt", model, "-p", PIPELINE, "-o", model.with_name(name), *cache)
        texts.append(model.with_name(name).read_text())
        outputs.append(done.output)
    assert ["(cached)" in output for output in outputs] == [False, False, True]
    assert texts[0] == texts[1] == texts[2]


def test_bisect_checks_files_of_the_new_ir(model: Path) -> None:
    check = "sh -c 'case {} in *.ll) exit 1;; esac'"
    done = apass("bisect", model, "-p", PIPELINE, "--check", check, "-o", model.parent / "bisected")
    assert done.exit_code == 0
    assert "tvm.ToLLVM" in done.output
    names = sorted(path.name for path in (model.parent / "bisected").iterdir())
    assert names == ["m.after.ll", "m.before.relax"]


def test_reproducer_of_a_conversion_is_replayed(model: Path) -> None:
    folder = model.parent / "reproducer"
    pipeline = "tvm.FromONNX,tvm.ToLLVM{target=abacus}"
    done = apass("opt", model, "-p", pipeline, "-o", model.with_name("out.ll"), "--reproducer", folder)
    assert done.exit_code == 1
    (record,) = folder.rglob("reproducer.json")
    refused = apass("replay", record.parent)
    assert (
        "option 'target' of pass 'tvm.ToLLVM' reads or writes files; if you trust the folder, allow" in refused.output
    )
    replayed = apass("replay", record.parent, "--allow", "tvm.ToLLVM{target}")
    assert "TVM cannot compile the module for target 'abacus'" in replayed.output
