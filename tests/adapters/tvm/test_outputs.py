"""Comparing outputs of modules of TVM, and the commands on its files."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from anyio import CapacityLimiter

import apass
from apass.adapters.tvm import ADAPTER, IRModule, from_script, to_script
from apass.adapters.tvm.library import tvm
from apass.adapters.tvm.outputs import compare_outputs
from apass.batch.formats import format_of
from tests.helpers.command_line import apass as command
from tests.helpers.command_line import write_model
from tests.helpers.folders import files
from tests.helpers.rows import row
from tests.helpers.tvm_modules import mixed, shared

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.relax").write_bytes(ADAPTER.dumps(shared()))
    return tmp_path


def read(path: Path) -> IRModule:
    return ADAPTER.loads(path.read_bytes())


@pytest.mark.anyio
@pytest.mark.slow
async def test_equal_outputs_of_a_lowered_module() -> None:
    lowered = await apass.parse_pipeline("tvm.Default,tvm.pipeline.zero")(shared())
    assert not ADAPTER.equal(lowered, shared())
    compared = await compare_outputs(shared(), lowered)
    assert (compared.changed, compared.text) == (False, "outputs equal: first, second")


@pytest.mark.anyio
@pytest.mark.slow
async def test_changed_meaning_is_found() -> None:
    wrong = from_script(to_script(shared()).replace("R.add(d, e)", "R.subtract(d, e)"))
    compared = await compare_outputs(shared(), wrong)
    assert compared.changed
    assert compared.text.startswith("outputs changed: those of second: array 0 by up to ")


def far(body: str) -> IRModule:
    """Return a module whose function computes a body and its positive part."""
    return from_script(f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        a = {body}
        return R.nn.relu(a)
""")


@pytest.mark.anyio
@pytest.mark.slow
async def test_other_inputs_are_tried_if_outputs_show_little() -> None:
    before = far('R.subtract(x, R.const(50, "float32"))')
    found = await compare_outputs(before, far('R.subtract(R.add(x, x), R.const(50, "float32"))'))
    assert found.changed
    assert found.text.startswith("outputs changed: those of main: with large inputs, array 0 by up to ")
    assert (await compare_outputs(before, before)).text == "outputs equal: main"
    never = far("R.subtract(x, x)")
    remark = "array 0 of main has the same value 0 in all elements, which shows little"
    assert (await compare_outputs(never, never)).text == f"outputs equal: main; {remark}"


def without_second(mod: IRModule) -> IRModule:
    result = mod.clone()
    del result["second"]
    return result


def of_five(mod: IRModule) -> IRModule:
    return from_script(to_script(mod).replace("(4,)", "(5,)"))


def aborts(mod: IRModule) -> IRModule:
    text = """
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def kernel(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        T.evaluate(T.call_extern("int32", "abort"))

    @R.function
    def first(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
        r = R.call_tir(cls.kernel, (x,), out_ty=R.Tensor((4,), "float32"))
        return r

    @R.function
    def second(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.add(x, x)
"""
    return from_script(text)


CANNOT_RUN: dict[Callable[[IRModule], IRModule], str] = {
    without_second: "second cannot run after: AttributeError: Module has no function 'second'",
    of_five: "first cannot run after: RuntimeError: Check failed",
    aborts: "only the module before could run; after, the worker process died (SIGABRT)",
}
"""Changes after which a module cannot run, with the difference."""


@pytest.mark.anyio
@pytest.mark.slow
async def test_result_that_cannot_run_is_changed() -> None:
    for change, reason in CANNOT_RUN.items():
        with row(change.__name__):
            compared = await format_of(Path("m.relax")).compare_outputs(shared(), change(shared()), CapacityLimiter(1))
            assert compared.changed
            assert compared.text.startswith(f"outputs changed: {reason}")


@pytest.mark.anyio
async def test_code_is_not_run() -> None:
    extern = shared()
    extern["extern"] = tvm.relax.ExternFunc("runtime.something")
    for mod, reason in (
        (mixed(), "'scale' is a TIR function, which is code that could do anything"),
        (extern, "'extern' is a function of a library, which is code that could do anything"),
        (tvm.IRModule({}), "the module has no public function"),
    ):
        compared = await compare_outputs(mod, mod)
        assert (compared.changed, compared.text) == (None, f"outputs not verified: {reason}")


