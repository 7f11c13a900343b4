"""Natural numbers as a data type: made of Python's, computed with, and counted."""

import pytest

from apass.relay.errors import EvaluationError
from apass.relay.expr import Expr
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.interpreter.values import Value
from apass.relay.make import const, var
from apass.relay.op.elementwise.arithmetic import multiply
from apass.relay.prelude import Prelude
from apass.relay.testing import add_nat_definitions, count, make_nat_expr, make_nat_value
from apass.relay.type_inference.infer import infer_module


@pytest.fixture(name="prelude", scope="module")
def _prelude() -> Prelude:
    prelude = Prelude()
    add_nat_definitions(prelude)
    return prelude


def computed(prelude: Prelude, expr: Expr) -> Value:
    mod = prelude.mod.copy()
    mod["main"] = Function([], expr)
    return evaluate(infer_module(mod))


def test_a_number_becomes_an_expression_or_a_value_and_back(prelude: Prelude) -> None:
    assert count(prelude, computed(prelude, make_nat_expr(prelude, 3))) == 3
    assert [count(prelude, make_nat_value(prelude, n)) for n in (0, 5)] == [0, 5]


def test_numbers_are_added_and_doubled(prelude: Prelude) -> None:
    two, three = (make_nat_expr(prelude, n) for n in (2, 3))
    assert count(prelude, computed(prelude, prelude.nat_add(two, three))) == 5
    assert count(prelude, computed(prelude, prelude.nat_double(three))) == 6


def test_lists_and_functions_are_counted_with_them(prelude: Prelude) -> None:
    items = prelude.nil()
    for n in (30, 20, 10):
        items = prelude.cons(const(n), items)
    one = make_nat_expr(prelude, 1)
    assert computed(prelude, prelude.nat_nth(items, one)) == 20
    assert computed(prelude, prelude.hd(prelude.tl(prelude.nat_update(items, one, const(7))))) == 7
    x = var("x", "int32")
    double = Function([x], multiply(x, const(2)))
    assert computed(prelude, prelude.nat_iterate(double, make_nat_expr(prelude, 5))(const(1))) == 32


def test_only_natural_numbers_count(prelude: Prelude) -> None:
    with pytest.raises(ValueError, match="a natural number cannot be -1"):
        make_nat_expr(prelude, -1)
    with pytest.raises(EvaluationError, match=r"Nil\(\) is no natural number of this module"):
        count(prelude, computed(prelude, prelude.nil()))
