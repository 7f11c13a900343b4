"""What the evaluator says of programs that have no value."""

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
from apass.relay.ir.module import IRModule
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.ref import RefRead
from apass.relay.ty import TensorType
from tests.relay.evaluation import NIL, ONE, X, Y, plain

CALL = "<relay.Call of <relay.Op add>>"
REASON = "operands could not be broadcast together with shapes (2,) (3,)"
MISSING = "ReshapeAttrs.__init__() missing 1 required keyword-only argument: 'newshape'"
SPAN = Span("main.relay", 3, 5, 3, 8)
ERRORS: dict[str, tuple[Callable[[], Value], str]] = {
    "free variable": (
        lambda: evaluate(Function([X], add(X, Y)), 1),
        "variable %y is free, or used outside of its scope",
    ),
    "out of scope": (
        lambda: evaluate(Tuple([Let(X, ONE, X), Function([], X)])),
        "variable %x is free, or used outside of its scope",
    ),
    "no kernel": (
        lambda: evaluate(Call(Op(name="test.no_kernel"), [ONE])),
        "operator test.no_kernel has no kernel, so it has no value: register_op(compute=...)",
    ),
    "kernel fails": (
        lambda: evaluate(Call(Op.get("add"), [var("a"), var("b")], span=SPAN), [1, 2], [1.0, 2.0, 3.0]),
        f"{CALL} at main.relay:3:5 failed on (int32[2], float32[3]): {REASON} ",
    ),
    "no global": (
        lambda: evaluate(Call(GlobalVar("f"), [])),
        "there is no function @f; evaluate with the module that has it",
    ),
    "no main": (lambda: evaluate(IRModule()), "there is no function @main; evaluate with the module that has it"),
    "no function": (
        lambda: evaluate(Call(X, [ONE]), 1),
        "<relay.Call of <relay.Var %x>> calls int32[], which is no function",
    ),
    "no scalar": (
        lambda: evaluate(If(var("c"), ONE, ONE), [True, False]),
        "the condition of <relay.If> must be a scalar, not bool[2]",
    ),
    "no field": (
        lambda: evaluate(TupleGetItem(Tuple([ONE]), 1)),
        "(int32[]) has no field 1; <relay.TupleGetItem> asks for it",
    ),
    "no field before the first": (
        lambda: evaluate(TupleGetItem(Tuple([ONE]), -1)),
        "(int32[]) has no field -1; <relay.TupleGetItem> asks for it",
    ),
    "no attributes": (
        lambda: evaluate(Call(Op.get("reshape"), [ONE])),
        f"a call of reshape has no attributes, which it needs: {MISSING}",
    ),
    "no cell": (lambda: evaluate(RefRead(ONE)), "<relay.RefRead> needs a reference, not int32[]"),
    "no clause": (
        lambda: evaluate(Match(Call(NIL, []), [Clause(PatternTuple(), ONE)])),
        "no clause of <relay.Match> fits Nil()",
    ),
    "too few within": (
        lambda: evaluate(Call(Function([X], X), [])),
        "<fn (x)> was given 0 arguments; it takes 1",
    ),
    "too many": (
        lambda: evaluate(Function([X], X), 1, 2),
        "<fn (x)> was given 2 arguments; it takes 1: (x)",
    ),
    "missing": (
        lambda: evaluate(Function([X, Y], X), 1),
        "no argument for y; the parameters are (x, y)",
    ),
    "unknown": (
        lambda: evaluate(Function([var("data")], X), dat=1),
        "'dat' names none of the parameters that are left; did you mean 'data'?",
    ),
    "twice": (
        lambda: evaluate(Function([X], X), 1, x=1),
        "'x' names none of the parameters that are left; it was given twice, or several have the name",
    ),
    "dtype": (
        lambda: evaluate(Function([X], X), np.array(1.0)),
        "argument x must be a int32, but was given float64[]",
    ),
    "shape": (
        lambda: evaluate(Function([var("x", TensorType((2,)))], X), [1, 2, 3]),
        "argument x must be a Tensor[(2), float32], but was given float32[3]",
    ),
    "fraction": (lambda: evaluate(Function([X], X), 1.5), "argument x must be a int32, but was given 1.5"),
    "text": (
        lambda: evaluate(Function([var("x")], X), "1"),
        "argument x must be an array, a number or a tuple of these, not '1'",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_names_the_expression_and_what_is_wrong(case: str) -> None:
    program, message = ERRORS[case]
    with pytest.raises(EvaluationError) as caught:
        program()
    assert str(caught.value) == message


def test_an_error_in_the_branch_that_is_not_chosen_is_none() -> None:
    assert plain(evaluate(If(const(True), ONE, Call(Op(name="test.no_kernel"), [ONE])))) == 1


def test_the_error_of_a_kernel_is_the_cause() -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(add(var("a"), var("b")), [1, 2], [1, 2, 3])
    assert type(caught.value.__cause__) is ValueError
