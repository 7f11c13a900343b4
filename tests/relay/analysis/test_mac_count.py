"""`get_total_mac_number` equals the iterations of the equivalent loop nest."""

import pytest

from apass.relay.analysis.mac_count import get_total_mac_number
from apass.relay.expr import Expr
from apass.relay.ir.expr import var
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
def test_count_equals_iterations_of_loop_nest(expr: Expr, number: int) -> None:
    assert count(expr) == number


def test_count_adds_calls_and_counts_shared_once() -> None:
    first = dense(var("d", shape=(3, 5)), var("w", shape=(5, 5)))
    assert count(add(first, dense(first, var("v", shape=(5, 5))))) == 2 * 3 * 5 * 5


def test_count_is_zero_without_types() -> None:
    assert get_total_mac_number(dense(var("d", shape=(3, 5)), var("w", shape=(7, 5)))) == 0


def test_dynamic_dimension_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"^cannot count the multiply-accumulates of Tensor\[\(\?, 7\), float32\]: "):
        count(dense(var("d", shape=(Any(), 5)), var("w", shape=(7, 5))))


@pytest.mark.parametrize("transpose_a", [False, True])
def test_batch_matmul_counts_reduced_axis_of_first_operand(transpose_a: bool) -> None:
    x = var("x", shape=(2, 7, 3) if transpose_a else (2, 3, 7))
    product = batch_matmul(x, var("y", shape=(2, 5, 7)), transpose_a=transpose_a)
    assert count(product) == 2 * 3 * 5 * 7
