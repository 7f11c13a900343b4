"""Defunctionalization: definitions, types, meaning, errors, depth."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from apass.relay import transform
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.expr import Call, Expr, GlobalVar, Let, Op, Tuple, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import FuncType, Type
from apass.relay.parser import parse
from apass.relay.prelude import Prelude
from apass.relay.structural.equality import assert_structural_equal, structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.defunctionalization import Defunctionalization, defunctionalize
from apass.relay.transform.support.type_subst import has_function_type
from apass.relay.type_inference.infer import infer_module
from tests.helpers.amounts import amount, levels
from tests.relay.hard_programs import HARD_PROGRAMS

VERSION = '#[version = "0.0.5"]\n'
LIST = """
type List[A] { Nil, Cons(A, List[A]), }
def @map[A, B](%f: fn(A) -> B, %l: List[A]) -> List[B] {
  match (%l) { Nil => Nil, Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)) }
}
def @sum(%l: List[int32]) -> int32 { match (%l) { Nil => 0, Cons(%h, %t) => add(%h, @sum(%t)) } }
"""


def converted(mod: IRModule) -> IRModule:
    """Return a typed module with `main` converted."""
    work = mod.copy()
    work["main"] = defunctionalize(mod["main"], work)
    assert what_is_ill_formed(work) == []
    return infer_module(work)


def reached(mod: IRModule) -> Iterator[Function]:
    """Iterate over the functions that `main` reaches."""
    names = ["main"]
    for name in names:
        yield mod[name]
        found = [node.name_hint for node in post_order(mod[name]) if isinstance(node, GlobalVar)]
        names += [new for new in dict.fromkeys(found) if new not in names]


def assert_first_order(mod: IRModule) -> None:
    """Assert that no function is a value."""
    for func in reached(mod):
        for node in post_order(func.body):
            assert not isinstance(node, Function)
            types: list[Type | None] = [node.checked_type_]
            types += [node.type_annotation] if isinstance(node, Var) else []
            # The text of a generic function that stays contains no function types either.
            assert not any(has_function_type(ty) for ty in types if ty is not None and not isinstance(node, Op))


def assert_converts(mod: IRModule, arguments: Sequence[object]) -> IRModule:
    """Assert that the converted program is of first order and has the same meaning."""
    after = converted(mod)
    assert_first_order(after)
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(after, *arguments)) == ""
    assert after["main"].checked_type == infer_module(mod)["main"].checked_type
    assert structural_equal(parse(after.astext()), after)
    return after


def test_argument_becomes_value_of_data_type() -> None:
    text = """
    def @twice(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }
    def @main(%x: int32) -> int32 { @twice(fn (%y: int32) -> int32 { add(%y, %x) }, 1) }
    """
    after = assert_converts(parse(VERSION + text), [5])
    expected = """
    type Defunc { Defunc_0(int32), }
    def @twice(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }
    def @main(%x: int32) -> int32 { @twice_defunc(Defunc_0(%x), 1) }
    def @twice_defunc(%f: Defunc, %x: int32) -> int32 { @apply(%f, @apply(%f, %x)) }
    def @apply(%f: Defunc, %y: int32) -> int32 { match (%f) { Defunc_0(%x: int32) => add(%y, %x) } }
    """
    assert_structural_equal(after, infer_module(parse(VERSION + expected)))


def test_generic_function_is_copied_for_types() -> None:
    text = """
    def @main(%x: int32) {
      (@sum(@map(fn (%y: int32) { multiply(%y, %x) }, Cons(1, Cons(2, Nil)))),
       @map(fn (%y: int32) { less(%y, %x) }, Cons(1, Nil)))
    }
    """
    after = converted(parse(VERSION + LIST + text))
    names = [gvar.name_hint for gvar in after.get_global_vars()]
    assert names == ["map", "sum", "main", "map_defunc_1", "map_defunc", "apply", "apply_1"]
    assert_first_order(after)


def test_function_of_first_order_stays() -> None:
    mod = infer_module(parse(VERSION + LIST + "def @main(%x: int32) { @sum(Cons(%x, Nil)) }"))
    work = mod.copy()
    assert_structural_equal(defunctionalize(mod["main"], work), mod["main"])
    assert len(work) == len(mod)


@pytest.mark.parametrize(
    "body",
    [
        "let %f = fn (%y: int32) { add(%y, %x) }; %f(%f(%x))",
        "let %t = (fn (%y: int32) { add(%y, %x) }, 1); %t.0(%t.1)",
        "let %r = ref(fn (%y: int32) { add(%y, %x) }); let %f = ref_read(%r); ref_read(%r)(%f(2))",
        "let %f = if (less(%x, 3)) { fn (%y: int32) { %y } } else { fn (%y: int32) { add(%y, %x) } }; %f(4)",
        "let %f = fn (%y: int32) { fn (%z: int32) { subtract(%y, %z) } }; %f(%x)(2)",
        "let %f = fn (%n: int32) -> int32 { if (less(%n, 1)) { %x } else { %f(subtract(%n, 1)) } }; %f(4)",
        "let %f = fn (%g: fn (int32) -> int32) { %g(%x) }; %f(fn (%y: int32) { multiply(%y, %y) })",
        "fn (%y: int32) { add(%y, %x) }(2)",
        "match (Cons(fn (%y: int32) { add(%y, %x) }, Nil)) { Cons(%f, _) => %f(1), Nil => 0 }",
        "let %f = @sum; %f(Cons(%x, Nil))",
        "@sum(@map(@one, Cons(%x, Nil)))",
        "match (@map(Box, Cons(%x, Nil))) { Cons(Box(%y), _) => %y, Nil => 0 }",
        "fn (%y: int32, Primitive=1) { add(%y, 1) }(%x)",
        "let %f = fn (%y: int32, Primitive=1) { add(%y, 1) }; %f(%x)",
        "let %z = add(%x, 1); fn (%y: int32, Primitive=1) { add(%z, %y) }(%x)",
        "let %z = add(%x, 1); let %f = fn (%y: int32, Primitive=1) { add(%z, %y) }; %f(%x)",
    ],
)
def test_functions_as_values_are_encoded(body: str) -> None:
    text = f"type Box {{ Box(int32), }} def @one(%a: int32) -> int32 {{ add(%a, 1) }} def @main(%x: int32) {{ {body} }}"
    mod = parse(VERSION + LIST + text)
    for argument in (1, 5):
        after = converted(mod)
        assert difference(evaluate(mod, argument), evaluate(after, argument)) == ""
        if "Primitive" not in body:
            assert_first_order(after)
        assert structural_equal(parse(after.astext()), after)


def test_kernel_that_captures_function_is_error() -> None:
    text = "let %f = fn (%y: int32) { add(%y, %x) }; fn (%y: int32, Primitive=1) { %f(%y) }(%x)"
    mod = parse(VERSION + "def @main(%x: int32) { " + text + " }")
    with pytest.raises(ValueError, match="captures the function"):
        defunctionalize(mod["main"], mod)


def test_arguments_are_evaluated_before_callee() -> None:
    text = """
    def @main(%x: int32) {
      let %r = ref(fn (%y: int32) { add(%y, 1) });
      let %set = fn () { let %u = ref_write(%r, fn (%y: int32) { add(%y, 10) }); 2 };
      ref_read(%r)(%set())
    }
    """
    mod = parse(VERSION + text)
    assert evaluate(mod, 0) == 12
    assert_converts(mod, [0])


def test_functions_of_prelude_are_encoded() -> None:
    mod = IRModule()
    prelude = Prelude(mod)
    x, y = var("x", "int32"), var("y", "int32")
    numbers = Call(prelude.cons, [x, Call(prelude.cons, [const(2), Call(prelude.nil, [])])])
    double = Function([y], call_op("add", y, y))
    mod["main"] = Function(
        [x], Call(prelude.sum, [Call(prelude.map, [Call(prelude.compose, [double, double]), numbers])])
    )
    assert_converts(mod, [5])


def test_names_of_module_are_not_replaced() -> None:
    text = (
        "type Defunc { Other, } def @apply() { 1 } def @main(%x: int32) { let %f = fn () { %x }; add(%f(), @apply()) }"
    )
    mod = parse(VERSION + text)
    after = assert_converts(mod, [3])
    assert after["apply"].body is mod["apply"].body or evaluate(after["apply"]) == 1
    assert "apply_1" in after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def @main[A](%x: A) -> A { %x }", "without type parameters"),
        ("def @main(%f: fn (int32) -> int32) { %f(1) }", "without functions in its parameters"),
        ("def @main() { fn (%x: int32) { %x } }", "without functions in its parameters and its result"),
        ("def @main() { let %f = fn [A](%x: A) -> A { %x }; %f(1) }", "cannot encode functions of type"),
        ("type B { B(fn () -> int32), } def @main() { let %b = B(fn () { 2 }); 1 }", "contain functions"),
    ],
)  # fmt: skip
def test_unsupported_program_is_error(text: str, message: str) -> None:
    mod = parse(VERSION + text)
    before = mod.astext()
    with pytest.raises(ValueError, match=message):
        defunctionalize(mod["main"], mod)
    assert mod.astext() == before


def test_endless_copies_are_error() -> None:
    text = """
    def @grow[A](%f: fn (A) -> int32, %x: A, %n: int32) -> int32 {
      if (less(%n, 1)) { %f(%x) } else { @grow(fn (%p: (A, A)) { %f(%p.0) }, (%x, %x), subtract(%n, 1)) }
    }
    def @main(%n: int32) { @grow(fn (%x: int32) { %x }, 3, %n) }
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("apass.relay.transform.defunctionalization.MAX_COPIES", 10)
        mod = parse(VERSION + text)
        with pytest.raises(ValueError, match="more than 10 times"):
            defunctionalize(mod["main"], mod)


