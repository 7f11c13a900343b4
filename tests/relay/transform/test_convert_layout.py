"""ConvertLayout: operators and what stands between them work in another layout, and the numbers stay."""

from collections.abc import Callable
from typing import Any

import pytest

from apass.errors import PassDefinitionError
from apass.relay.expr import Call, Expr, Tuple, TupleGetItem
from apass.relay.ir.calls import call_op
from apass.relay.make import const, var
from apass.relay.op import nn
from apass.relay.transform.convert_layout.convert_layout import ConvertLayout, convert_layout
from apass.sync import run
from tests.relay.meaning import ops_of, optimized, typed

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
def test_a_convolution_works_in_the_wanted_layout(groups: int) -> None:
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
    "concatenate behind": lambda v: call_op("concatenate", Tuple([v, nn.relu(v)]), axis=-1),
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
"""What goes on in any layout, whole or in blocks."""

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
"""What goes along the channels, so that they must be whole."""


def changes_behind(after: list[str]) -> int:
    """Return how many changes of layout there are after the convolution."""
    return after[after.index("nn.conv2d") :].count("layout_transform")


WITH_ANOTHER = frozenset({"one channel", "compare", "bias", "last axis", "where", "slice like"})
"""What takes another tensor behind the convolution, which changes its layout too."""

AS_IT_WAS = frozenset({"max of all", "mean without axes", "sum of others", "squeeze all", "variance"})
"""What leaves axes that stand in the same order in both layouts."""

FOLDED = frozenset({"transpose", "reversed"})
"""What takes up the change of layout."""


@pytest.mark.parametrize("between", BETWEEN)
def test_what_stands_behind_works_in_the_new_layout_too(between: str) -> None:
    after = ops_after(BETWEEN[between](conv(X)))
    assert changes_behind(after) == (0 if between in AS_IT_WAS | FOLDED else 2 if between in WITH_ANOTHER else 1)


@pytest.mark.parametrize("between", ALONG_CHANNELS)
def test_what_goes_along_the_channels_works_in_the_new_layout_too(between: str) -> None:
    after = ops_after(ALONG_CHANNELS[between](conv(X)))
    assert changes_behind(after) == (0 if between in {"argmax", "squeeze"} else 1)


@pytest.mark.parametrize("between", BETWEEN)
def test_what_stands_behind_keeps_its_meaning_in_blocks(between: str) -> None:
    assert "layout_transform" in ops_after(BETWEEN[between](conv(X)), PACKED)


@pytest.mark.parametrize("between", ALONG_CHANNELS)
def test_what_goes_along_channels_has_them_whole_again(between: str) -> None:
    after = ops_after(ALONG_CHANNELS[between](conv(X)), PACKED)
    assert after[after.index("nn.conv2d") + 1] in {"layout_transform", "sum"}


IN_BLOCKS = ["relu", "bias", "one channel", "max_pool", "concatenate", "slice of axes", "pad", "mean", "max of all"]


@pytest.mark.parametrize("between", IN_BLOCKS)
def test_what_does_not_go_along_channels_goes_on_in_blocks(between: str) -> None:
    after = ops_after(BETWEEN[between](conv(X)), PACKED)
    assert after[after.index("nn.conv2d") + 1] != "layout_transform" or between in {"bias", "one channel"}


def test_two_convolutions_in_a_row_need_no_change_between_them() -> None:
    after = ops_after(conv(nn.relu(conv(X, "w1")), "w2"))
    assert after.count("layout_transform") == 4


def test_a_tensor_that_several_take_changes_once() -> None:
    after = ops_after(Tuple([conv(X, "w1"), conv(X, "w2")]))
    assert after.count("layout_transform") == 5


def test_what_speaks_of_axes_in_another_way_gets_the_old_layout_back() -> None:
    after = ops_after(nn.batch_flatten(conv(X)))
    assert after[-2:] == ["layout_transform", "nn.batch_flatten"]


def test_operands_of_a_concatenation_that_are_in_several_layouts_get_the_old_one() -> None:
    after = ops_after(call_op("concatenate", Tuple([conv(X), X]), axis=1))
    assert after[-2:] == ["layout_transform", "concatenate"]


def test_groups_of_channels_and_what_is_behind_them_get_the_old_layout_back() -> None:
    after = ops_after(norm("nn.group_norm", conv(X), num_groups=2))
    assert after[-2:] == ["layout_transform", "nn.group_norm"]


