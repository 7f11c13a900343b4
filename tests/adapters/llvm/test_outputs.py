"""Comparison of outputs: which functions run, and what is found."""

from itertools import product
from pathlib import Path

import pytest

import apass
from apass.adapters.llvm import Module
from apass.adapters.llvm.checked_source import Checks
from apass.adapters.llvm.outputs import Signature, compare_outputs, run_function, runnable, source_text
from apass.adapters.llvm.skeleton import plain_name
from tests.helpers.llvm_modules import TEXTS, UNNAMED
from tests.helpers.rows import row

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
        body("  %p = alloca i32\n  store i64 %x, ptr %p"),
        body("  %p = alloca i8\n  %v = load i16, ptr %p"),
        body("  %p = alloca i64\n  store i64 ptrtoint (ptr @f to i64), ptr %p"),
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
    assert (verdict.changed, "not verified" in verdict.text) == (None, True)


def test_functions_of_scalars_are_runnable() -> None:
    found = runnable(Module.parse(SAFE))
    assert list(found) == ["@poly", "@half", "@norm", "@quotient"]
    assert found["@half"] == Signature("i32", True, (("i32", "%x"),))


@pytest.mark.process
async def test_pipelines_keep_outputs() -> None:
    mod = Module.parse(SAFE)
    for name in ("llvm.O3", "llvm.reg2mem"):
        verdict = await compare_outputs(mod, await apass.get_pass(name)(mod))
        assert (verdict.changed, verdict.text) == (False, "outputs equal: 3 of 4 functions ran on up to 8 inputs each")


@pytest.mark.process
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
    assert comparisons[0].text == "outputs equal: 1 of 1 functions ran on up to 8 inputs each"


ENUM = """
define i32 @f(i32 %x) {
  switch i32 %x, label %other [
    i32 0, label %a
    i32 1, label %b
    i32 2, label %c
  ]
a:
  br label %end
b:
  br label %end
c:
  br label %end
other:
  unreachable
end:
  %r = phi i32 [ 10, %a ], [ 20, %b ], [ 30, %c ]
  ret i32 %r
}
"""
UNSET = """
define i32 @f(i32 %c, i32 %d) {
  %x = alloca i32
  %set = icmp ugt i32 %c, 1
  br i1 %set, label %then, label %end
then:
  store i32 %d, ptr %x
  br label %end
end:
  %r = load i32, ptr %x
  ret i32 %r
}
"""
FACTORIAL = """
define i32 @f(i32 %n) {
  %last = icmp sle i32 %n, 1
  br i1 %last, label %one, label %more
one:
  ret i32 1
more:
  %m = sub nsw i32 %n, 1
  %p = call i32 @f(i32 %m)
  %r = mul nsw i32 %n, %p
  %back = sdiv i32 %r, %n
  %is = icmp eq i32 %back, %p
  %same = select i1 %is, i32 %r, i32 7
  ret i32 %same
}
"""
SHIFT = """
define i32 @f(i32 %x, i32 %n) {
  %a = shl nsw i32 %x, %n
  %b = ashr i32 %a, %n
  ret i32 %b
}
"""
POWER = """
define i1 @f(i32 %x) {
  %a = mul nsw i32 %x, %x
  %b = mul nsw i32 %a, %a
  %r = icmp sge i32 %b, 0
  ret i1 %r
}
"""
NARROW = """
define i1 @f(i32 %x) {
  %y = add i32 %x, 2
  %r = trunc i32 %y to i1
  ret i1 %r
}
"""
CHECKED = {
    "enum": ENUM,
    "unset": UNSET,
    "factorial": FACTORIAL,
    "shift": SHIFT,
    "power": POWER,
    "narrow": NARROW,
}
"""Functions whose behaviour is undefined for some inputs, or whose result has unused bits."""


