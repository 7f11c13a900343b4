"""LambdaLift on a program that has no types yet."""

import numpy as np

import apass
from apass.relay.calls import call_op
from apass.relay.evaluator import evaluate
from apass.relay.expr import Call, Let, Var
from apass.relay.function import Function
from apass.relay.make import var
from apass.relay.module import IRModule
from apass.relay.outputs import difference


def test_a_function_that_captures_a_variable_without_a_type_is_lifted_too() -> None:
    x, inner = var("x", shape=(2,)), Var("inner")
    main = Function([x], Let(inner, call_op("negative", x), Call(Function([], inner), [])))
    mod = IRModule.from_expr(main)
    lifted = apass.run(apass.get_pass("LambdaLift"), mod)
    value = np.array([1.0, 2.0], np.float32)
    assert len(lifted) == 2
    assert difference(evaluate(mod, value), evaluate(lifted, value)) == ""