def test_name_is_that_of_tvm() -> None:
    assert transform.Defunctionalization is Defunctionalization


@pytest.mark.parametrize("name", HARD_PROGRAMS)
def test_meaning_of_hard_program_is_kept(name: str) -> None:
    text, arguments = HARD_PROGRAMS[name]
    assert_converts(parse(text), arguments)


@settings(max_examples=amount(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(refs=True))
def test_meaning_of_random_program_is_kept(program: Program) -> None:
    assert_converts(*program)


def deep_operators(x: Expr) -> Expr:
    for _ in range(levels(10_000)):
        x = call_op("negative", x)
    return x


def deep_functions(x: Expr) -> Expr:
    result = x
    for _ in range(levels(3_000)):
        f = Var("f")
        result = Let(f, Function([var("y", "float32")], call_op("add", result, x)), Call(f, [const(1.0)]))
    return result


def deep_calls(x: Expr) -> Expr:
    negate, y, result = Var("negate"), var("y", "float32"), x
    for _ in range(levels(10_000)):
        result = Call(negate, [result])
    return Let(negate, Function([y], call_op("negative", y)), result)


@pytest.mark.slow
@pytest.mark.parametrize("body", [deep_operators, deep_functions, deep_calls])
def test_deep_program_is_converted(body: Callable[[Expr], Expr]) -> None:
    x = var("x", "float32")
    mod = IRModule.from_expr(Function([x], body(x)))
    after = converted(mod)
    assert difference(evaluate(mod, 2.0), evaluate(after, 2.0)) == ""


def test_shared_expression_stays_shared() -> None:
    x = var("x", "int32")
    shared = call_op("negative", x)
    func = defunctionalize(Function([x], Tuple([shared, shared])), IRModule())
    assert sum(isinstance(node, Call) for node in post_order(func)) == 1
    assert isinstance(infer_module(IRModule.from_expr(func))["main"].checked_type, FuncType)
