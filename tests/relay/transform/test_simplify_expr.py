"""SimplifyExpr: each rule, where it must not apply, and unchanged meaning."""

import numpy as np
import pytest

from apass.relay.expr import Expr
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.op import nn
from apass.relay.op.shape.broadcast import collapse_sum_to
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import Any, TensorType
from tests.helpers.relay.meaning import ops_of, optimized, typed

X = var("x", shape=(2, 3, 4))


def ops_after(expr: Expr) -> list[str]:
    return ops_of(optimized(expr, "SimplifyExpr"))


@pytest.mark.parametrize(
    "expr",
    [
        call_op("add", X, const(0.0)),
        call_op("add", const(np.zeros((1, 1), "float32")), X),
        call_op("subtract", X, const(0.0)),
        call_op("multiply", const(1.0), X),
        call_op("divide", X, const(1.0)),
        call_op("cast", X, dtype="float32"),
        call_op("transpose", call_op("transpose", X, axes=(2, 0, 1)), axes=(1, 2, 0)),
        call_op("multiply", X, call_op("ones_like", X)),
    ],
    ids=ops_of,
)
def test_call_without_effect_is_dropped(expr: Expr) -> None:
    assert ops_after(expr) == []


@pytest.mark.parametrize(
    "expr",
    [
        call_op("reshape", X, newshape=(2, 3, 4)),
        call_op("transpose", X, axes=(0, 1, 2)),
        call_op("layout_transform", X, src_layout="NCW", dst_layout="NCW"),
        call_op("broadcast_to", X, shape=(2, 3, 4)),
        collapse_sum_to(X, (2, 3, 4)),
        call_op("squeeze", call_op("expand_dims", X, axis=0), axis=(0,)),
        call_op("expand_dims", call_op("squeeze", var("y", shape=(1, 2)), axis=(0,)), axis=0),
        call_op("reshape", call_op("expand_dims", X, axis=0), newshape=(24,)),
        call_op("cast", call_op("cast", X, dtype="float64"), dtype="float32"),
        call_op("add", X, const(np.zeros((3, 1), "float32"))),
        call_op("less", X, call_op("ones", shape=(2, 3, 4), dtype="float32")),
        call_op("multiply", X, call_op("full", var("s", shape=()), shape=(2, 3, 4), dtype="float32")),
        nn.bias_add(X, call_op("ones", shape=(3,), dtype="float32")),
    ],
    ids=ops_of,
)
def test_call_that_tvm_keeps_stays(expr: Expr) -> None:
    assert structural_equal(optimized(expr, "SimplifyExpr"), typed(expr)["main"])


def test_broadcasting_zero_stays() -> None:
    wider = const(np.zeros((5, 2, 3, 4), "float32"))
    assert ops_after(call_op("add", X, wider)) == ["add"]


def test_division_and_subtraction_from_constant_stay() -> None:
    assert ops_after(call_op("divide", const(1.0), X)) == ["divide"]
    assert ops_after(call_op("subtract", const(0.0), X)) == ["subtract"]


def test_consecutive_reshapes_are_merged() -> None:
    assert ops_after(call_op("reshape", call_op("reshape", X, newshape=(-1,)), newshape=(4, 6))) == ["reshape"]


def test_consecutive_transposes_are_merged() -> None:
    assert ops_after(call_op("transpose", call_op("transpose", X, axes=(1, 0, 2)))) == ["transpose"]


def layouts(expr: Expr, *names: str) -> Expr:
    """Return an expression after changes of layout, each written `A->B`."""
    for name in names:
        src, dst = name.split("->")
        expr = call_op("layout_transform", expr, src_layout=src, dst_layout=dst)
    return expr


IMAGE = var("image", shape=(2, 4, 6, 8))