@pytest.mark.process
async def test_results_that_never_vary_show_little() -> None:
    text = "define i32 @zero(i32 %a) {\n  %b = and i32 %a, 0\n  ret i32 %b\n}\n"
    mod = Module.parse(text)
    verdict = await compare_outputs(mod, mod)
    assert verdict.text.endswith("inputs each; @zero has the same value 0 for all inputs, which shows little")
    # Without parameters there is one result, which shows all.
    alone = Module.parse("define i32 @one() {\n  ret i32 1\n}\n")
    assert (await compare_outputs(alone, alone)).text.endswith("inputs each")


@pytest.mark.process
async def test_undefined_inputs_give_no_alarm() -> None:
    for (name, text), pipeline in product(CHECKED.items(), ("llvm.O1", "llvm.O2,llvm.sccp")):
        mod = Module.parse(text)
        verdict = await compare_outputs(mod, await apass.parse_pipeline(pipeline)(mod))
        with row((name, pipeline)):
            assert not verdict.changed
            text, *remark = verdict.text.split("; ")
            assert text == "outputs equal: 1 of 1 functions ran on up to 8 inputs each"
            # Few powers are defined, and these are 1.
            assert bool(remark) == (name == "power")


CHANGES = [
    ("enum", "30", "31", "@f(2) is 30 before, and 31 after"),
    ("unset", "store i32 %d", "store i32 %c", "@f("),
    ("factorial", "ret i32 1", "ret i32 2", "@f(0) is 1 before, and 2 after"),
    ("narrow", "x, 2", "x, 3", "@f(0) is 0 before, and 1 after"),
]
"""The name of a text, a part of it, another part, and the difference."""


@pytest.mark.process
async def test_changes_at_defined_inputs_are_found() -> None:
    for name, old, new, message in CHANGES:
        text = CHECKED[name]
        verdict = await compare_outputs(Module.parse(text), Module.parse(text.replace(old, new)))
        with row(name):
            assert verdict.changed
            assert verdict.text.startswith(f"outputs changed: {message}")


def results(text: str, rows: list[tuple[float, ...]], token: str = "@f") -> list[float | None]:
    """Return the results of a function with checks; None where behaviour is undefined."""
    mod = Module.parse(text)
    signatures = runnable(mod)
    checks = Checks(mod.definitions.values())
    return run_function(
        source_text(mod, signatures, checks), plain_name(token), signatures[token].types, rows, checks.take
    )


MIN = -(2**31)
MAX = 2**31 - 1
EXTRACT = "%r = extractelement <2 x i32> %w, i32 %y"


