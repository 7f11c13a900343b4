"""Comparison of outputs: which functions run, and what is found."""

from pathlib import Path

import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.llvm.outputs import Signature, compare_outputs, runnable

pytestmark = pytest.mark.anyio

SAFE = """
define i32 @poly(i32 %x, i32 %y) {
  %s = alloca i32
  store i32 %x, ptr %s
  %a = load i32, ptr %s
  %b = mul i32 %a, %y
  %c = call i32 @half(i32 %b)
  ret i32 %c
}
define internal i32 @half(i32 %x) noinline {
  %r = lshr i32 %x, 1
  ret i32 %r
}
define double @norm(double %x, double %y) {
  %a = fmul double %x, %x
  %b = fmul double %y, %y
  %c = fadd double %a, %b
  %d = call double @llvm.sqrt.f64(double %c)
  ret double %d
}
define i64 @quotient(i64 %x, i64 %y) {
  %r = sdiv i64 %x, %y
  ret i64 %r
}
declare double @llvm.sqrt.f64(double)
"""


POKE = "  %p = inttoptr i64 %x to ptr\n  store i32 1, ptr %p"


def body(lines: str, more: str = "") -> str:
    return f"{more}\ndefine i64 @f(i64 %x) {{\n{lines}\n  ret i64 %x\n}}\n"


@pytest.mark.parametrize(
    "text",
    [
        body(POKE),
        body("  %r = call i32 @system(ptr @c)", '@c = constant [2 x i8] c"a\\00"\ndeclare i32 @system(ptr)'),
        body('  call void asm sideeffect "hlt", ""()'),
        body("  %a = alloca [9 x i32]\n  %p = getelementptr i32, ptr %a, i64 %x\n  store i32 1, ptr %p"),
        body("  %p = alloca ptr\n  store ptr @f, ptr %p\n  %q = load ptr, ptr %p\n  %r = call i64 %q(i64 %x)"),
        body("  %v = load i64, ptr @g", "@g = external global i64"),
        body("  %p = alloca i64, i64 %x"),
        body(
            "  %r = call i64 @g(i64 %x)",
            body(POKE).replace("@f", "@g"),
        ),
        body("  %w = sext i64 %x to i128\n  %d = sdiv i128 %w, %w"),
        body("  fence seq_cst"),
        body("  %s = call double @llvm.sin.f64(double 0.0)", "declare double @llvm.sin.f64(double)"),
        body("  call void @llvm.trap()", "declare void @llvm.trap()"),
        "define i64 @f(ptr %x) {\n  ret i64 0\n}",
        "define i64 @f(i64 %x) personality ptr null {\n  ret i64 0\n}",
        "define i64 @f(i64 %x) prologue i8 1 {\n  ret i64 0\n}",
    ],
)
async def test_functions_that_reach_anything_are_not_run(text: str) -> None:
    mod = Module.parse(text)
    assert "@f" not in runnable(mod)
    verdict = await compare_outputs(mod, mod)
    assert (verdict.changed, "not compared" in verdict.text) == (False, True)


def test_functions_of_scalars_are_runnable() -> None:
    found = runnable(Module.parse(SAFE))
    assert list(found) == ["@poly", "@half", "@norm", "@quotient"]
    assert found["@half"] == Signature("i32", True, (("i32", "%x"),))


@pytest.mark.process
@pytest.mark.slow
async def test_pipelines_keep_outputs() -> None:
    mod = Module.parse(SAFE)
    for name in ("llvm.O3", "llvm.RegToMem"):
        verdict = await compare_outputs(mod, await apass.get_pass(name)(mod))
        assert (verdict.changed, verdict.text) == (False, "outputs equal: 2 of 4 functions ran on 8 inputs each")


@pytest.mark.process
@pytest.mark.slow
async def test_changed_outputs_are_found() -> None:
    mod = Module.parse(SAFE)
    verdict = await compare_outputs(mod, Module.parse(SAFE.replace("fadd", "fsub")))
    assert verdict.changed
    assert verdict.text == "outputs changed: @norm(1.0, 1.0) is 1.4142135623730951 before, and 0.0 after"
    verdict = await compare_outputs(mod, Module.parse(SAFE.replace("mul i32 %a", "sdiv i32 %a")))
    assert verdict.text.startswith("outputs changed: @poly gives no result after, and ")


def test_ir_cannot_write_files(tmp_path: Path) -> None:
    command = f"touch {tmp_path / 'file'}"
    text = body(
        "  %r = call i32 @system(ptr @c)",
        f'@c = constant [{len(command) + 1} x i8] c"{command}\\00"\ndeclare i32 @system(ptr)',
    )
    mod = Module.parse(text)
    apass.run(apass.get_pass("llvm.O2"), mod)
    assert runnable(mod) == {}
    assert list(tmp_path.iterdir()) == []


async def test_variables_of_clang_are_understood() -> None:
    text = """
    define dso_local i32 @twice(i32 noundef %0) {
      %2 = alloca i32, align 4
      call void @llvm.lifetime.start.p0(ptr %2)
      store i32 %0, ptr %2, align 4
      %3 = load i32, ptr %2, align 4
      %4 = shl i32 %3, 1
      call void @llvm.lifetime.end.p0(ptr %2)
      ret i32 %4
    }
    """
    comparisons = [
        await compare_outputs(Module.parse(text), Module.parse(text.replace("shl", operation)))
        for operation in ("shl", "lshr")
    ]
    assert [comparison.changed for comparison in comparisons] == [False, True]
    assert comparisons[0].text == "outputs equal: 1 of 1 functions ran on 8 inputs each"
