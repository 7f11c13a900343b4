"""The comparison of what functions return, by `mlir-runner`."""

import re

import pytest

import apass
from apass.adapters.mlir import MLIRModule
from apass.adapters.mlir.outputs import compare_outputs
from apass.adapters.programs import MLIR_OPT
from tests.helpers.mlir_modules import NEEDS_MLIR

pytestmark = [NEEDS_MLIR, pytest.mark.process, pytest.mark.anyio]

NUMBERS = """
func.func @pair(%a: i32, %x: f64, %flag: i1) -> (i32, f64) {
  %b = arith.addi %a, %a : i32
  %y = arith.mulf %x, %x : f64
  %z = arith.select %flag, %x, %y : f64
  return %b, %z : i32, f64
}
func.func @loop(%n: index, %x: f32) -> f32 {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %sum = scf.for %i = %zero to %n step %one iter_args(%y = %x) -> f32 {
    %z = arith.addf %y, %x : f32
    scf.yield %z : f32
  }
  return %sum : f32
}
func.func private @hidden(%a: i32) -> i32 { return %a : i32 }
func.func @memory(%m: memref<4xf32>) -> memref<4xf32> { return %m : memref<4xf32> }
"""


@pytest.fixture(autouse=True)
def _needs_runner() -> None:
    if MLIR_OPT.sibling(MLIR_OPT.find(), "mlir-runner") is None:
        pytest.skip("mlir-runner is not installed")


@pytest.mark.parametrize("pipeline", ["mlir.cse", "mlir.convert-scf-to-cf,mlir.convert-to-llvm"])
async def test_passes_keep_outputs(pipeline: str) -> None:
    mod = MLIRModule(NUMBERS)
    result = await apass.parse_pipeline(pipeline)(mod)
    comparison = await compare_outputs(mod, result)
    assert comparison == apass.plugins.Comparison(False, "outputs equal: 2 of 4 functions, 4 inputs each")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("arith.addi %a, %a", "arith.subi %a, %a", r"outputs changed: @pair returned \d+ before, 0 after"),
        ("%z = arith.addf", "%z = arith.mulf", r"outputs changed: @loop returned \S+ before, \S+ after"),
        ("%flag, %x, %y", "%flag, %y, %x", r"outputs changed: @pair returned \S+ before, \S+ after"),
    ],
)
async def test_other_outputs_are_reported(before: str, after: str, message: str) -> None:
    assert before in NUMBERS
    comparison = await compare_outputs(MLIRModule(NUMBERS), MLIRModule(NUMBERS.replace(before, after)))
    assert comparison.changed
    assert re.fullmatch(message, comparison.text), comparison.text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("func.func @f(%m: memref<4xf32>) {\n  return\n}", "there is no public function of numbers in both modules"),
        ("func.func @f(%a: i32) -> i32 {\n  oops\n}", "the module before cannot be lowered to LLVM"),
        (
            'func.func @f(%a: i32) -> i32 {\n  %b = "test.cast"(%a) : (i32) -> i32\n  return %b : i32\n}',
            "mlir-runner failed on the module before",
        ),
    ],
)
async def test_reason_is_given_if_outputs_are_not_compared(text: str, reason: str) -> None:
    comparison = await compare_outputs(MLIRModule(text), MLIRModule(text))
    assert not comparison.changed
    assert comparison.text.startswith(f"outputs not verified: {reason}")


def positive_part(operation: str) -> MLIRModule:
    """Return a module whose function computes the positive part of x and 80."""
    return MLIRModule(f"""
func.func @f(%x: f32) -> f32 {{
  %far = arith.constant 80.0 : f32
  %zero = arith.constant 0.0 : f32
  %y = {operation} : f32
  %r = arith.maximumf %y, %zero : f32
  return %r : f32
}}
""")


async def test_other_inputs_are_tried_if_outputs_show_little() -> None:
    near = positive_part("arith.subf %x, %far")
    equal = "outputs equal: 1 of 1 functions, 4 inputs each"
    assert (await compare_outputs(near, near)).text == equal
    double = "%d = arith.addf %y, %y : f32\n  %r = arith.maximumf %d"
    doubled = MLIRModule(near.text.replace("%r = arith.maximumf %y", double))
    assert (await compare_outputs(near, doubled)).changed
    never = positive_part("arith.mulf %x, %zero")
    remark = "@f has the same value 0.0 for all inputs, which shows little"
    assert (await compare_outputs(never, never)).text == f"{equal}; {remark}"
