"""ConvertLayout: operators and those between them run in another layout."""

from collections.abc import Callable
from typing import Any

import pytest

from apass.errors import PassDefinitionError
from apass.relay.expr import Call, Expr, Tuple, TupleGetItem
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.op import nn
from apass.relay.transform.convert_layout.convert_layout import ConvertLayout, convert_layout
from apass.sync import run
from tests.helpers.relay.meaning import ops_of, optimized, typed

NHWC = {"nn.conv2d": ["NHWC", "default"]}
PACKED = {"nn.conv2d": ["NCHW4c", "default"]}
FOUR = [var(name, shape=(4,)) for name in ("gamma", "beta", "mean", "variance")]
NCHW_TO_NHWC = {"src_layout": "NCHW", "dst_layout": "NHWC"}


def conv(x: Expr, name: str = "w", groups: int = 1) -> Call:
    weight = var(name, shape=(4, 4 // groups, 3, 3))
    return nn.conv2d(x, weight, channels=4, kernel_size=(3, 3), padding=(1, 1), groups=groups)


X = var("x", shape=(1, 4, 6, 6))


def ops_after(expr: Expr, layouts: dict[str, list[str]] = NHWC) -> list[str]:
    return ops_of(optimized(expr, "ConvertLayout", desired_layouts=layouts))


@pytest.mark.parametrize("groups", [1, 4, 2])
def test_convolution_runs_in_desired_layout(groups: int) -> None:
    assert ops_after(conv(X, groups=groups)) == ["layout_transform"] * 2 + ["nn.conv2d", "layout_transform"]


def norm(name: str, value: Expr, **attrs: object) -> Call:
    return call_op(name, value, var("gamma", shape=(4,)), var("beta", shape=(4,)), **attrs)


BETWEEN: dict[str, Callable[[Expr], Expr]] = {
    "relu": nn.relu,
    "cast": lambda v: call_op("cast", v, dtype="float16"),
    "clip": lambda v: call_op("clip", v, a_min=-1.0, a_max=1.0),
    "bias": lambda v: call_op("add", v, var("b", shape=(4, 1, 1))),
    "last axis": lambda v: call_op("add", v, var("b", shape=(6,))),
    "on the left": lambda v: call_op("subtract", var("b", shape=(4, 1, 1)), v),
    "one channel": lambda v: call_op("multiply", v, var("b", shape=(1, 1, 6, 6))),
    "scalar": lambda v: call_op("multiply", v, const(2.0)),
    "scalar on the left": lambda v: call_op("divide", const(2.0), v),
    "compare": lambda v: call_op("less", v, var("b", shape=(1, 4, 6, 6))),
    "where": lambda v: call_op("where", call_op("less", v, const(0.0)), v, var("b", shape=(4, 1, 1))),
    "like": lambda v: call_op("full_like", v, const(3.0)),
    "dropout": lambda v: nn.dropout(v),
    "max_pool": lambda v: nn.max_pool2d(v, pool_size=(2, 2), strides=(2, 2)),
    "avg_pool": lambda v: nn.avg_pool2d(v, pool_size=(3, 3), padding=(1, 1)),
    "global": lambda v: nn.global_avg_pool2d(v),
    "adaptive": lambda v: nn.adaptive_max_pool2d(v, (2, 3)),
    "upsampling": lambda v: nn.upsampling(v, 2, 3),
    "resize": lambda v: call_op("image.resize2d", v, size=(3, 4), layout="NCHW"),
    "concatenate": lambda v: call_op("concatenate", Tuple([v, nn.relu(v)]), axis=1),
    "concatenate last axis": lambda v: call_op("concatenate", Tuple([v, nn.relu(v)]), axis=-1),
    "split": lambda v: call_op("concatenate", call_op("split", v, indices_or_sections=3, axis=2), axis=3),
    "split at": lambda v: TupleGetItem(call_op("split", v, indices_or_sections=(1, 4), axis=3), 1),
    "slice": lambda v: call_op("strided_slice", v, begin=(0, 0, 1), end=(1, 4, 5), strides=(1, 1, 2)),
    "slice of axes": lambda v: call_op("strided_slice", v, begin=(1, -3), end=(5, 100), axes=(2, 3)),
    "slice by size": lambda v: call_op("strided_slice", v, begin=(0, 0, 1), end=(-1, -1, 3), slice_mode="size"),
    "slice backwards": lambda v: call_op(
        "strided_slice", v, begin=(0, 0, 5, 4), end=(1, 4, 1, -7), strides=(1, 1, -1, -2)
    ),
    "slice like": lambda v: call_op("slice_like", v, var("like", shape=(1, 9, 2, 3)), axes=(2, 3)),
    "transpose": lambda v: call_op("transpose", v, axes=(0, 2, 3, 1)),
    "reversed": lambda v: call_op("transpose", v),
    "pad": lambda v: nn.pad(v, ((0, 0), (0, 0), (1, 2), (0, 1))),
    "mirror": lambda v: nn.mirror_pad(v, ((0, 0), (0, 0), (1, 2), (0, 1))),
    "mean": lambda v: call_op("mean", v, axis=(2, 3), keepdims=True),
    "mean without axes": lambda v: call_op("mean", v, axis=(2, 3)),
    "sum of others": lambda v: call_op("sum", v, axis=(0, 1), exclude=True),
    "max of all": lambda v: call_op("max", v),
    "argmax": lambda v: call_op("argmax", v, axis=(2, 3), keepdims=True),
    "variance": lambda v: call_op("variance", v, call_op("mean", v, axis=(2, 3), keepdims=True), axis=(2, 3)),
    "squeeze": lambda v: call_op("squeeze", call_op("mean", v, axis=(3,), keepdims=True), axis=(-1,)),
    "squeeze all": lambda v: call_op("squeeze", call_op("mean", v, axis=(2, 3), keepdims=True)),
    "l2": lambda v: nn.l2_normalize(v, 1e-3, (2, 3)),
}
"""Operators that run in any layout, blocked or not."""

ALONG_CHANNELS: dict[str, Callable[[Expr], Expr]] = {
    "bias_add": lambda v: nn.bias_add(v, var("b", shape=(4,))),
    "softmax": lambda v: nn.softmax(v, axis=1),
    "log_softmax": lambda v: nn.log_softmax(v, axis=1),
    "prelu": lambda v: nn.prelu(v, var("alpha", shape=(4,))),
    "lrn": lambda v: nn.lrn(v, size=3, alpha=0.1),
    "layer_norm": lambda v: norm("nn.layer_norm", v, axis=1),
    "instance_norm": lambda v: norm("nn.instance_norm", v),
    "batch_norm": lambda v: TupleGetItem(call_op("nn.batch_norm", v, *FOUR), 0),
    "argmax": lambda v: call_op("argmax", v, axis=(1,)),
    "split": lambda v: TupleGetItem(call_op("split", v, indices_or_sections=2, axis=1), 1),
    "pad": lambda v: nn.pad(v, ((0, 0), (1, 0), (0, 0), (0, 0))),
    "slice": lambda v: call_op("strided_slice", v, begin=(0, 1), end=(1, 3)),
    "squeeze": lambda v: call_op("squeeze", call_op("sum", v, axis=(1,), keepdims=True), axis=(1,)),
}
"""Operators along the channels, which must not be blocked."""


def changes_after_conv(after: list[str]) -> int:
    """Return the number of layout changes after the convolution."""
    return after[after.index("nn.conv2d") :].count("layout_transform")


WITH_ANOTHER = frozenset({"one channel", "compare", "bias", "last axis", "where", "slice like"})
"""Operators on a second tensor, which changes its layout too."""

SAME_ORDER = frozenset({"max of all", "mean without axes", "sum of others", "squeeze all", "variance"})
"""Operators whose result has its axes in the same order in both layouts."""

MERGED = frozenset({"transpose", "reversed"})
"""Operators that are merged with the change of layout."""


@pytest.mark.parametrize("between", BETWEEN)
def test_following_operator_runs_in_new_layout(between: str) -> None:
    after = ops_after(BETWEEN[between](conv(X)))
    assert changes_after_conv(after) == (0 if between in SAME_ORDER | MERGED else 2 if between in WITH_ANOTHER else 1)


@pytest.mark.parametrize("between", ALONG_CHANNELS)
def test_channel_operator_runs_in_new_layout(between: str) -> None:
    after = ops_after(ALONG_CHANNELS[between](conv(X)))
    assert changes_after_conv(after) == (0 if between in {"argmax", "squeeze"} else 1)


@pytest.mark.parametrize("between", BETWEEN)
def test_following_operator_keeps_meaning_in_blocks(between: str) -> None:
    assert "layout_transform" in ops_after(BETWEEN[between](conv(X)), PACKED)


@pytest.mark.parametrize("between", ALONG_CHANNELS)
def test_channel_operator_gets_unblocked_channels(between: str) -> None:
    after = ops_after(ALONG_CHANNELS[between](conv(X)), PACKED)
    assert after[after.index("nn.conv2d") + 1] in {"layout_transform", "sum"}


IN_BLOCKS = ["relu", "bias", "one channel", "max_pool", "concatenate", "slice of axes", "pad", "mean", "max of all"]


@pytest.mark.parametrize("between", IN_BLOCKS)
def test_other_operator_continues_in_blocks(between: str) -> None:
    after = ops_after(BETWEEN[between](conv(X)), PACKED)
    assert after[after.index("nn.conv2d") + 1] != "layout_transform" or between in {"bias", "one channel"}


def test_consecutive_convolutions_need_no_layout_change() -> None:
    after = ops_after(conv(nn.relu(conv(X, "w1")), "w2"))
    assert after.count("layout_transform") == 4


def test_shared_tensor_changes_layout_once() -> None:
    after = ops_after(Tuple([conv(X, "w1"), conv(X, "w2")]))
    assert after.count("layout_transform") == 5


def test_operator_without_rule_gets_original_layout() -> None:
    after = ops_after(nn.batch_flatten(conv(X)))
    assert after[-2:] == ["layout_transform", "nn.batch_flatten"]


def test_concatenation_of_different_layouts_gets_original_layout() -> None:
    after = ops_after(call_op("concatenate", Tuple([conv(X), X]), axis=1))
    assert after[-2:] == ["layout_transform", "concatenate"]


def test_group_norm_gets_original_layout() -> None:
    after = ops_after(norm("nn.group_norm", conv(X), num_groups=2))
    assert after[-2:] == ["layout_transform", "nn.group_norm"]


def test_instance_norm_gets_original_layout_when_batch_moves() -> None:
    after = ops_after(norm("nn.instance_norm", conv(X)), {"nn.conv2d": ["HWNC", "default"]})
    assert after[-2:] == ["layout_transform", "nn.instance_norm"]


def test_flat_argmax_gets_original_layout() -> None:
    after = ops_after(call_op("argmax", conv(X)))
    assert after[-2:] == ["layout_transform", "argmax"]


def test_call_in_desired_layout_stays() -> None:
    after = ops_of(optimized(conv(X), "ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW", "OIHW"]}))
    assert after == ["nn.conv2d"]