def test_samples_that_do_not_come_first_get_the_old_layout_back() -> None:
    after = ops_after(norm("nn.instance_norm", conv(X)), {"nn.conv2d": ["HWNC", "default"]})
    assert after[-2:] == ["layout_transform", "nn.instance_norm"]


def test_places_that_are_counted_in_another_order_get_the_old_layout_back() -> None:
    after = ops_after(call_op("argmax", conv(X)))
    assert after[-2:] == ["layout_transform", "argmax"]


def test_a_layout_that_is_there_already_stays() -> None:
    after = ops_of(optimized(conv(X), "ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW", "OIHW"]}))
    assert after == ["nn.conv2d"]


def test_a_program_in_which_nothing_changes_is_the_same_object() -> None:
    x = nn.relu(conv(X))
    part = TupleGetItem(call_op("split", x, indices_or_sections=2, axis=1), 1)
    before = typed(Tuple([TupleGetItem(Tuple([x, X]), 0), part, call_op("layout_transform", x, **NCHW_TO_NHWC)]))[
        "main"
    ]
    assert convert_layout(before, {"nn.conv1d": ["NWC", "default"]}) is before


def test_where_blocks_do_not_divide_the_channels_a_call_stays() -> None:
    assert ops_after(conv(X), {"nn.conv2d": ["NCHW3c", "default"]}) == ["nn.conv2d"]


def test_there_and_back_is_the_program_it_was() -> None:
    there = optimized(conv(nn.relu(conv(X, "w1")), "w2"), "ConvertLayout", desired_layouts=NHWC)
    back = optimized(there, "ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW", "default"]})
    assert ops_of(back) == ["nn.conv2d", "nn.relu", "nn.conv2d"]


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"nn.conv2d": []}, "the layouts of nn.conv2d must be a list, one for each tensor, not []"),
        (
            {"nn.conv2d": ["NHWC", "HWIO", "NHWC"]},
            (
                "the layouts of nn.conv2d must be [data, weight], the weight's perhaps 'default', "
                "not ['NHWC', 'HWIO', 'NHWC']"
            ),
        ),
        (
            {"nn.conv2d": ["HWCN"]},
            (
                "nn.conv2d has no default layout of the weight for data in HWCN; write which one, "
                "or convert to one of NCHW, NHWC, HWNC"
            ),
        ),
        (
            {"nn.conv2d": ["NWC"]},
            "the layout of the data of nn.conv2d must have the axes of NCHW, not be 'NWC'",
        ),
        ({"nn.conv2d": ["default"]}, "the layout of the data of nn.conv2d cannot be 'default'; write which one"),
        (
            {"nn.conv2d": ["NHWC", "HWO"]},
            "the layout of the weight of nn.conv2d must have the axes of OIHW, not be 'HWO'",
        ),
        (
            {"nn.conv2d": ["NCHWc"]},
            (
                "the layout of the data of nn.conv2d: 'NCHWc' is not a layout; one is axes and blocks with a size, "
                "as NCHW or NCHW8c"
            ),
        ),
        (
            {"nn.max_pool2d": ["NHWC", "default"]},
            "nn.max_pool2d is converted to one layout, that of the data, not to ['NHWC', 'default']",
        ),
        (
            {"nn.dense": ["NC"]},
            "ConvertLayout does not know how to convert nn.dense; tell it with relay.op.register_convert_op_layout",
        ),
        ({"nn.conv2d": "NHWC"}, "the layouts of nn.conv2d must be a list, one for each tensor, not 'NHWC'"),
        ({"nn.konv2d": ["NHWC"]}, "there is no operator named 'nn.konv2d'; did you mean 'nn.conv2d'?"),
    ],
)
def test_a_layout_that_is_not_known_is_an_error(layouts: dict[str, list[str]], message: str) -> None:
    with pytest.raises(PassDefinitionError) as caught:
        ConvertLayout(layouts)
    assert str(caught.value) == message


def test_one_layout_for_all_is_an_error() -> None:
    given: Any = "NHWC"
    with pytest.raises(PassDefinitionError) as caught:
        ConvertLayout(given)
    assert str(caught.value) == (
        """desired_layouts must be a mapping, as {"nn.conv2d": ["NHWC", "default"]}, not 'NHWC'"""
    )


def test_what_is_asked_for_is_that_of_the_time_when_the_pass_was_made() -> None:
    layouts = {"nn.conv2d": ["NHWC", "default"]}
    pass_ = ConvertLayout(layouts)
    layouts["nn.conv2d"][0] = "NCHW"
    assert ops_of(run(pass_, typed(conv(X)))["main"]).count("layout_transform") == 3