@pytest.mark.slow
def test_opt_reads_and_writes_modules(folder: Path) -> None:
    result = command("opt", folder / "m.relax", "-o", folder / "o.relax", "--verify-outputs", "--verify=always")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "outputs equal" in result.stdout
    expected = apass.run("tvm.Default", shared())
    assert ADAPTER.equal(read(folder / "o.relax"), expected)
    assert not ADAPTER.equal(expected, shared())


def test_opt_imports_onnx_models(tmp_path: Path) -> None:
    write_model(tmp_path / "m.onnx")
    result = command("opt", tmp_path / "m.onnx", "--to", "relax", "-o", tmp_path / "out", "-p", "tvm.pipeline.zero")
    assert (result.exit_code, files(tmp_path)) == (0, ["m.onnx", "out/m.relax"])
    machine = tvm.relax.VirtualMachine(tvm.compile(read(tmp_path / "out/m.relax"), target="llvm"), tvm.cpu())
    output = machine["main"](tvm.runtime.tensor(np.array([-1.0, 2.0], "float32")))
    assert output.numpy().tolist() == [-0.0, -2.0]
    assert command("convert", tmp_path / "m.onnx", tmp_path / "m.relax").exit_code == 0
    assert [name for name, _ in ADAPTER.functions(read(tmp_path / "m.relax"))] == ["main"]


@pytest.mark.slow
def test_other_files_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.relax").write_text("{}")
    (tmp_path / "m.onnx").write_text("no model")
    result = command("opt", tmp_path / "m.relax")
    assert (result.exit_code, "not a module in TVM's JSON format" in result.output) == (1, True)
    result = command("convert", tmp_path / "m.onnx", tmp_path / "n.relax")
    assert (result.exit_code, "not an ONNX model in the format" in result.output) == (1, True)


BROKEN = """
import apass
from apass.adapters.tvm import ADAPTER, from_script, to_script

@apass.module_pass(opt_level=0, name="Broken")
def broken(mod, ctx):
    return from_script(to_script(mod).replace("R.exp", "R.log"))

@apass.module_pass(opt_level=0, name="Fails")
def fails(mod, ctx):
    if "R.exp" in to_script(mod):
        raise ValueError("exp is not supported")
    return mod

apass.register_pass("Broken", broken)
apass.register_pass("Fails", fails)
"""


@pytest.fixture
def broken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a file that registers the passes."""
    monkeypatch.setattr("apass.loading.user_modules._LOADED", {})
    monkeypatch.setattr("apass.concurrency.processes.pool._IMPORTED", [])
    path = folder / f"{folder.name}.py"
    path.write_text(BROKEN)
    yield path
    for name in ("Broken", "Fails"):
        apass.unregister_pass(name)


def test_bisect_finds_a_broken_pass(folder: Path, broken: Path) -> None:
    (folder / "check.py").write_text("import sys; sys.exit('relax.log' in open(sys.argv[1]).read())")
    result = command(
        *("bisect", folder / "m.relax", "--load", broken),
        *("-p", "tvm.relax.CanonicalizeBindings,Broken,tvm.relax.Normalize"),
        *("--check", f"{sys.executable} {folder / 'check.py'}"),
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Broken" in result.stdout
    assert '+        unused: R.Tensor((4,), dtype="float32") = R.log(x)' in result.stdout


def test_reduce_shrinks_a_failing_module(folder: Path, broken: Path) -> None:
    load = ("--load", broken)
    failed = command("opt", folder / "m.relax", *load, "-p", "Fails", "--reproducer", folder / "failed")
    assert failed.exit_code == 1
    (reproducer,) = (folder / "failed/m.relax").iterdir()
    result = command("reduce", reproducer, *load, "-o", folder / "reduced")
    assert result.exit_code == 0, result.stderr
    (data,) = (folder / "reduced").glob("*.relax")
    reduced: Any = read(data)
    ADAPTER.verify(reduced)
    assert [name for name, _ in ADAPTER.functions(reduced)] == ["first"], result.stdout
    text = to_script(reduced)
    assert (text.count("R.exp("), text.count(" = R.")) == (1, 1), text