@pytest.mark.parametrize(
    ("lines", "defined", "undefined"),
    [
        ("%r = add nsw i32 %x, %y", [(1, 2), (MAX, -1), (-1, 1)], [(MAX, 1), (MIN, -1)]),
        ("%r = add nuw i32 %x, %y", [(MAX, 1)], [(-1, 1)]),
        ("%r = sub nsw i32 %x, %y", [(MIN, -1)], [(MIN, 1)]),
        ("%r = sub nuw i32 %x, %y", [(-1, 1)], [(1, 2)]),
        ("%r = mul nuw nsw i32 %x, %y", [(3, 4)], [(-1, 1 << 20), (1 << 20, 1 << 12), (1 << 16, 1 << 15)]),
        ("%r = shl i32 %x, %y", [(-1, 31)], [(1, 32), (1, -1)]),
        ("%r = shl nsw i32 %x, %y", [(-1, 31)], [(1, 31)]),
        ("%r = shl nuw i32 %x, %y", [(1, 31)], [(-1, 1)]),
        ("%r = lshr exact i32 %x, %y", [(8, 3)], [(8, 4), (0, 32)]),
        ("%r = ashr exact i32 %x, %y", [(-8, 3)], [(-8, 4)]),
        ("%r = udiv i32 %x, %y", [(7, 2), (MIN, -1)], [(7, 0)]),
        ("%r = urem i32 %x, %y", [(7, 2)], [(7, 0)]),
        ("%r = sdiv i32 %x, %y", [(-7, 2), (MIN, 1), (MAX, -1)], [(7, 0), (MIN, -1)]),
        ("%r = srem i32 %x, %y", [(-7, 2)], [(7, 0), (MIN, -1)]),
        ("%r = sdiv exact i32 %x, %y", [(6, -2)], [(7, 2), (6, 0)]),
        ("%r = or disjoint i32 %x, %y", [(5, 2)], [(5, 4)]),
        ("%c = icmp samesign ult i32 %x, %y\n  %r = zext i1 %c to i32", [(1, 2), (-2, -1)], [(1, -1)]),
        ("%w = zext nneg i32 %x to i64\n  %r = trunc i64 %w to i32", [(1, 0)], [(-1, 0)]),
        ("%w = uitofp nneg i32 %x to double\n  %r = fptosi double %w to i32", [(1, 0)], [(-1, 0)]),
        ("%t = trunc nuw i32 %x to i8\n  %r = zext i8 %t to i32", [(255, 0)], [(256, 0), (-1, 0)]),
        ("%t = trunc nsw i32 %x to i8\n  %r = sext i8 %t to i32", [(-128, 0), (127, 0)], [(255, 0)]),
        ("%r = call i32 @llvm.abs.i32(i32 %x, i1 true)", [(MAX, 0)], [(MIN, 0)]),
        ("%r = call i32 @llvm.ctlz.i32(i32 %x, i1 true)", [(1, 0)], [(0, 0)]),
        ("%r = call i32 @llvm.cttz.i32(i32 %x, i1 true)", [(1, 0)], [(0, 0)]),
        ("%r = call i32 @llvm.cttz.i32(i32 %x, i1 false)", [(0, 0)], []),
        ("%r = freeze i32 poison", [], [(0, 0)]),
        ("%r = select i1 undef, i32 %x, i32 %y", [], [(0, 0)]),
        ("%r = call range(i32 0, 5) i32 @g(i32 %x)", [(4, 0)], [(5, 0), (-1, 0)]),
        ("%r = call i32 @g(i32 range(i32 -2, 5) %x)", [(-2, 0), (4, 0)], [(5, 0), (-3, 0)]),
        ("%r = call i32 @h(i32 %x)", [(9, 0), (-3, 0)], [(-1, 0), (8, 0), (-2, 0)]),
        (
            "%v = insertelement <2 x i32> splat (i32 1), i32 %x, i64 1\n  %w = add nsw <2 x i32> %v, %v\n  " + EXTRACT,
            [(1, 1)],
            [(MAX, 0), (1, 2)],
        ),
        (
            "%v = insertelement <2 x i32> splat (i32 1), i32 %x, i32 %y\n  %w = sdiv <2 x i32> %v, %v\n  " + EXTRACT,
            [(2, 0), (2, 1)],
            [(0, 1), (2, 2)],
        ),
    ],
)
def test_undefined_behaviour_is_noted(
    lines: str, defined: list[tuple[float, ...]], undefined: list[tuple[float, ...]]
) -> None:
    text = f"""
    define i32 @f(i32 %x, i32 %y) {{
      {lines}
      ret i32 %r
    }}
    define internal i32 @g(i32 %x) {{
      ret i32 %x
    }}
    define internal range(i32 10, -1) i32 @h(i32 range(i32 8, -1) %x) {{
      %r = add i32 %x, 1
      ret i32 %r
    }}
    declare i32 @llvm.abs.i32(i32, i1)
    declare i32 @llvm.ctlz.i32(i32, i1)
    declare i32 @llvm.cttz.i32(i32, i1)
    """
    rows = [row for pair in zip(undefined, undefined, strict=True) for row in pair] + defined
    values = results(text, rows)
    assert values[: -len(defined) or None] == [None] * 2 * len(undefined)
    assert None not in values[len(values) - len(defined) :]


