"""EliminateCommonSubexpr: which calls become one, and which do not."""

from collections.abc import Iterator

import numpy as np
import pytest

import apass
from apass.relay.expr import OPS, Call, Expr, Let, Op, Tuple, TupleGetItem
from apass.relay.function import Function
from apass.relay.ir.calls import op_name
from apass.relay.make import const, var
from apass.relay.op.define.registry import register_op
from apass.relay.op.define.relations import identity_relation
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.elementwise.convert import cast
from apass.relay.op.elementwise.math import negative
from apass.relay.op.shape.create import ones
from apass.relay.op.shape.join import concatenate
from apass.relay.ref import RefRead
from apass.relay.transform.eliminate_common_subexpr import EliminateCommonSubexpr, eliminate_common_subexpr

X, Y = var("x", shape=(2,)), var("y", shape=(2,))


@pytest.fixture
def stateful() -> Iterator[Op]:
    """An operator that must be called as often as it stands there."""
    yield register_op("test.state", arguments=("x",), relation=identity_relation, compute=np.positive, stateful=True)
    del OPS["test.state"]


def are_merged(one: Expr, other: Expr) -> bool:
    """Tell whether two expressions become one, after checking that they stay as they are if not."""
    func = Function([X, Y], Tuple([one, other]))
    new = eliminate_common_subexpr(func)
    first, second = new.body.children
    assert first is one
    assert (second is one) == (new is not func)
    return second is one


def test_the_pass_is_of_level_3_and_requires_types() -> None:
    assert EliminateCommonSubexpr().info == apass.PassInfo(3, "EliminateCommonSubexpr", ("InferType",))


def test_calls_on_the_same_arguments_are_one() -> None:
    assert are_merged(add(X, Y), add(X, Y))
    assert are_merged(negative(add(X, Y)), negative(add(X, Y)))


def test_the_order_of_the_arguments_counts() -> None:
    assert not are_merged(add(X, Y), add(Y, X))


def test_attributes_count() -> None:
    assert are_merged(cast(X, "int32"), cast(X, "int32"))
    assert not are_merged(cast(X, "int32"), cast(X, "int64"))


def test_small_constants_are_the_same_if_their_values_and_types_are() -> None:
    assert are_merged(add(X, const(1.0)), add(X, const(1.0)))
    assert not are_merged(add(X, const(1.0)), add(X, const(2.0)))
    assert not are_merged(add(X, const(0.0)), add(X, const(-0.0)))
    assert not are_merged(add(X, const(1)), add(X, const(1, "int64")))
    assert are_merged(add(X, const([1.0])), add(X, const([1.0])))
    assert not are_merged(add(X, const([1.0])), add(X, const(1.0)))
    assert not are_merged(add(X, const([1.0] * 100)), add(X, const([1.0] * 100)))


def test_tuples_in_place_are_the_same_if_their_fields_are() -> None:
    assert are_merged(concatenate([X, Y], 0), concatenate([X, Y], 0))
    assert are_merged(concatenate([X, const([1.0])], 0), concatenate([X, const([1.0])], 0))
    assert not are_merged(concatenate([X, Y], 0), concatenate([Y, X], 0))
    assert not are_merged(concatenate([X], 0), concatenate(Tuple([X, X]), 0))


def test_fields_of_the_same_tuple_are_one() -> None:
    both = Tuple([X, Y])
    assert are_merged(TupleGetItem(both, 1), TupleGetItem(both, 1))
    assert not are_merged(TupleGetItem(both, 0), TupleGetItem(both, 1))
    assert not are_merged(TupleGetItem(both, 1), TupleGetItem(Tuple([X, Y]), 1))


def test_calls_without_arguments_or_of_functions_and_tuples_are_let_be() -> None:
    func = Function([], X)
    assert not are_merged(ones((2,), "float32"), ones((2,), "float32"))
    assert not are_merged(Call(func, []), Call(func, []))
    assert not are_merged(Tuple([X]), Tuple([X]))


def test_what_is_read_from_a_cell_may_differ() -> None:
    cell = var("cell")
    assert not are_merged(RefRead(cell), RefRead(cell))
    assert not are_merged(negative(RefRead(cell)), negative(RefRead(cell)))


def test_a_stateful_operator_is_called_as_often_as_before(stateful: Op) -> None:
    assert not are_merged(Call(stateful, [X]), Call(stateful, [X]))


def test_what_is_to_be_skipped_is_let_be() -> None:
    body = Tuple([add(X, Y), add(X, Y), negative(X), negative(X)])
    skip_sums = eliminate_common_subexpr(Function([X, Y], body), lambda expr: op_name(expr) == "add").body.children
    assert (skip_sums[0] is skip_sums[1], skip_sums[2] is skip_sums[3]) == (False, True)


def test_calls_in_different_functions_are_one_if_they_use_what_is_around_both() -> None:
    a, b = var("a"), var("b")
    func = Function([X], Tuple([Function([a], add(X, X)), Function([b], add(X, X)), Let(a, X, add(X, X))]))
    one, other, let = eliminate_common_subexpr(func).body.children
    assert isinstance(let, Let)
    assert one.children[1] is other.children[1] is let.body


def test_constants_of_the_same_bytes_and_another_type_are_two() -> None:
    one = np.float32(1)
    assert not are_merged(cast(const(one), "int64"), cast(const(one.view("int32")), "int64"))


def test_fields_that_are_to_be_skipped_stay() -> None:
    whole = Tuple([X, Y])
    func = Function([X, Y], Tuple([TupleGetItem(whole, 0), TupleGetItem(whole, 0)]))
    assert eliminate_common_subexpr(func, lambda expr: isinstance(expr, TupleGetItem)) is func
    assert eliminate_common_subexpr(func, lambda expr: isinstance(expr, Call)) is not func
