"""The comparison of outputs by xDSL's interpreter."""

import json
from pathlib import Path

import pytest

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.outputs import compare_in_process, compare_outputs
from apass.core.ir_plugin import Comparison
from tests.helpers.command_line import apass
from tests.helpers.folders import files
from tests.helpers.xdsl_modules import CALLS, SIMPLE, SUMS, module

LOOP = """\
func.func @loop(%n: index, %array: memref<4xf32>, %tensor: tensor<2x?xi32>) -> index {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  cf.br ^head(%zero: index)
^head(%i: index):
  %next = arith.addi %i, %one : index
  %more = arith.cmpi ult, %i, %n : index
  cf.cond_br %more, ^head(%next: index), ^end
^end:
  %first = memref.load %array[%zero] : memref<4xf32>
  %sum = arith.addf %first, %first : f32
  memref.store %sum, %array[%zero] : memref<4xf32>
  func.return %i : index
}
"""


def compare(before: str, after: str) -> Comparison:
    """Compare two modules in this process."""
    return compare_in_process(ADAPTER.dumps(module(before)), ADAPTER.dumps(module(after)))


def test_simplified_function_has_the_same_results() -> None:
    assert compare(SUMS, SIMPLE) == Comparison(False, "outputs equal: sums")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("ult", "uge", "returned (2) before and (0) after"),
        ("arith.addf", "arith.mulf", "left other values in its arguments"),
    ],
    ids=["result", "memory"],
)
def test_changed_meaning_is_found(old: str, new: str, text: str) -> None:
    comparison = compare(LOOP, LOOP.replace(old, new))
    assert comparison.changed
    assert comparison.text.startswith("outputs changed: function 'loop' ")
    assert text in comparison.text


@pytest.mark.slow
def test_limit_of_operations_is_no_verdict() -> None:
    endless = LOOP.replace("%more, ^head(%next: index), ^end", "%more, ^head(%next: index), ^head(%next: index)")
    for before, after, where in ((LOOP, endless, "after: "), (endless, LOOP, "")):
        text = f"outputs not verified: loop ({where}executed more than 10,000 operations)"
        assert compare(before, after) == Comparison(None, text)


def positive_part(body: str) -> str:
    """Return a function that computes the positive part of a body."""
    return f"""
func.func @f(%x: f32) -> f32 {{
  %far = arith.constant 50.0 : f32
  %zero = arith.constant 0.0 : f32
  %y = {body} : f32
  %r = arith.maximumf %y, %zero : f32
  func.return %r : f32
}}
"""


def test_other_inputs_are_tried_if_results_show_little() -> None:
    near, sums = positive_part("arith.subf %x, %far"), positive_part("arith.addf %x, %far")
    assert compare(near, near) == Comparison(False, "outputs equal: f")
    # With numbers around 0, both results are 0.
    assert compare(near, sums.replace("50.0", "-55.0")).changed
    never = positive_part("arith.mulf %x, %zero")
    remark = "f has the same value 0.0 for all inputs, which shows little"
    assert compare(never, never) == Comparison(False, f"outputs equal: f; {remark}")


def test_unsupported_functions_are_named() -> None:
    text = "func.func @f(%x: !llvm.ptr) { func.return }"
    assert compare(text, text) == Comparison(None, "outputs not verified: f (arguments of type !llvm.ptr)")
    external = compare(CALLS, CALLS)
    assert not external.changed
    assert "Could not find external function implementation named external" in external.text
    assert compare(SUMS, SUMS.replace("%b: i32", "%b: i32, %c: i1")).text == (
        "outputs not verified: sums (its signature changed)"
    )
    assert compare("builtin.module {}", "builtin.module {}").text == "outputs not verified: no public function"


def test_integers_are_compared_modulo_their_width() -> None:
    text = "func.func @f() -> i1 {{\n  %0 = arith.constant {}\n  func.return %0 : i1\n}}"
    assert not compare(text.format("true"), text.format("-1 : i1")).changed
    assert compare(text.format("true"), text.format("false")).changed


def test_large_values_are_not_created() -> None:
    array = "func.func @f() {\n  %0 = memref.alloc() : memref<1000000x1000000xf32>\n  func.return\n}"
    assert compare(array, array).text == "outputs not verified: f (memref.alloc creates a large array)"
    shift = """func.func @f() -> i64 {
      %0 = arith.constant 4611686018427387904 : i64
      %1 = arith.shli %0, %0 : i64
      func.return %1 : i64
    }"""
    assert compare(shift, shift).text == "outputs not verified: f (arith.shli shifts by more than the width)"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.anyio
async def test_comparison_runs_in_a_worker() -> None:
    assert await compare_outputs(module(SUMS), module(SIMPLE)) == Comparison(False, "outputs equal: sums")
    endless = LOOP.replace("cmpi ult, %i, %n", "cmpi eq, %i, %i")
    late = await compare_outputs(module(endless), module(endless), time_limit=0.01)
    assert late == Comparison(None, "outputs not verified: the interpreter took longer than 0.01 s")


@pytest.mark.process
@pytest.mark.slow
def test_verify_outputs_refuses_a_changed_meaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.loading.user_modules._LOADED", {})
    monkeypatch.setattr("apass.concurrency.processes.pool._IMPORTED", [])
    path = tmp_path / "sums.mlir"
    path.write_text(SUMS)
    good = apass("opt", path, "--verify-outputs", "--output-format", "json")
    assert (good.exit_code, json.loads(good.stdout)["remark"]) == (0, "outputs equal: sums")
    (tmp_path / "xdsl_miscompile.py").write_text(
        """import apass
from xdsl.dialects import arith

class Miscompile(apass.InPlacePass, opt_level=0, name="tests.xdsl.Miscompile"):
    def transform_in_place(self, mod, ctx):
        for op in mod.walk():
            if isinstance(op, arith.MuliOp):
                op.results[0].replace_all_uses_with(op.lhs)
                return True
        return False
"""
    )
    path.write_text(SUMS.replace("addi %y, %z", "addi %unused, %z"))
    passes = ("--load", tmp_path / "xdsl_miscompile.py", "-p", "tests.xdsl.Miscompile")
    bad = apass("opt", path, "-o", tmp_path / "out", "--verify-outputs", *passes)
    assert bad.exit_code == 1
    assert "the result computes something else: outputs changed: function 'sums' returned" in " ".join(
        bad.stdout.split()
    )
    assert files(tmp_path) == ["sums.mlir", "sums.opt.mlir", "xdsl_miscompile.py"]
