"""`get_total_mac_number`: multiply-accumulates, counted as a loop over them would."""

import pytest

from apass.relay.analysis.mac_count import get_total_mac_number
from apass.relay.expr import Expr
from apass.relay.make import var
from apass.relay.op.elementwise.arithmetic import add
from apass.relay.op.nn.conv.conv import conv2d
from apass.relay.op.nn.conv.transpose import conv2d_transpose
from apass.relay.op.nn.dense.dense import batch_matmul, dense
from apass.relay.ty import Any
from apass.relay.type_inference.infer import infer_expr

DATA, WEIGHT = var("data", shape=(1, 8, 10, 10)), var("weight", shape=(4, 8, 3, 3))


def count(expr: Expr) -> int:
    return get_total_mac_number(infer_expr(expr))


@pytest.mark.parametrize(
    ("expr", "number"),
    [
        (conv2d(DATA, WEIGHT, kernel_size=(3, 3), channels=4), 4 * 8 * 8 * (3 * 3 * 8)),
        (conv2d(DATA, WEIGHT), 4 * 8 * 8 * (3 * 3 * 8)),
        (
            conv2d(DATA, var("w", shape=(8, 1, 3, 3)), groups=8, channels=8, kernel_size=(3, 3), padding=(1, 1)),
            8 * 10 * 10 * (3 * 3),
        ),
        (
            conv2d(
                var("d", shape=(1, 10, 10, 8)),
                var("w", shape=(3, 3, 8, 4)),
                channels=4,
                kernel_size=(3, 3),
                data_layout="NHWC",
                kernel_layout="HWIO",
            ),
            8 * 8 * 4 * (3 * 3 * 8),
        ),
        (
            conv2d_transpose(DATA, var("w", shape=(8, 4, 3, 3)), channels=4, kernel_size=(3, 3)),
            4 * 12 * 12 * (3 * 3 * 8),
        ),
        (dense(var("d", shape=(3, 5)), var("w", shape=(7, 5))), 3 * 5 * 7),
        (batch_matmul(var("a", shape=(2, 3, 5)), var("b", shape=(2, 7, 5))), 2 * 3 * 5 * 7),
        (add(DATA, DATA), 0),
    ],
)
def test_a_call_takes_as_many_as_its_loops(expr: Expr, number: int) -> None:
    assert count(expr) == number


def test_calls_are_added_and_a_shared_one_is_counted_once() -> None:
    first = dense(var("d", shape=(3, 5)), var("w", shape=(5, 5)))
    assert count(add(first, dense(first, var("v", shape=(5, 5))))) == 2 * 3 * 5 * 5


def test_without_types_there_is_nothing_to_count() -> None:
    assert get_total_mac_number(dense(var("d", shape=(3, 5)), var("w", shape=(7, 5)))) == 0


def test_a_dimension_that_is_not_known_cannot_be_counted() -> None:
    with pytest.raises(ValueError, match=r"on a Tensor\[\(\?, 7\), float32\] cannot be counted"):
        count(dense(var("d", shape=(Any(), 5)), var("w", shape=(7, 5))))


@pytest.mark.parametrize("transpose_a", [False, True])
def test_a_product_takes_one_for_each_element_that_is_summed(transpose_a: bool) -> None:
    x = var("x", shape=(2, 7, 3) if transpose_a else (2, 3, 7))
    product = batch_matmul(x, var("y", shape=(2, 5, 7)), transpose_a=transpose_a)
    assert count(product) == 2 * 3 * 5 * 7
