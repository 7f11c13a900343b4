"""FoldExplicitPadding: padding with zeros becomes padding of the convolution."""

import pytest

import apass
from apass.relay.expr import Call, Expr, Tuple
from apass.relay.function import Function
from apass.relay.interpreter.compare_outputs import difference, random_arguments
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.calls import attrs_of
from apass.relay.ir.expr import const, var
from apass.relay.ir.module import IRModule
from apass.relay.op import nn
from apass.relay.op.elementwise.math import exp
from apass.relay.op.nn.conv.conv import ConvAttrs
from apass.relay.structural.equality import structural_equal
from apass.relay.transform.fold_explicit_padding import FoldExplicitPadding
from apass.relay.type_inference.infer import infer_module
from tests.helpers.relay.meaning import optimized

W1, W2, W3 = (var("w", shape=(4, 3, *[3] * rank)) for rank in (1, 2, 3))


def data(*shape: int) -> Expr:
    """Return a variable with a batch of one and three channels."""
    return var("x", shape=(1, 3, *shape))


def folded(expr: Expr) -> Expr:
    """Return an expression after the pass, which must keep its meaning."""
    return optimized(expr, "FoldExplicitPadding").body


def pad(x: Expr, *spatial: tuple[int, int], value: float = 0.0, mode: str = "constant") -> Expr:
    """Return padding of spatial dimensions."""
    return nn.pad(x, ((0, 0), (0, 0), *spatial), value, mode)


@pytest.mark.parametrize(
    ("before", "padding"),
    [
        (nn.conv1d(pad(data(8), (1, 2)), W1, padding=1), (2, 3)),
        (nn.conv2d(pad(data(8, 8), (1, 2), (3, 0)), W2, padding=(1, 0)), (2, 3, 3, 0)),
        (nn.conv3d(pad(data(5, 5, 5), (1, 0), (0, 2), (1, 1)), W3), (1, 0, 1, 0, 2, 1)),
        (nn.conv2d(pad(pad(data(8, 8), (1, 1), (0, 0)), (0, 1), (2, 2)), W2, strides=2), (1, 2, 2, 2)),
        (
            nn.conv2d(
                nn.pad(var("x", shape=(1, 8, 8, 3)), ((0, 0), (1, 0), (2, 0), (0, 0))),
                var("w", shape=(3, 3, 3, 4)),
                data_layout="NHWC",
                kernel_layout="HWIO",
            ),
            (1, 2, 0, 0),
        ),
    ],
    ids=["conv1d", "conv2d", "conv3d", "twice", "channels last"],
)
def test_padding_is_folded(before: Expr, padding: tuple[int, ...]) -> None:
    after = folded(before)
    assert len(after.children) == 3
    assert not after.children[1].children
    assert isinstance(after, Call)
    assert attrs_of(after, ConvAttrs).padding == padding


X = data(8, 8)
SHARED = pad(X, (1, 1), (1, 1))


@pytest.mark.parametrize(
    "expr",
    [
        nn.conv2d(pad(X, (1, 1), (1, 1), value=1.0), W2),
        nn.conv2d(pad(X, (1, 1), (1, 1), mode="edge"), W2),
        nn.conv2d(pad(X, (-1, 1), (1, 1)), W2),
        nn.conv2d(nn.pad(X, ((0, 0), (0, 1), (1, 1), (1, 1))), var("w", shape=(4, 4, 3, 3))),
        nn.conv2d(nn.pad(X, ((1, 0), (0, 0), (1, 1), (1, 1))), W2),
        nn.conv2d(nn.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)), var("value", "float32")), W2),
        nn.conv2d(exp(X), W2),
        nn.conv2d_transpose(SHARED, var("w", shape=(3, 4, 3, 3))),
        nn.max_pool2d(SHARED, (2, 2)),
        nn.avg_pool2d(SHARED, (2, 2)),
        Tuple([nn.conv2d(SHARED, W2), SHARED]),
        Tuple([nn.conv2d(SHARED, W2), nn.conv2d(SHARED, W2, strides=2)]),
    ],
)
def test_other_padding_is_left(expr: Expr) -> None:
    mod = infer_module(IRModule.from_expr(expr))
    assert structural_equal(apass.run(FoldExplicitPadding(), mod), mod)


def test_padding_before_blocked_layout_is_left() -> None:
    x, w = var("x", shape=(1, 1, 8, 8, 4)), var("w", shape=(1, 1, 3, 3, 4, 4))
    padded = nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
    size = (3, 3)
    conv = nn.contrib_conv2d_nchwc(
        padded, w, channels=4, kernel_size=size, data_layout="NCHW4c", kernel_layout="OIHW4i4o"
    )
    mod = infer_module(IRModule.from_expr(conv))
    assert structural_equal(apass.run(FoldExplicitPadding(), mod), mod)


def test_many_paddings_are_folded_at_once() -> None:
    x = var("x", shape=(1, 3, 2, 2))
    padded: Expr = x
    for _ in range(300):
        padded = nn.pad(padded, ((0, 0), (0, 0), (1, 0), (0, 0)), const(0.0))
    before = infer_module(IRModule.from_expr(Function([x, W2], nn.conv2d(padded, W2, padding=1))))
    after = apass.run(FoldExplicitPadding(), before)
    arguments = random_arguments(before["main"], 0)
    assert difference(evaluate(before, *arguments), evaluate(after, *arguments)) == ""
    assert after["main"].body.children[1] is after["main"].params[0]
