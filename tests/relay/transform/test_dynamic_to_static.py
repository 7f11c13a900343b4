"""DynamicToStatic: operators with shapes that can be computed become static."""

import numpy as np
import pytest

import apass
from apass.relay.expr import Call, Expr, If, Op, Tuple
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op import (
    broadcast_to,
    expand_dims,
    full,
    one_hot,
    ones,
    reshape,
    shape_of,
    squeeze,
    strided_slice,
    tile,
    topk,
    zeros,
)
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.structural.equality import structural_equal
from apass.relay.transform import DynamicToStatic
from tests.helpers.relay.meaning import ops_of, optimized, typed

X = var("x", shape=(2, 3))
SHAPE = add(const(np.array([3, 2])), const(np.array([0, 0])))
TWO = add(const(1), const(1))
ZERO = add(const(0), const(0))
NUMBERS = add(const(np.array([1, 0])), const(np.array([0, 0])))


def as_expr(value: object) -> Expr:
    assert isinstance(value, Expr)
    return value


CASES: dict[str, Expr] = {
    "reshape": reshape(X, SHAPE),
    "tile": tile(X, SHAPE),
    "broadcast_to": broadcast_to(const(1.0), SHAPE),
    "zeros": zeros(SHAPE, "float32"),
    "ones": ones(SHAPE, "float32"),
    "full": full(const(2.0), SHAPE),
    "squeeze": squeeze(expand_dims(X, 0), add(const(np.array([0])), const(np.array([0])))),
    "expand_dims": expand_dims(X, ZERO),
    "strided_slice": strided_slice(X, NUMBERS, SHAPE, add(NUMBERS, const(np.array([0, 1])))),
    "topk": as_expr(topk(X, TWO, ret_type="values")),
    "one_hot": one_hot(const(np.array([1, 0])), const(1.0), const(0.0), TWO, -1, "float32"),
}


@pytest.mark.parametrize("name", CASES)
def test_shape_computed_from_constants_becomes_static(name: str) -> None:
    call = CASES[name]
    assert f"dyn.{name}" in ops_of(call)
    after = optimized(Tuple([call, X]), "DynamicToStatic")
    assert not any(op.startswith("dyn.") for op in ops_of(after))


def test_static_shape_makes_dependent_shapes_static() -> None:
    call: Expr = reshape(X, shape_of(var("y", shape=(6,)), "int64"))
    for _ in range(3):
        call = broadcast_to(const(1.0), shape_of(call, "int64"))
    assert not any(op.startswith("dyn.") for op in ops_of(optimized(call, "DynamicToStatic")))


def test_constant_if_is_folded_without_dynamic_operator() -> None:
    after = optimized(If(const(True), add(X, const(1.0)), X), "DynamicToStatic")
    assert structural_equal(after, typed(add(X, const(1.0)))["main"])


def test_constant_if_in_shape_is_folded_first() -> None:
    shape = If(const(False), var("shape", shape=(2,), dtype="int64"), const([3, 2], "int64"))
    body = optimized(reshape(X, shape), "DynamicToStatic").body
    assert isinstance(body, Call)
    assert (body.op, body.attrs) == (Op.get("reshape"), reshape(X, (3, 2)).attrs)


def test_constant_condition_selects_branch_with_static_shape() -> None:
    zero = add(const(1), const(-1))
    branches = If(
        call_op("cast", zero, dtype="bool"), reshape(X, var("s", shape=(2,), dtype="int64")), reshape(X, SHAPE)
    )
    after = apass.run(DynamicToStatic(), IRModule.from_expr(branches))
    assert ops_of(after["main"]) == ["reshape"]


def test_function_without_constants_is_same_object() -> None:
    mod = typed(add(X, X))
    assert apass.run(DynamicToStatic(), mod) is mod


def test_shape_depending_on_input_stays_dynamic() -> None:
    call = reshape(X, var("shape", shape=(2,), dtype="int64"))
    mod = IRModule.from_expr(call)
    after = apass.run(DynamicToStatic(), mod)
    assert ops_of(after["main"]) == ["dyn.reshape"]
