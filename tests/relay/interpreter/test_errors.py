"""Errors of the evaluator for programs without a value."""

from collections.abc import Callable

import numpy as np
import pytest

from apass.core.diagnostics import Span
from apass.relay.adt import Clause, Match, PatternTuple
from apass.relay.errors import EvaluationError
from apass.relay.expr import Call, GlobalVar, If, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import Value
from apass.relay.ir.expr import RefRead, const, var
from apass.relay.ir.module import IRModule
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ty import TensorType
from tests.helpers.relay.evaluation import NIL, ONE, X, Y, plain

CALL = "<relay.Call of <relay.Op add>>"
REASON = "operands could not be broadcast together with shapes (2,) (3,)"
MISSING = "ReshapeAttrs.__init__() missing 1 required keyword-only argument: 'newshape'"
SPAN = Span("main.relay", 3, 3, 5, 8)
ERRORS: dict[str, tuple[Callable[[], Value], str]] = {
    "free variable": (
        lambda: evaluate(Function([X], add(X, Y)), 1),
        "variable %y is free, or is used outside its scope",
    ),
    "out of scope": (
        lambda: evaluate(Tuple([Let(X, ONE, X), Function([], X)])),
        "variable %x is free, or is used outside its scope",
    ),
    "no kernel": (
        lambda: evaluate(Call(Op(name="test.no_kernel"), [ONE])),
        "operator test.no_kernel has no kernel; register one with register_op(compute=...)",
    ),
    "kernel fails": (
        lambda: evaluate(Call(Op.get("add"), [var("a"), var("b")], span=SPAN), [1, 2], [1.0, 2.0, 3.0]),
        f"{CALL} at main.relay:3:5 failed on (int32[2], float32[3]): {REASON} ",
    ),
    "no global": (
        lambda: evaluate(Call(GlobalVar("f"), [])),
        "there is no function @f; pass the module that defines it as `mod`",
    ),
    "no main": (lambda: evaluate(IRModule()), "there is no function @main; pass the module that defines it as `mod`"),
    "no function": (
        lambda: evaluate(Call(X, [ONE]), 1),
        "the callee of <relay.Call of <relay.Var %x>> must be a function, got int32[]",
    ),
    "no scalar": (
        lambda: evaluate(If(var("c"), ONE, ONE), [True, False]),
        "the condition of <relay.If> must be a scalar, got bool[2]",
    ),
    "no field": (
        lambda: evaluate(TupleGetItem(Tuple([ONE]), 1)),
        "<relay.TupleGetItem> requires field 1, but (int32[]) does not have it",
    ),
    "no field before the first": (
        lambda: evaluate(TupleGetItem(Tuple([ONE]), -1)),
        "<relay.TupleGetItem> requires field -1, but (int32[]) does not have it",
    ),
    "no attributes": (
        lambda: evaluate(Call(Op.get("reshape"), [ONE])),
        f"a call of reshape requires attributes, got none: {MISSING}",
    ),
    "no cell": (lambda: evaluate(RefRead(ONE)), "<relay.RefRead> requires a reference, got int32[]"),
    "no clause": (
        lambda: evaluate(Match(Call(NIL, []), [Clause(PatternTuple(), ONE)])),
        "no clause of <relay.Match> matches Nil()",
    ),
    "too few in nested call": (
        lambda: evaluate(Call(Function([X], X), [])),
        "<fn (x)> requires 1 arguments, got 0",
    ),
    "too many": (
        lambda: evaluate(Function([X], X), 1, 2),
        "<fn (x)> requires 1 arguments (x), got 2",
    ),
    "missing": (
        lambda: evaluate(Function([X, Y], X), 1),
        "no argument for y; the parameters are (x, y)",
    ),
    "unknown": (
        lambda: evaluate(Function([var("data")], X), dat=1),
        "'dat' is not a remaining parameter; did you mean 'data'?",
    ),
    "twice": (
        lambda: evaluate(Function([X], X), 1, x=1),
        "'x' has a positional argument too, or is the name of several parameters",
    ),
    "dtype": (
        lambda: evaluate(Function([X], X), np.array(1.0)),
        "argument x must be of type int32, got float64[]",
    ),
    "shape": (
        lambda: evaluate(Function([var("x", TensorType((2,)))], X), [1, 2, 3]),
        "argument x must be of type Tensor[(2), float32], got float32[3]",
    ),
    "fraction": (lambda: evaluate(Function([X], X), 1.5), "argument x must be of type int32, got 1.5"),
    "text": (
        lambda: evaluate(Function([var("x")], X), "1"),
        "argument x must be an array, a number or a tuple of these, got '1'",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_error_describes_expression_and_cause(case: str) -> None:
    program, message = ERRORS[case]
    with pytest.raises(EvaluationError) as caught:
        program()
    assert str(caught.value) == message


def test_error_in_unchosen_branch_is_ignored() -> None:
    assert plain(evaluate(If(const(True), ONE, Call(Op(name="test.no_kernel"), [ONE])))) == 1


def test_kernel_exception_is_chained() -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(add(var("a"), var("b")), [1, 2], [1, 2, 3])
    assert type(caught.value.__cause__) is ValueError
