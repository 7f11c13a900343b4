"""The commands with pipelines that convert models to another IR."""

from pathlib import Path

import pytest

import apass as library
from apass.adapters.llvm import Module
from apass.core.conversions import Conversion, conversions
from apass.core.ir_plugin import irs_of_suffix, known_suffixes, plugin_for_suffix
from tests.helpers import command_line
from tests.helpers.command_line import apass
from tests.helpers.mlir_modules import NEEDS_MLIR

LLVM_DIALECT = """llvm.func @twice(%arg0: i32) -> i32 {
  %0 = llvm.add %arg0, %arg0 : i32
  llvm.return %0 : i32
}
"""
SAMPLES = {
    "llvm": "define i32 @twice(i32 %x) {\n  %y = add i32 %x, %x\n  ret i32 %y\n}\n",
    "mlir": LLVM_DIALECT,
    "xdsl": LLVM_DIALECT,
    "relay": command_line.PROGRAM,
}
"""A model of each IR whose files are text."""
PIPELINE = "onnx.Default,tvm.FromONNX,tvm.ToLLVM,llvm.O1"


def sample(folder: Path, ir: str) -> Path:
    """Write a model of an IR, and return its path."""
    if ir in SAMPLES:
        suffix = next(suffix for suffix in (".ll", ".mlir", ".relay") if ir in irs_of_suffix(suffix))
        return command_line.program(folder / f"m{suffix}", SAMPLES[ir])
    model = command_line.write_model(folder / "m.onnx")
    if ir == "onnx":
        return model
    assert apass("convert", model, folder / "m.relax").exit_code == 0
    return folder / "m.relax"


@NEEDS_MLIR
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("conversion", list(conversions()), ids=lambda conversion: conversion.name)
def test_convert_does_what_each_pass_does(tmp_path: Path, conversion: Conversion) -> None:
    path = sample(tmp_path, conversion.source)
    mod = plugin_for_suffix(path.suffix, conversion.source).read(path)
    expected = library.run(conversion.name, mod)
    results = [suffix for suffix in known_suffixes() if conversion.result in irs_of_suffix(suffix)]
    assert results
    for suffix in results:
        by_pass, by_convert, by_opt = (tmp_path / f"{name}{suffix}" for name in ("pass", "convert", "opt"))
        plugin_for_suffix(suffix, conversion.result).write(expected, by_pass)
        done = apass("convert", path, by_convert, "--from", conversion.source, "--to", conversion.result)
        assert (done.exit_code, by_convert.read_bytes()) == (0, by_pass.read_bytes()), done.output
        assert apass("opt", path, "-p", conversion.name, "-o", by_opt).exit_code == 0
        assert by_opt.read_bytes() == by_pass.read_bytes()


@pytest.mark.parametrize("arguments", [["--to", "tvm"], ["--from", "relay"]])
def test_convert_names_the_irs_of_a_suffix(tmp_path: Path, arguments: list[str]) -> None:
    path = command_line.program(tmp_path / "m.mlir", LLVM_DIALECT)
    done = apass("convert", path, tmp_path / "out.mlir", *arguments)
    assert (done.exit_code, "is no IR of .mlir files; expected one of mlir, xdsl" in done.output) == (2, True)


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
        (["-p", PIPELINE, "-o", "out.relax"], "converted to a .relax file: the pipeline returns a module of llvm"),
        (["-p", "onnx.Default", "-o", "out.json"], "to a .json file: the pipeline returns a module of onnx; .onnx fil"),
        (["-p", "llvm.O1", "-o", "out.json"], "to a .json file: the pipeline returns a module of llvm; .onnx files"),
        (["-p", "mlir.cse", "-o", "out.json"], "to a .json file: the pipeline returns a module of mlir; .onnx files"),
        (
            ["--to", "llvm", "-o", "out.ll"],
            "--to llvm names no format of model files; expected one of bc, json, ll, mlir, ",
        ),
        (["-o", "out.json"], "cannot be converted to a .json file; .onnx files can be converted to .bc, .ll, .mlir, "),
    ],
)
def test_wrong_formats_stop_before_the_run(
    model: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(model.parent)
    done = apass("opt", model, *arguments)
    assert (done.exit_code, list(model.parent.iterdir())) == (2, [model])
    assert message in done.output


@pytest.mark.parametrize(
    ("pipeline", "name", "expected"),
    [
        ("onnx.Default", "out.ll", "onnx.Default,tvm.FromONNX,tvm.ToLLVM"),
        ("tvm.Default", "out.ll", "tvm.FromONNX,tvm.Default,tvm.ToLLVM"),
        ("onnx.Default,tvm.FromONNX", "out.ll", "onnx.Default,tvm.FromONNX,tvm.ToLLVM"),
        (None, "out.relax", "tvm.FromONNX,tvm.Default"),
        ("onnx.Default", "out.relay", "onnx.Default,relay.FromONNX"),
        ("FoldConstant", "out.relax", "relay.FromONNX,FoldConstant,onnx.FromRelay,tvm.FromONNX"),
    ],
)
def test_opt_adds_the_conversions_of_a_format(model: Path, pipeline: str | None, name: str, expected: str) -> None:
    added, named = model.with_name(name), model.with_name(f"named_{name}")
    given = [] if pipeline is None else ["-p", pipeline]
    assert apass("opt", model, *given, "-o", added).exit_code == 0
    assert apass("opt", model, "-p", expected, "-o", named).exit_code == 0
    assert added.read_bytes() == named.read_bytes()


def test_opt_verifies_the_pipeline_between_conversions(model: Path) -> None:
    done = apass("opt", model, "-o", model.with_name("out.relax"), "--verify-outputs")
    assert (done.exit_code, "outputs equal" in done.output) == (0, True), done.output


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
