"""`apass opt --verify` and `--check-changes`."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import apass as core
from apass.adapters.onnx import save_model
from tests.helpers.command_line import apass, write_model
from tests.helpers.onnx_models import model_of
from tests.helpers.rows import row


@pytest.fixture
def _passes() -> Iterator[None]:
    """Register a pass that breaks a model, and a pass that modifies its input."""

    def remove_node(mod: Any, ctx: core.PassContext) -> Any:
        mod.graph.remove(mod.graph[-1])
        return mod

    def remove_node_of_copy(mod: Any, ctx: core.PassContext) -> Any:
        return remove_node(mod.clone(), ctx)

    for name, function in (("test.InPlace", remove_node), ("test.Break", remove_node_of_copy)):
        core.register_pass(name, _factory(function, name))
    yield
    for name in ("test.InPlace", "test.Break"):
        core.unregister_pass(name)


def _factory(function: Callable[[Any, core.PassContext], Any], name: str) -> Callable[[], core.Pass[Any]]:
    def create() -> core.Pass[Any]:
        return core.module_pass(function, opt_level=0, name=name)

    return create


@pytest.mark.usefixtures("_passes")
def test_verify_names_the_pass_that_breaks_a_model(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    pipeline = "onnx.NameFix,test.Break,onnx.IdentityElimination"
    result = apass("opt", tmp_path, "-p", pipeline, "--verify", "changed")
    assert (result.exit_code, [path.name for path in tmp_path.iterdir()]) == (1, ["m.onnx"])
    assert "VerifyError: pass 'test.Break' broke the module:" in result.stdout
    assert "-   [node_3] y = Neg (v2)" in result.stdout


@pytest.mark.usefixtures("_passes")
def test_debug_reports_mistakes_with_their_place(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-p", "test.InPlace", "--debug")
    assert result.exit_code == 1
    shown = result.stdout[result.stdout.index("failed m.onnx") :].splitlines()
    assert shown[0] == "failed m.onnx: in pass 'sequential > test.InPlace', module 'm.onnx'"
    assert shown[1].startswith("    VerifyError: pass 'test.InPlace' ")
    assert shown[-2].startswith("    pass 'test.InPlace' is defined at tests/cli/test_verifying.py:")


@pytest.mark.usefixtures("_passes")
def test_check_changes_names_pass_that_modifies_its_input(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "-p", "onnx.NameFix,test.InPlace", "--check-changes")
    assert result.exit_code == 1
    assert "pass 'test.InPlace' changed its input in place ('main')" in result.stdout


def test_verify_accepts_correct_passes(tmp_path: Path, backend: str) -> None:
    write_model(tmp_path / "m.onnx")
    result = apass("opt", tmp_path, "--verify", "always", "--check-changes", "--backend", backend)
    assert result.exit_code == 0, result.output


@pytest.mark.process
@pytest.mark.usefixtures("_passes")
def test_outputs_are_compared_with_the_file(tmp_path: Path) -> None:
    """A pass that changes its input in place leaves no model to compare with."""

    def negate(mod: Any, ctx: core.PassContext) -> Any:
        mod.graph[0].op_type = "Abs"
        return mod

    core.register_pass("test.Negate", _factory(negate, "test.Negate"))
    try:
        write_model(tmp_path / "m.onnx")
        for pipeline in ("test.Negate", "onnx.Default,test.Negate,onnx.Simplify"):
            options = ["-p", pipeline, "-o", tmp_path / "o.onnx", "--verify-outputs"]
            result = apass("opt", tmp_path / "m.onnx", *options)
            assert result.exit_code == 1, result.output
            assert "OutputsChangedError: the result computes something else: outputs changed: " in result.stdout
            assert not (tmp_path / "o.onnx").exists()
            each = apass("opt", tmp_path / "m.onnx", "-p", pipeline, "-o", tmp_path / "o.onnx", "--verify-outputs=each")
            assert "VerifyError: pass 'test.Negate' changed its input in place ('main')" in each.stdout
            compared = apass("opt", tmp_path / "m.onnx", "--compare", pipeline, "onnx.Default")
            assert "1 changed" in compared.stdout, compared.stdout
            assert "1 equal" in compared.stdout, compared.stdout
    finally:
        core.unregister_pass("test.Negate")


@pytest.mark.process
def test_inputs_of_the_comparison_can_be_given(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    text = "g (float[N,M] x) => (float[a,b] y) { p = Relu(x) q = Identity(p) y = Neg(q) }"
    save_model(model_of(text), path)
    np.savez(tmp_path / "x.npz", x=np.ones((3, 5), np.float32))
    np.savez(tmp_path / "z.npz", z=np.ones((3, 5), np.float32))
    for options in (["--input-shape", "x=5,6"], ["--inputs", tmp_path / "x.npz"], ["--require-verified"]):
        result = apass("opt", path, "-o", tmp_path / "o.onnx", *options)
        assert result.exit_code == 0, result.output
        assert "ok outputs equal" in result.stdout
    rows = {
        ("--input-shape", "x=5"): (1, "the shape [5] is given for input 'x', expected 2 dimensions"),
        ("--input-shape", "z=5"): (1, "the model has no input 'z'; its inputs are 'x'"),
        ("--input-shape", "x=5,-1"): (2, "--input-shape takes NAME=SIZES with sizes of at least 0"),
        ("--inputs", str(tmp_path / "z.npz")): (1, "the model has no input 'z'; its inputs are 'x'"),
        ("--inputs", str(tmp_path / "none.npz")): (2, "none.npz: No such file"),
        ("--inputs", str(path)): (2, "is not an .npz file of plain arrays"),
        ("--inputs", str(tmp_path / "x.npz"), "--input-shape", "x=5,6"): (2, "--input-shape cannot be used with"),
    }
    for arguments, (status, message) in rows.items():
        with row(arguments):
            result = apass("opt", path, "-o", tmp_path / "bad.onnx", *arguments)
            assert result.exit_code == status, result.output
            assert message in result.output
            assert not (tmp_path / "bad.onnx").exists()


@pytest.mark.process
def test_unverified_outputs_are_yellow_or_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    save_model(model_of("g (float[4] x) => (float[4] y) { p = Rellu(x) q = Identity(p) y = Neg(q) }"), path)
    common = ["opt", path, "-p", "onnx.IdentityElimination", "-o", tmp_path / "o.onnx"]
    result = apass(*common, "--verify-outputs", "--output-format", "json")
    (line,) = map(json.loads, result.stdout.splitlines())
    assert (line["outcome"], line["outputs"]) == ("changed", "not verified")
    shown = apass(*common, "--verify-outputs", "--color", "always")
    assert "\x1b[33mnot verified\x1b[0m" in shown.stdout
    assert "m.onnx: outputs not verified: evaluated neither before nor after" in shown.stdout
    required = apass(*common, "--require-verified")
    assert required.exit_code == 1
    assert "NotComparedError: outputs not verified: " in required.stdout