def test_unchanged_program_is_same_object() -> None:
    x = nn.relu(conv(X))
    part = TupleGetItem(call_op("split", x, indices_or_sections=2, axis=1), 1)
    before = typed(Tuple([TupleGetItem(Tuple([x, X]), 0), part, call_op("layout_transform", x, **NCHW_TO_NHWC)]))[
        "main"
    ]
    assert convert_layout(before, {"nn.conv1d": ["NWC", "default"]}) is before


def test_call_stays_when_blocks_do_not_divide_channels() -> None:
    assert ops_after(conv(X), {"nn.conv2d": ["NCHW3c", "default"]}) == ["nn.conv2d"]


def test_converting_back_restores_program() -> None:
    there = optimized(conv(nn.relu(conv(X, "w1")), "w2"), "ConvertLayout", desired_layouts=NHWC)
    back = optimized(there, "ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW", "default"]})
    assert ops_of(back) == ["nn.conv2d", "nn.relu", "nn.conv2d"]


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"nn.conv2d": []}, "the layouts of nn.conv2d must be a list, one for each tensor, got []"),
        (
            {"nn.conv2d": ["NHWC", "HWIO", "NHWC"]},
            (
                "the layouts of nn.conv2d must be [data, weight], where the weight can be 'default', "
                "got ['NHWC', 'HWIO', 'NHWC']"
            ),
        ),
        (
            {"nn.conv2d": ["HWCN"]},
            (
                "nn.conv2d has no default layout of the weight for data in HWCN; specify the layout of the weight, "
                "or convert to one of NCHW, NHWC, HWNC"
            ),
        ),
        (
            {"nn.conv2d": ["NWC"]},
            "the layout of the data of nn.conv2d must have the axes of NCHW, got 'NWC'",
        ),
        ({"nn.conv2d": ["default"]}, "the layout of the data of nn.conv2d cannot be 'default'; specify a layout"),
        (
            {"nn.conv2d": ["NHWC", "HWO"]},
            "the layout of the weight of nn.conv2d must have the axes of OIHW, got 'HWO'",
        ),
        (
            {"nn.conv2d": ["NCHWc"]},
            (
                "the layout of the data of nn.conv2d: 'NCHWc' is not a layout; expected axes and blocks "
                "with a size, such as NCHW or NCHW8c"
            ),
        ),
        (
            {"nn.max_pool2d": ["NHWC", "default"]},
            "nn.max_pool2d needs exactly one layout, that of the data, got ['NHWC', 'default']",
        ),
        (
            {"nn.dense": ["NC"]},
            "ConvertLayout has no rule for operator 'nn.dense'; register one with relay.op.register_convert_op_layout",
        ),
        ({"nn.conv2d": "NHWC"}, "the layouts of nn.conv2d must be a list, one for each tensor, got 'NHWC'"),
        ({"nn.konv2d": ["NHWC"]}, "no operator is named 'nn.konv2d'; did you mean 'nn.conv2d'?"),
    ],
)
def test_invalid_layout_raises_error(layouts: dict[str, list[str]], message: str) -> None:
    with pytest.raises(PassDefinitionError) as caught:
        ConvertLayout(layouts)
    assert str(caught.value) == message


def test_layouts_that_are_no_mapping_raise_error() -> None:
    value: Any = "NHWC"
    with pytest.raises(PassDefinitionError) as caught:
        ConvertLayout(value)
    assert str(caught.value) == (
        """desired_layouts must be a mapping, as {"nn.conv2d": ["NHWC", "default"]}, got 'NHWC'"""
    )


def test_later_change_of_layouts_has_no_effect() -> None:
    layouts = {"nn.conv2d": ["NHWC", "default"]}
    pass_ = ConvertLayout(layouts)
    layouts["nn.conv2d"][0] = "NCHW"
    assert ops_of(run(pass_, typed(conv(X)))["main"]).count("layout_transform") == 3