@pytest.mark.parametrize(
    ("expr", "becomes"),
    [
        (layouts(IMAGE, "NCHW->NHWC", "NHWC->NCHW"), []),
        (layouts(IMAGE, "NCHW->NHWC", "NCHW->NHWC"), ["transpose"]),
        (layouts(IMAGE, "NCHW->NHWC", "NHWC->CHWN"), ["transpose"]),
        (layouts(call_op("transpose", IMAGE, axes=(0, 2, 3, 1)), "NHWC->NCHW"), []),
        (call_op("transpose", layouts(IMAGE, "NCHW->NHWC"), axes=(0, 3, 1, 2)), []),
        (call_op("transpose", layouts(IMAGE, "NCHW->NHWC"), axes=(0, 1, 3, 2)), ["transpose"]),
        (layouts(call_op("transpose", IMAGE, axes=(0, 2, 3, 1)), "NHWC->NHWC2c"), ["layout_transform"]),
        (layouts(call_op("transpose", IMAGE, axes=(3, 0, 2, 1)), "NCHW->NCHW2c"), ["layout_transform"]),
        (layouts(IMAGE, "NCHW->NCHW2c", "NCHW2c->NCHW"), []),
        (layouts(IMAGE, "NCHW->NCHW2c", "NCHW2c->NCHW4c"), ["layout_transform"]),
        (layouts(IMAGE, "NCHW->NCHW2c", "NCHW2c->NHWC"), ["layout_transform"]),
        (call_op("transpose", layouts(IMAGE, "NCHW->NCHW2c"), axes=(2, 4, 0, 1, 3)), ["layout_transform"]),
    ],
)
def test_transposes_and_layout_changes_are_merged(expr: Expr, becomes: list[str]) -> None:
    assert ops_after(expr) == becomes


def test_incompatible_layout_changes_stay() -> None:
    blocks = var("blocks", shape=(2, 2, 6, 8, 2))
    expr = layouts(blocks, "NCHW2c->NCHW", "NHWC->NHWC2c")
    assert ops_after(expr) == ["layout_transform", "layout_transform"]


def test_cast_to_same_type_is_dropped() -> None:
    some = var("some", TensorType((Any(), 3)))
    like = var("like", TensorType((Any(), 3)))
    assert ops_after(call_op("add", call_op("cast_like", some, like), call_op("cast", some, dtype="float32"))) == [
        "add"
    ]


def test_narrowing_cast_stays() -> None:
    narrow = call_op("cast", X, dtype="int32")
    assert ops_after(call_op("cast", narrow, dtype="float32")) == ["cast", "cast"]


@pytest.mark.parametrize(
    ("name", "becomes"), [("zeros_like", "zeros"), ("ones_like", "ones")], ids=["zeros_like", "ones_like"]
)
def test_like_operator_gets_static_shape(name: str, becomes: str) -> None:
    assert ops_after(call_op(name, X)) == [becomes]


def test_shape_of_another_tensor_becomes_attribute() -> None:
    flat = var("y", shape=(24,))
    assert ops_after(call_op("reshape_like", flat, X)) == ["reshape"]
    assert ops_after(call_op("broadcast_to_like", var("z", shape=(4,)), X)) == ["broadcast_to"]
    assert ops_after(call_op("collapse_sum_like", X, var("z", shape=(4,)))) == ["collapse_sum_to"]
    assert ops_after(call_op("full_like", X, const(2.5))) == ["full"]


@pytest.mark.parametrize("name", ["maximum", "floor_mod", "power", "add"])
@pytest.mark.parametrize("swapped", [False, True])
def test_full_operand_becomes_scalar(name: str, swapped: bool) -> None:
    full = call_op("full", const(3.0), shape=(2, 3, 4), dtype="float32")
    scalar = const(3.0)
    before, after = ((full, X), (scalar, X)) if swapped else ((X, full), (X, scalar))
    assert structural_equal(optimized(call_op(name, *before), "SimplifyExpr"), typed(call_op(name, *after))["main"])


def test_full_operand_of_other_type_is_converted() -> None:
    full = call_op("full", const(3), shape=(2, 3, 4), dtype="float32")
    after = optimized(call_op("add", X, full), "SimplifyExpr")
    assert structural_equal(after, typed(call_op("add", X, const(3.0)))["main"])


def test_reshape_like_empty_shape_stays() -> None:
    empty, like = var("e", shape=(2, 0)), var("l", shape=(0, 5))
    reshaped = call_op("reshape_like", empty, like)
    assert ops_after(reshaped) == ["reshape_like"]
    assert ops_after(call_op("reshape", reshaped, newshape=(-1,))) == ["reshape_like", "reshape"]


def test_rules_apply_to_results_of_other_rules() -> None:
    inner = call_op("add", call_op("reshape", X, newshape=(6, 4)), const(0.0))
    after = optimized(call_op("reshape", inner, newshape=(2, 3, 4)), "SimplifyExpr")
    assert structural_equal(after, typed(call_op("reshape", X, newshape=(2, 3, 4)))["main"])