@pytest.mark.parametrize(
    ("line", "defined", "undefined"),
    [
        ("fptosi double %x to i8", [-128.9, 127.9], [-129.0, 128.0, float("nan")]),
        ("fptoui double %x to i8", [-0.9, 255.9], [-1.0, 256.0, float("inf")]),
        ("fptosi double %x to i64", [-(2.0**63), 2.0**63 - 1024], [2.0**63, -(2.0**63) - 2048]),
        ("fptoui double %x to i64", [2.0**63, 2.0**64 - 2048], [2.0**64]),
    ],
)
def test_conversions_out_of_range_are_noted(line: str, defined: list[float], undefined: list[float]) -> None:
    kind = line.split()[-1]
    text = f"define {kind} @f(double %x) {{\n  %r = {line}\n  ret {kind} %r\n}}\n"
    assert results(text, [(value,) for value in undefined]) == [None] * len(undefined)
    values = results(text, [(value,) for value in defined])
    bits = int(kind[1:])
    assert [None if value is None else int(value) % 2**bits for value in values] == [
        int(value) % 2**bits for value in defined
    ]


@pytest.mark.parametrize(
    ("flags", "noted"),
    [("", []), ("contract", []), ("nnan", [2]), ("ninf", [1]), ("nnan ninf", [1, 2]), ("fast", [1, 2])],
)
def test_flags_of_floats_are_noted(flags: str, noted: list[int]) -> None:
    text = f"define double @f(double %x, double %y) {{\n  %r = fdiv {flags} double %x, %y\n  ret double %r\n}}\n"
    values = results(text, [(1.0, 2.0), (1.0, 0.0), (0.0, 0.0)])
    assert [index for index, value in enumerate(values) if value is None] == noted


@pytest.mark.parametrize(
    ("kind", "floats", "value"),
    [
        ("i1", "float", "trunc i64 %x to i1"),
        ("i7", "double", "trunc i64 %x to i7"),
        ("i33", "float", "trunc i64 %x to i33"),
        ("i64", "double", "add i64 %x, 0"),
        ("<2 x i1>", "<2 x float>", "insertelement <2 x i1> zeroinitializer, i1 true, i64 1"),
        ("<3 x i7>", "<3 x double>", "insertelement <3 x i7> zeroinitializer, i7 5, i64 1"),
        ("<4 x i64>", "<4 x float>", "insertelement <4 x i64> zeroinitializer, i64 %x, i64 1"),
    ],
)
def test_checks_compile_for_every_type(kind: str, floats: str, value: str) -> None:
    integers = ["add nsw nuw", "sub nsw nuw", "mul nsw nuw", "shl nsw nuw", "lshr exact", "ashr exact", "or disjoint"]
    integers += ["udiv exact", "sdiv exact", "urem", "srem", "icmp samesign ult"]
    operations = [f"{operation} {kind} %v, %v" for operation in integers]
    suffix = kind if kind[0] == "i" else f"v{kind[1]}{kind[5:-1]}"
    operations += [f"call {kind} @llvm.{name}.{suffix}({kind} %v, i1 true)" for name in ("abs", "ctlz", "cttz")]
    operations += [f"fptosi {floats} %d to {kind}", f"fptoui {floats} %d to {kind}", f"fadd nnan ninf {floats} %d, %d"]
    lines = [f"  %v = {value}", f"  %d = uitofp nneg {kind} %v to {floats}"]
    lines += [f"  %r{index} = {operation}" for index, operation in enumerate(operations)]
    assert len(results(body("\n".join(lines)), [(0,), (1,), (5,)])) == 3


