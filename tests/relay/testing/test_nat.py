"""Natural numbers as a data type: conversion, arithmetic, and indexing of lists."""

import pytest

from apass.relay.errors import EvaluationError
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import Value
from apass.relay.ir.expr import const, var
from apass.relay.op.elementwise.arithmetic import multiply
from apass.relay.prelude import Prelude
from apass.relay.testing import add_nat_definitions, count, make_nat_expr, make_nat_value
from apass.relay.type_inference.infer import infer_module


@pytest.fixture(name="prelude", scope="module")
def _prelude() -> Prelude:
    prelude = Prelude()
    add_nat_definitions(prelude)
    return prelude


def compute(prelude: Prelude, expr: Expr) -> Value:
    mod = prelude.mod.copy()
    mod["main"] = Function([], expr)
    return evaluate(infer_module(mod))


def test_number_round_trips_through_expression_and_value(prelude: Prelude) -> None:
    assert count(prelude, compute(prelude, make_nat_expr(prelude, 3))) == 3
    assert [count(prelude, make_nat_value(prelude, n)) for n in (0, 5)] == [0, 5]


def test_nat_add_and_nat_double_compute(prelude: Prelude) -> None:
    two, three = (make_nat_expr(prelude, n) for n in (2, 3))
    assert count(prelude, compute(prelude, prelude.nat_add(two, three))) == 5
    assert count(prelude, compute(prelude, prelude.nat_double(three))) == 6


def test_nat_indexes_lists_and_iterates_functions(prelude: Prelude) -> None:
    items = prelude.nil()
    for n in (30, 20, 10):
        items = prelude.cons(const(n), items)
    one = make_nat_expr(prelude, 1)
    assert compute(prelude, prelude.nat_nth(items, one)) == 20
    assert compute(prelude, prelude.hd(prelude.tl(prelude.nat_update(items, one, const(7))))) == 7
    x = var("x", "int32")
    double = Function([x], multiply(x, const(2)))
    assert compute(prelude, prelude.nat_iterate(double, make_nat_expr(prelude, 5))(const(1))) == 32


def test_other_values_are_rejected(prelude: Prelude) -> None:
    with pytest.raises(ValueError, match="n must be zero or positive, got -1"):
        make_nat_expr(prelude, -1)
    with pytest.raises(EvaluationError, match=r"expected a natural number of this module, got Nil\(\)"):
        count(prelude, compute(prelude, prelude.nil()))
