"""ToCPS and UnCPS: text, types, meaning, errors, depth."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from apass.relay import transform
from apass.relay.analysis.well_formed import what_is_ill_formed
from apass.relay.errors import TypeInferenceError
from apass.relay.expr import Call, Expr, If, Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import GlobalVar, const, var
from apass.relay.ir.module import IRModule
from apass.relay.ir.ty import FuncType, Type, TypeVar, scalar_type
from apass.relay.parser import parse
from apass.relay.structural.equality import assert_structural_equal
from apass.relay.testing.programs import Program, programs
from apass.relay.transform.normal_forms.anf import to_a_normal_form
from apass.relay.transform.to_cps import ToCPS, to_cps, un_cps
from apass.relay.type_inference.infer import infer_function, infer_module
from tests.helpers.amounts import amount, levels
from tests.helpers.counting import calls_of
from tests.relay.hard_programs import HARD_PROGRAMS

VERSION = '#[version = "0.0.5"]\n'


def converted(text: str) -> IRModule:
    """Return a module whose `main` was replaced by its converted version."""
    mod = parse(VERSION + text)
    mod["main"] = to_cps(mod["main"], mod)
    return mod


def assert_converts_to(text: str, expected: str) -> None:
    mod = infer_module(converted(text))
    assert_structural_equal(IRModule.from_expr(mod["main"]), infer_module(parse(VERSION + expected)))


def round_trip(mod: IRModule) -> IRModule:
    """Return a module whose `main` was converted and converted back."""
    work = mod.copy()
    for gvar in mod.get_global_vars():
        work[gvar] = to_a_normal_form(mod[gvar])
    work["main_in_cps"] = to_cps(work["main"], work)
    work = infer_module(work)
    work["main"] = un_cps(work["main_in_cps"])
    assert what_is_ill_formed(work) == []
    return infer_module(work)


def assert_round_trip_keeps_meaning(mod: IRModule, arguments: Sequence[object]) -> None:
    back = round_trip(mod)
    with np.errstate(all="ignore"):
        assert difference(evaluate(mod, *arguments), evaluate(back, *arguments)) == ""
    assert back["main"].checked_type == infer_module(mod)["main"].checked_type


def test_function_passes_result_to_continuation() -> None:
    assert_converts_to(
        "def @main(%x: int32) { %x }",
        "def @main[answer](%x: int32, %k: fn (int32) -> answer) -> answer { %k(%x) }",
    )


def test_operator_result_is_bound() -> None:
    assert_converts_to(
        "def @main(%x: int32) { add(%x, add(%x, 1)) }",
        """
        def @main[answer](%x: int32, %k: fn (int32) -> answer) -> answer {
          let %a = add(%x, 1);
          let %b = add(%x, %a);
          %k(%b)
        }
        """,
    )


def test_call_takes_rest_as_continuation() -> None:
    assert_converts_to(
        "def @main(%f: fn (int32) -> int32, %x: int32) { (%f(%x), %x) }",
        """
        def @main[answer](
          %f: fn (int32, fn (int32) -> answer) -> answer, %x: int32, %k: fn ((int32, int32)) -> answer
        ) -> answer {
          %f(%x, fn (%arg: int32) { %k((%arg, %x)) })
        }
        """,
    )


def test_branches_call_function_of_rest() -> None:
    assert_converts_to(
        "def @main(%c: bool, %x: int32) { let %a = if (%c) { %x } else { 2 }; negative(%a) }",
        """
        def @main[answer](%c: bool, %x: int32, %k: fn (int32) -> answer) -> answer {
          let %join = fn (%arg: int32) {
            let %a: int32 = %arg;
            let %n = negative(%a);
            %k(%n)
          };
          if (%c) { %join(%x) } else { %join(2) }
        }
        """,
    )


def test_cell_operations_are_bound_in_order() -> None:
    assert_converts_to(
        "def @main(%x: int32) { let %r = ref(%x); let %u = ref_write(%r, 2); ref_read(%r) }",
        """
        def @main[answer](%x: int32, %k: fn (int32) -> answer) -> answer {
          let %r: ref(int32) = ref(%x);
          let %w = ref_write(%r, 2);
          let %u: () = %w;
          let %v = ref_read(%r);
          %k(%v)
        }
        """,
    )


def test_global_function_is_converted_under_new_name() -> None:
    text = """
    def @f(%n: int32) -> int32 { if (equal(%n, 0)) { 0 } else { @f(subtract(%n, 1)) } }
    def @main(%n: int32) -> int32 { @f(%n) }
    """
    mod = infer_module(converted(text))
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["f", "main", "f_cps"]
    ty = mod["f_cps"].checked_type
    assert isinstance(ty, FuncType)
    assert str(ty) == "fn [answer](int32, fn (int32) -> answer) -> answer"


def test_taken_name_of_global_is_not_replaced() -> None:
    mod = parse(VERSION + "def @f(%n: int32) { %n } def @f_cps() { 1 } def @main(%n: int32) { @f(%n) }")
    old = mod["f_cps"]
    to_cps(mod["main"], mod)
    assert mod["f_cps"] is old
    assert "f_cps_1" in mod


def test_failed_conversion_leaves_module_unchanged() -> None:
    mod = parse(VERSION + "def @f(%n: int32, Primitive=1) { %n } def @main(%n: int32) { @f(%n) }")
    with pytest.raises(ValueError, match="primitive"):
        to_cps(mod["main"], mod)
    assert [gvar.name_hint for gvar in mod.get_global_vars()] == ["f", "main"]


def test_input_function_is_not_changed() -> None:
    mod = parse(VERSION + "def @main(%n: int32) { negative(%n) }")
    text = mod.astext()
    ToCPS(mod["main"])
    assert mod.astext() == text


def test_shared_expression_is_error() -> None:
    x = var("x", "int32")
    shared = call_op("negative", x)
    with pytest.raises(ValueError, match="without shared expressions; run ToANormalForm first"):
        to_cps(Function([x], Tuple([shared, shared])))


def test_primitive_function_is_error() -> None:
    x, y = var("x", "int32"), var("y", "int32")
    with pytest.raises(ValueError, match="cannot convert the primitive"):
        to_cps(Function([x], Call(Function([y], y, attrs={"Primitive": 1}), [x])))


def test_constructor_of_functions_is_error() -> None:
    mod = parse(VERSION + "type Box { Box(fn (int32) -> int32), } def @main() { Box(fn (%x: int32) { %x }) }")
    with pytest.raises(ValueError, match="which contain functions"):
        to_cps(mod["main"], mod)


def test_missing_global_function_is_error() -> None:
    with pytest.raises((KeyError, TypeInferenceError), match="g"):
        to_cps(Function([], Call(GlobalVar("g"), [])))


def test_function_without_continuation_cannot_be_converted_back() -> None:
    x = var("x", "int32")
    for func in (Function([], const(1)), Function([x], x), Function([x], x, type_params=[TypeVar("A")])):
        with pytest.raises(ValueError, match="convert it with to_cps first"):
            un_cps(func)


def test_result_with_functions_cannot_be_converted_back() -> None:
    x = var("x", "int32")
    func = to_cps(Function([], Function([x], x)))
    with pytest.raises(ValueError, match="its result contains functions"):
        un_cps(func)


def test_function_parameter_stays_in_cps() -> None:
    mod = parse(VERSION + "def @main(%f: fn (int32) -> int32, %x: int32) { %f(%x) }")
    back = infer_function(un_cps(to_cps(mod["main"], mod)), mod)
    assert str(back.checked_type) == "fn (fn (int32, fn (int32) -> int32) -> int32, int32) -> int32"


def test_type_parameters_are_kept() -> None:
    mod = parse(VERSION + "def @f[A](%x: A) -> A { %x } def @main(%x: int32) { @f(%x) }")
    mod["f"] = un_cps(to_cps(mod["f"], mod))
    assert str(infer_module(mod)["f"].checked_type) == "fn [A](A) -> A"


def test_names_are_those_of_tvm() -> None:
    assert transform.ToCPS is ToCPS
    assert transform.to_cps is to_cps
    assert transform.un_cps is un_cps


@pytest.mark.parametrize("name", HARD_PROGRAMS)
def test_round_trip_keeps_meaning_of_hard_program(name: str) -> None:
    text, arguments = HARD_PROGRAMS[name]
    assert_round_trip_keeps_meaning(parse(text), arguments)


@settings(max_examples=amount(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(refs=True))
def test_round_trip_keeps_meaning_of_random_program(program: Program) -> None:
    assert_round_trip_keeps_meaning(*program)


def deep_operators(x: Expr) -> Expr:
    for _ in range(levels(10_000)):
        x = call_op("negative", x)
    return x


def deep_calls(x: Expr) -> Expr:
    negate, y = Var("negate"), var("y", "float32")
    result = x
    for _ in range(levels(10_000)):
        result = Call(negate, [result])
    return Let(negate, Function([y], call_op("negative", y)), result)


def deep_branches(x: Expr) -> Expr:
    result = x
    for _ in range(levels(10_000)):
        result = If(const(True), result, x)
    return result


@pytest.mark.parametrize("body", [deep_operators, deep_calls, deep_branches])
def test_deep_program_is_converted(body: Callable[[Expr], Expr]) -> None:
    x = var("x", "float32")
    func = infer_function(un_cps(to_cps(Function([x], body(x)))), IRModule())
    assert difference(evaluate(func, 2.0), np.array(2.0, "float32")) == ""


def test_deep_function_type_is_converted() -> None:
    ty: Type = scalar_type("int32")
    for _ in range(levels(3_000)):
        ty = FuncType([ty], scalar_type("int32"))
    func = to_cps(Function([var("f", ty)], const(1)))
    assert str(func.ret_type) == "answer"


def curried(count: int) -> Function:
    params = [var("x", "int32") for _ in range(count)]
    body: Expr = params[-1]
    for param in reversed(params):
        body = Function([param], body)
    for _ in params:
        body = Call(body, [const(1)])
    return Function([], body)


def test_curried_function_is_linear_work() -> None:
    few, many = (calls_of(partial(to_cps, curried(count))) for count in (50, 200))
    assert many < 6 * few
