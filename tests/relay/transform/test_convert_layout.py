"""ConvertLayout: convolutions and what stands between them work in another layout, and the numbers stay."""

from collections.abc import Callable

import pytest

from apass.errors import PassDefinitionError
from apass.registry import get_pass
from apass.relay.calls import call_op
from apass.relay.expr import Call, Expr, Tuple
from apass.relay.make import const, var
from apass.relay.op import nn
from tests.relay.meaning import ops_of, optimized

NHWC = {"nn.conv2d": ["NHWC", "default"]}


def conv(x: Expr, name: str = "w", groups: int = 1) -> Call:
    weight = var(name, shape=(4, 4 // groups, 3, 3))
    return nn.conv2d(x, weight, channels=4, kernel_size=(3, 3), padding=(1, 1), groups=groups)


X = var("x", shape=(1, 4, 6, 6))


def ops_after(expr: Expr) -> list[str]:
    return ops_of(optimized(expr, "ConvertLayout", desired_layouts=NHWC))


@pytest.mark.parametrize("groups", [1, 4, 2])
def test_a_convolution_works_in_the_wanted_layout(groups: int) -> None:
    assert ops_after(conv(X, groups=groups)) == ["layout_transform"] * 2 + ["nn.conv2d", "layout_transform"]


BETWEEN: dict[str, Callable[[Expr], Expr]] = {
    "relu": nn.relu,
    "bias": lambda v: call_op("add", v, var("b", shape=(4, 1, 1))),
    "scalar": lambda v: call_op("multiply", v, const(2.0)),
    "bias_add": lambda v: nn.bias_add(v, var("b", shape=(4,))),
    "max_pool": lambda v: nn.max_pool2d(v, pool_size=(2, 2), strides=(2, 2)),
    "avg_pool": lambda v: nn.avg_pool2d(v, pool_size=(3, 3), padding=(1, 1)),
    "global": lambda v: nn.global_avg_pool2d(v),
    "concatenate": lambda v: call_op("concatenate", Tuple([v, nn.relu(v)]), axis=1),
    "pad": lambda v: nn.pad(v, ((0, 0), (0, 0), (1, 2), (0, 1))),
    "mean": lambda v: call_op("mean", v, axis=(2, 3), keepdims=True),
    "softmax": lambda v: nn.softmax(v, axis=1),
    "prelu": lambda v: nn.prelu(v, var("alpha", shape=(4,))),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_what_stands_behind_works_in_the_new_layout_too(between: str) -> None:
    after = ops_after(BETWEEN[between](conv(X)))
    assert after[-1] == "layout_transform"


def test_two_convolutions_in_a_row_need_no_change_between_them() -> None:
    after = ops_after(conv(nn.relu(conv(X, "w1")), "w2"))
    assert after.count("layout_transform") == 4


def test_what_speaks_of_axes_in_another_way_gets_the_old_layout_back() -> None:
    after = ops_after(nn.batch_flatten(conv(X)))
    assert after[-2:] == ["layout_transform", "nn.batch_flatten"]


def test_a_layout_that_is_there_already_stays() -> None:
    after = ops_of(optimized(conv(X), "ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW", "OIHW"]}))
    assert after == ["nn.conv2d"]


@pytest.mark.parametrize("layouts", [{"nn.conv2d": ["HWCN"]}, {"nn.conv2d": []}, {"nn.dense": ["NC"]}])
def test_a_layout_that_is_not_known_is_an_error(layouts: dict[str, list[str]]) -> None:
    with pytest.raises(PassDefinitionError, match=r"the layouts of|knows how"):
        get_pass("ConvertLayout", desired_layouts=layouts)