def test_undefined_values_of_phis_are_noted() -> None:
    text = """
    define i32 @f(i1 %c, i32 %x) {
    entry:
      br i1 %c, label %a, label %b
    a:
      br label %end
    b:
      br label %end
    end:
      %r = phi i32 [ %x, %a ], [ undef, %b ]
      %s = phi i32 [ 1, %a ], [ 2, %b ]
      %t = add i32 %r, %s
      ret i32 %t
    }
    """
    assert results(text, [(0, 4), (1, 4), (0, 4)]) == [None, 5, None]


def test_values_are_lost_where_variables_end() -> None:
    text = """
    define i32 @f(i32 %n) {
    entry:
      %x = alloca i32
      %i = alloca i32
      store i32 0, ptr %i
      br label %loop
    loop:
      call void @llvm.lifetime.start.p0(ptr %x)
      %k = load i32, ptr %i
      %first = icmp eq i32 %k, 0
      br i1 %first, label %set, label %next
    set:
      store i32 %n, ptr %x
      br label %next
    next:
      %v = load i32, ptr %x
      call void @llvm.lifetime.end.p0(ptr %x)
      %more = add i32 %k, 1
      store i32 %more, ptr %i
      %again = icmp ult i32 %more, %n
      br i1 %again, label %loop, label %end
    end:
      ret i32 %v
    }
    """
    assert results(text, [(1,), (2,), (0,)]) == [1, None, 0]


def test_partial_stores_leave_a_variable_unset() -> None:
    lines = "  %p = alloca i64\n  store i32 1, ptr %p\n  %r = load i64, ptr %p"
    assert results(body(lines), [(1,)]) == [None]


def test_names_of_checks_are_free() -> None:
    text = """
    define i32 @apass.check.take(i32 %apass.check.1) {
      %apass.check..2 = add nsw i32 %apass.check.1, 1
      ret i32 %apass.check..2
    }
    """
    assert results(text, [(1,), (MAX,)], "@apass.check.take") == [2, None]


@pytest.mark.parametrize("name", ["safe", *CHECKED, *TEXTS])
@pytest.mark.parametrize("pipeline", ["llvm.O0", "llvm.O2", "llvm.reg2mem"])
def test_checks_keep_results_of_defined_inputs(name: str, pipeline: str) -> None:
    mod = Module.parse({"safe": SAFE, **CHECKED, **TEXTS}[name])
    mod = apass.run(apass.get_pass(pipeline), mod)
    signatures = runnable(mod)
    checks = Checks(mod.definitions.values())
    for token, signature in signatures.items():
        if signature.is_local:
            continue
        function = plain_name(token)
        rows = [[value] * len(signature.parameters) for value in (0, 1, 2, 5, 21)]
        checked = run_function(source_text(mod, signatures, checks), function, signature.types, rows, checks.take)
        defined = [index for index, value in enumerate(checked) if value is not None]
        plain = run_function(
            source_text(mod, signatures), function, signature.types, [rows[index] for index in defined]
        )
        assert plain == [checked[index] for index in defined]


@pytest.mark.parametrize("last", ["llvm.globaldce", "llvm.ipsccp"])
async def test_internal_functions_are_not_compared(last: str) -> None:
    mod = Module.parse(SAFE)
    verdict = await compare_outputs(mod, await apass.parse_pipeline(f"llvm.internalize,{last}")(mod))
    message = "outputs not verified: no exported function that could run is left after"
    assert (verdict.changed, verdict.text) == (None, message)


@pytest.mark.process
async def test_functions_without_defined_inputs_do_not_count() -> None:
    mod = Module.parse("define i32 @f(i32 %x) {\n  unreachable\n}\n")
    verdict = await compare_outputs(mod, mod)
    assert (verdict.changed, verdict.text) == (
        None,
        "outputs not verified: none of 1 functions has a defined result",
    )


async def test_functions_with_unusual_names_are_compared() -> None:
    mod = Module.parse(UNNAMED)
    result = await apass.get_pass("llvm.instcombine")(mod)
    assert (await compare_outputs(mod, result)).text == "outputs equal: 2 of 3 functions ran on up to 8 inputs each"
