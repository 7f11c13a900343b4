"""EliminateCommonSubexpr: which calls are merged, and which are not."""

from collections.abc import Iterator

import numpy as np
import pytest

import apass
from apass.relay.expr import OPS, Call, Expr, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.calls import op_name
from apass.relay.ir.expr import RefRead, const, var
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import identity_relation
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.convert import cast
from apass.relay.op.elementwise.math import negative
from apass.relay.op.shape.create import ones
from apass.relay.op.shape.join import concatenate
from apass.relay.transform.eliminate_common_subexpr import EliminateCommonSubexpr, eliminate_common_subexpr

X, Y = var("x", shape=(2,)), var("y", shape=(2,))


@pytest.fixture
def stateful() -> Iterator[Op]:
    """Register an operator whose calls must not be merged."""
    yield register_op("test.state", arguments=("x",), relation=identity_relation, compute=np.positive, stateful=True)
    del OPS["test.state"]


def are_merged(left: Expr, right: Expr) -> bool:
    """Return whether two expressions are merged; assert that others are unchanged."""
    func = Function([X, Y], Tuple([left, right]))
    new = eliminate_common_subexpr(func)
    first, second = new.body.children
    assert first is left
    assert (second is left) == (new is not func)
    return second is left


def test_eliminate_common_subexpr_has_level_three() -> None:
    assert EliminateCommonSubexpr().info == apass.PassInfo(3, "EliminateCommonSubexpr", ("InferType",))


def test_calls_on_same_arguments_are_merged() -> None:
    assert are_merged(add(X, Y), add(X, Y))
    assert are_merged(negative(add(X, Y)), negative(add(X, Y)))


def test_calls_with_swapped_arguments_are_not_merged() -> None:
    assert not are_merged(add(X, Y), add(Y, X))


def test_calls_with_different_attributes_are_not_merged() -> None:
    assert are_merged(cast(X, "int32"), cast(X, "int32"))
    assert not are_merged(cast(X, "int32"), cast(X, "int64"))


def test_small_constants_compare_by_value_and_type() -> None:
    assert are_merged(add(X, const(1.0)), add(X, const(1.0)))
    assert not are_merged(add(X, const(1.0)), add(X, const(2.0)))
    assert not are_merged(add(X, const(0.0)), add(X, const(-0.0)))
    assert not are_merged(add(X, const(1)), add(X, const(1, "int64")))
    assert are_merged(add(X, const([1.0])), add(X, const([1.0])))
    assert not are_merged(add(X, const([1.0])), add(X, const(1.0)))
    assert not are_merged(add(X, const([1.0] * 100)), add(X, const([1.0] * 100)))


def test_tuple_arguments_compare_by_fields() -> None:
    assert are_merged(concatenate([X, Y], 0), concatenate([X, Y], 0))
    assert are_merged(concatenate([X, const([1.0])], 0), concatenate([X, const([1.0])], 0))
    assert not are_merged(concatenate([X, Y], 0), concatenate([Y, X], 0))
    assert not are_merged(concatenate([X], 0), concatenate(Tuple([X, X]), 0))


def test_equal_fields_of_one_tuple_are_merged() -> None:
    both = Tuple([X, Y])
    assert are_merged(TupleGetItem(both, 1), TupleGetItem(both, 1))
    assert not are_merged(TupleGetItem(both, 0), TupleGetItem(both, 1))
    assert not are_merged(TupleGetItem(both, 1), TupleGetItem(Tuple([X, Y]), 1))


def test_other_expressions_are_not_merged() -> None:
    func = Function([], X)
    assert not are_merged(ones((2,), "float32"), ones((2,), "float32"))
    assert not are_merged(Call(func, []), Call(func, []))
    assert not are_merged(Tuple([X]), Tuple([X]))


def test_reads_of_cell_are_not_merged() -> None:
    cell = var("cell")
    assert not are_merged(RefRead(cell), RefRead(cell))
    assert not are_merged(negative(RefRead(cell)), negative(RefRead(cell)))


def test_stateful_calls_are_not_merged(stateful: Op) -> None:
    assert not are_merged(Call(stateful, [X]), Call(stateful, [X]))


def test_skipped_calls_are_not_merged() -> None:
    body = Tuple([add(X, Y), add(X, Y), negative(X), negative(X)])
    skip_sums = eliminate_common_subexpr(Function([X, Y], body), lambda expr: op_name(expr) == "add").body.children
    assert (skip_sums[0] is skip_sums[1], skip_sums[2] is skip_sums[3]) == (False, True)


def test_equal_calls_in_different_functions_are_merged() -> None:
    a, b = var("a"), var("b")
    func = Function([X], Tuple([Function([a], add(X, X)), Function([b], add(X, X)), Let(a, X, add(X, X))]))
    left, right, let = eliminate_common_subexpr(func).body.children
    assert isinstance(let, Let)
    assert left.children[1] is right.children[1] is let.body


def test_constants_of_different_types_are_not_merged() -> None:
    value = np.float32(1)
    assert not are_merged(cast(const(value), "int64"), cast(const(value.view("int32")), "int64"))


def test_skipped_fields_are_not_merged() -> None:
    whole = Tuple([X, Y])
    func = Function([X, Y], Tuple([TupleGetItem(whole, 0), TupleGetItem(whole, 0)]))
    assert eliminate_common_subexpr(func, lambda expr: isinstance(expr, TupleGetItem)) is func
    assert eliminate_common_subexpr(func, lambda expr: isinstance(expr, Call)) is not func
