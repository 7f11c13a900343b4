"""LambdaLift on untyped programs, and on deeply nested functions."""

import numpy as np
import pytest

import apass
from apass.relay.analysis.well_formed import well_formed
from apass.relay.expr import Call, Expr, Let, Var
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.parser import parse
from apass.relay.transform.lambda_lift import lambda_lift
from apass.relay.type_inference.infer import infer_module
from tests.helpers.counting import calls_of


def test_function_capturing_untyped_variable_is_lifted() -> None:
    x, inner = var("x", shape=(2,)), Var("inner")
    main = Function([x], Let(inner, call_op("negative", x), Call(Function([], inner), [])))
    mod = IRModule.from_expr(main)
    lifted = apass.run(apass.get_pass("LambdaLift"), mod)
    value = np.array([1.0, 2.0], np.float32)
    assert len(lifted) == 2
    assert difference(evaluate(mod, value), evaluate(lifted, value)) == ""


def nested(depth: int) -> IRModule:
    """Return a program of nested functions that all use one variable."""
    x = var("x", "int32")
    body: Expr = x
    for step in range(depth):
        param = var("param", "int32")
        body = Call(Function([param], add(param, body)), [const(step)])
    return infer_module(IRModule.from_expr(Function([x], body)))


def test_lifting_is_linear_in_nesting_depth() -> None:
    small, large = nested(40), nested(160)
    assert calls_of(lambda: lambda_lift(large)) < 5 * calls_of(lambda: lambda_lift(small))


@pytest.mark.slow
def test_thousands_of_nested_functions_are_lifted() -> None:
    mod = nested(2000)
    lifted = lambda_lift(mod)
    assert len(lifted) == 2001
    assert difference(evaluate(mod, 3), evaluate(lifted, 3)) == ""


def test_function_in_primitive_function_is_not_lifted() -> None:
    x, y = var("x", "int32"), var("y", "int32")
    fused = Function([x], Call(Function([y], y), [x]), attrs={"Primitive": 1})
    mod = infer_module(IRModule.from_expr(Function([x], Call(fused, [x]))))
    assert lambda_lift(mod) is mod


POLYMORPHIC = """
def @main(%y: int32) -> (int32, float32) {
  let %f = fn [A](%x: A, %n: int32) -> A {
    let %g = fn () -> A { if (%n == 0) { %x } else { %f(%x, %n - 1) } };
    %g()
  };
  (%f(%y, 3), %f(2f, 2))
}
"""


def test_closure_calling_polymorphic_function_gets_type_parameters() -> None:
    mod = parse(POLYMORPHIC)
    lifted = infer_module(lambda_lift(mod), trust=False)
    assert well_formed(lifted)
    assert [len(lifted[gvar].type_params) for gvar in lifted.get_global_vars()] == [0, 1, 1]
    assert difference(evaluate(mod, 5), evaluate(lifted, 5)) == ""


def test_closure_with_generic_constructor_is_lifted() -> None:
    mod = parse("type Box[A] { Box(A), } def @main(%y: int32) { let %f = fn () { Box(%y) }; %f() }")
    lifted = infer_module(lambda_lift(mod), trust=False)
    assert len(lifted) == 2
    assert well_formed(lifted)
