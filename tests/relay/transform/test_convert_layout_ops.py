"""ConvertLayout on each operator that can be listed, and with registered hooks."""

import typing
from collections.abc import Sequence

import anyio
import pytest

import apass
from apass.relay.expr import Call, Expr, Var
from apass.relay.expr_functor import ExprVisitor
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op, op_name
from apass.relay.ir.expr import var
from apass.relay.op import get, nn, register_convert_op_layout, register_op_attr
from apass.relay.op.layouts import InferCorrectLayoutOutput
from apass.relay.op.layouts.infer import Layouts
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.transform import LayoutConfig
from apass.relay.ty import Any, TensorType, Type
from tests.helpers.relay.meaning import ops_of, optimized, typed


def calls_of(func: Function, name: str) -> list[Call]:
    """Return the calls of an operator."""
    calls: list[Call] = []

    class Finder(ExprVisitor):
        def visit_call(self, call: Call) -> None:
            super().visit_call(call)
            if op_name(call) == name:
                calls.append(call)

    Finder().visit(func)
    return calls


def converted(expr: Expr, name: str, *layouts: str) -> Call:
    """Return the single call of an operator after its conversion."""
    (call,) = calls_of(optimized(expr, "ConvertLayout", desired_layouts={name: list(layouts)}), name)
    return call


DATA = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
KERNELS = {1: "OIW", 2: "OIHW", 3: "OIDHW"}


def conv(name: str, groups: int = 1, filters: int = 4) -> Call:
    rank = int(name[name.index("d") - 1])
    data = var("data", shape=(2, 4, 5, 6, 7)[: rank + 2])
    window = (3, 1, 2)[:rank]
    transposed = "transpose" in name
    weight = var("weight", shape=((4, filters) if transposed else (filters, 4 // groups)) + window)
    layout: dict[str, str] = {"kernel_layout": "IOHW"} if name == "nn.conv2d_transpose" else {}
    return call_op(name, data, weight, groups=groups, strides=(2, 1, 1)[:rank], padding=(1, 0, 1)[:rank], **layout)


CONVS = [f"nn.conv{rank}d{suffix}" for rank in (1, 2, 3) for suffix in ("", "_transpose")]


@pytest.mark.parametrize("name", CONVS)
def test_convolution_has_default_weight_layout(name: str) -> None:
    rank = int(name[7])
    data, kernel = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO"), 3: ("NDHWC", "DHWIO")}[rank]
    attrs = converted(conv(name), name, data, "default").attrs
    assert attrs is not None
    assert (attrs["data_layout"], attrs["kernel_layout"]) == (data, kernel)
    assert converted(conv(name), name, {1: "NCW", 2: "NCHW", 3: "NCDHW"}[rank]).attrs == conv(name).attrs


@pytest.mark.parametrize(
    ("data", "kernel"),
    [
        ("NHWC", "OHWI"),
        ("NHWC", "HWOI"),
        ("NCHW", "HWIO"),
        ("NCHW4c", "OIHW4i4o"),
        ("NCHW2c", "OIHW2i4o"),
        ("NHWC2c", "HWIO4o"),
        ("NCHW2n", "OHWI"),
        ("HWNC", "default"),
    ],
)
@pytest.mark.parametrize("name", ["nn.conv2d", "nn.conv2d_transpose"])
def test_layout_allows_any_order_and_blocks(name: str, data: str, kernel: str) -> None:
    if kernel == "default" and name != "nn.conv2d":
        kernel = "HWOI"
    attrs = converted(conv(name), name, data, kernel).attrs
    assert attrs is not None
    expected = "HWOI" if kernel == "default" else kernel
    assert (attrs["data_layout"], attrs["kernel_layout"]) == (data, expected)


@pytest.mark.parametrize(("groups", "filters", "kernel"), [(4, 4, "HWOI"), (4, 8, "HWIO"), (2, 4, "HWIO")])
def test_depthwise_default_weight_layout_has_filters_first(groups: int, filters: int, kernel: str) -> None:
    attrs = converted(conv("nn.conv2d", groups, filters), "nn.conv2d", "NHWC", "default").attrs
    assert attrs is not None
    assert attrs["kernel_layout"] == kernel


def test_offsets_change_layout_with_data() -> None:
    data, offset = var("data", shape=(1, 4, 6, 6)), var("offset", shape=(1, 18, 6, 6))
    weight = var("weight", shape=(4, 4, 3, 3))
    before = nn.deformable_conv2d(data, offset, weight, kernel_size=(3, 3), channels=4, padding=(1, 1))
    call = converted(before, "nn.deformable_conv2d", "NHWC", "default")
    assert [op_name(arg) for arg in call.args] == ["layout_transform"] * 3


ON_DATA: dict[str, dict[str, object]] = {
    **{f"nn.{kind}_pool{n}d": {"pool_size": (2,) * n} for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"nn.adaptive_{kind}_pool{n}d": {"output_size": (2,) * n} for kind in ("max", "avg") for n in (1, 2, 3)},
    **{f"image.resize{n}d": {"size": (3, 4, 2)[:n]} for n in (1, 2, 3)},
    "nn.global_max_pool2d": {},
    "nn.global_avg_pool2d": {},
    "nn.upsampling": {"scale_h": 2.0, "scale_w": 3.0},
    "nn.upsampling3d": {"scale_d": 1.0, "scale_h": 2.0, "scale_w": 1.0},
}


@pytest.mark.parametrize("name", ON_DATA)
@pytest.mark.parametrize("is_packed", [False, True])
def test_unary_operator_takes_one_layout(name: str, is_packed: bool) -> None:
    rank = next((n for n in (1, 3) if f"{n}d" in name), 2)
    data = var("data", shape=(2, 4, 5, 6, 7)[: rank + 2])
    layout = DATA[rank] + "2c" if is_packed else {1: "NWC", 2: "NHWC", 3: "NDHWC"}[rank]
    attrs = converted(call_op(name, data, **ON_DATA[name]), name, layout).attrs
    assert attrs is not None
    assert attrs["layout"] == layout


def test_unlisted_operator_is_not_converted() -> None:
    x, w, v = var("x", shape=(1, 4, 6, 6)), var("w", shape=(4, 4, 1, 1)), var("v", shape=(4, 4, 1, 1))
    program = call_op("nn.conv2d_transpose", nn.conv2d(x, w), v)
    after = optimized(program, "ConvertLayout", desired_layouts={"nn.conv2d": ["NHWC", "default"]})
    assert ops_of(after) == ["layout_transform"] * 2 + ["nn.conv2d", "layout_transform", "nn.conv2d_transpose"]


def test_operators_are_converted_to_different_layouts() -> None:
    x, w = var("x", shape=(1, 4, 6, 6)), var("w", shape=(4, 4, 1, 1))
    program = nn.max_pool2d(nn.relu(nn.conv2d(x, w)), (2, 2))
    layouts = {"nn.conv2d": ["NHWC", "HWIO"], "nn.max_pool2d": ["NCHW4c"]}
    after = optimized(program, "ConvertLayout", desired_layouts=layouts)
    moves = [
        (call.attrs["src_layout"], call.attrs["dst_layout"])
        for call in calls_of(after, "layout_transform")
        if call.attrs
    ]
    assert moves == [("NCHW", "NHWC"), ("OIHW", "HWIO"), ("NHWC", "NCHW4c"), ("NCHW4c", "NCHW")]


def test_explicit_output_layout_stays() -> None:
    x, w = var("x", shape=(1, 4, 6, 6)), var("w", shape=(4, 4, 1, 1))
    program = nn.conv2d(x, w, out_layout="NHWC")
    call = converted(nn.relu(program), "nn.conv2d", "NCHW4c", "default")
    assert call.attrs is not None
    assert call.attrs["out_layout"] == "NHWC"


def test_sequential_runs_required_passes_first() -> None:
    x, w, b = var("x", shape=(1, 4, 6, 6)), var("w", shape=(4, 4, 1, 1)), var("b", shape=(4,))
    pass_ = apass.get_pass("ConvertLayout", desired_layouts={"nn.conv2d": ["NHWC", "default"]})
    assert (pass_.info.opt_level, pass_.info.required) == (3, ("InferType", "CanonicalizeOps"))
    at_level_3 = apass.Sequential([pass_])
    before = typed(nn.bias_add(nn.conv2d(x, w), b))

    async def main() -> list[str]:
        async with apass.PassContext(opt_level=3):
            return ops_of((await at_level_3(before))["main"])

    ops = anyio.run(main)
    assert ops.count("nn.bias_add") == 0
    assert ops[-2:] == ["add", "layout_transform"]


# Calls that a LayoutConfig skips.


def two_convolutions() -> Expr:
    x, w = var("x", shape=(1, 4, 6, 6)), var("w", shape=(4, 4, 1, 1))
    return nn.conv2d(nn.relu(nn.conv2d(x, w)), w)


def layouts_of(expr: Expr) -> list[object]:
    """Return the data layout of each convolution after the conversion."""
    after = optimized(expr, "ConvertLayout", desired_layouts={"nn.conv2d": ["NHWC", "default"]})
    return [call.attrs["data_layout"] for call in calls_of(after, "nn.conv2d") if call.attrs]


@pytest.mark.parametrize(
    ("skip_layers", "layouts"),
    [(None, ["NHWC", "NHWC"]), ([], ["NHWC", "NHWC"]), ([0], ["NCHW", "NHWC"]), ((1, 5), ["NHWC", "NCHW"])],
)
def test_layout_config_skips_convolutions(skip_layers: list[int] | None, layouts: list[str]) -> None:
    with LayoutConfig(skip_layers):
        assert layouts_of(two_convolutions()) == layouts
    assert layouts_of(two_convolutions()) == ["NHWC", "NHWC"]


def test_nested_layout_config_counts_from_its_start() -> None:
    with LayoutConfig([2]) as outer:
        assert layouts_of(two_convolutions()) == ["NHWC", "NHWC"]
        with LayoutConfig(skip_layers=[1]):
            assert layouts_of(two_convolutions()) == ["NHWC", "NCHW"]
        assert layouts_of(two_convolutions()) == ["NCHW", "NHWC"]
        with outer, outer:
            assert layouts_of(two_convolutions()) == ["NHWC", "NHWC"]


def test_layout_config_rejects_names() -> None:
    value: typing.Any = ["conv1"]
    with pytest.raises(TypeError):
        LayoutConfig(value)


# Hooks.


def test_registered_hook_converts_call() -> None:
    seen: list[object] = []

    def hook(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]) -> Call:
        seen.extend([len(inputs), [str(ty) for ty in tinfos], desired_layouts])
        return Call(call.op, inputs, attrs.replaced(data_layout="NHWC", kernel_layout="OHWI"))

    call = conv("nn.conv2d")
    with TempOpAttr("nn.conv2d", "FTVMConvertOpLayout", hook):
        result = converted(call, "nn.conv2d", "anything", "else")
    assert result.attrs is not None
    assert result.attrs["kernel_layout"] == "OHWI"
    types = ["Tensor[(2, 4, 5, 6), float32]", "Tensor[(4, 4, 3, 1), float32]"]
    assert seen == [2, types, ["anything", "else"]]


def test_hook_may_replace_inputs() -> None:
    def hook(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]) -> Call:
        data, weight = inputs
        twice = call_op("negative", call_op("negative", weight))
        return Call(call.op, [data, twice], attrs.replaced(data_layout="NHWC"))

    call = conv("nn.conv2d")
    with TempOpAttr("nn.conv2d", "FTVMConvertOpLayout", hook):
        result = converted(call, "nn.conv2d", "NHWC")
    assert [op_name(arg) for arg in result.args] == ["layout_transform", "negative"]


def test_hook_may_call_another_operator() -> None:
    def hook(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]) -> Call:
        packed = dict(attrs.items()) | {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i4o"}
        return call_op("nn.contrib_conv2d_NCHWc", *inputs, **packed)

    with TempOpAttr("nn.conv2d", "FTVMConvertOpLayout", hook):
        after = optimized(conv("nn.conv2d"), "ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW4c"]})
    assert ops_of(after) == ["layout_transform"] * 2 + ["nn.contrib_conv2d_NCHWc", "layout_transform"]


def test_hook_may_keep_call() -> None:
    def hook(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]) -> None:
        return None

    with TempOpAttr("nn.conv2d", "FTVMConvertOpLayout", hook):
        result = converted(conv("nn.conv2d"), "nn.conv2d", "NHWC")
    assert result.attrs == conv("nn.conv2d").attrs


def test_hook_that_returns_no_call_raises_error() -> None:
    def hook(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]) -> Expr:
        return inputs[0]

    with TempOpAttr("nn.conv2d", "FTVMConvertOpLayout", hook), pytest.raises(TypeError) as caught:
        converted(conv("nn.conv2d"), "nn.conv2d", "NHWC")
    assert str(caught.value).startswith(
        "the FTVMConvertOpLayout of nn.conv2d must return None or a call with 2 arguments, got <relay.Var"
    )


def test_hook_can_be_registered_for_operator() -> None:
    dense = get("nn.dense")

    @register_convert_op_layout("nn.dense")
    def convert_dense(
        attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[Type], desired_layouts: Sequence[str]
    ) -> None:
        """Leave the call as it is."""

    try:
        apass.get_pass("ConvertLayout", desired_layouts={"nn.dense": ["NC"]})
    finally:
        dense.reset_attr("FTVMConvertOpLayout")


def test_rule_can_be_registered_for_operator() -> None:
    """Reversing along an axis that does not move can have a rule."""

    def rule(
        attrs: Attrs | None, new: Layouts | None, old: Layouts, types: Sequence[Type]
    ) -> InferCorrectLayoutOutput | None:
        layout = old[0] if new is None else new[0]
        return InferCorrectLayoutOutput([layout], [layout], attrs)

    program = call_op("reverse", conv("nn.conv2d"), axis=0)
    layouts = {"nn.conv2d": ["NHWC", "default"]}
    before = optimized(program, "ConvertLayout", desired_layouts=layouts)
    reverse = get("reverse")
    register_op_attr("reverse", "FInferCorrectLayout", rule)
    try:
        after = optimized(program, "ConvertLayout", desired_layouts=layouts)
    finally:
        reverse.reset_attr("FInferCorrectLayout")
    assert ops_of(before)[-2:] == ["layout_transform", "reverse"]
    assert ops_of(after)[-2:] == ["reverse", "layout_transform"]


def test_unknown_dimensions_are_allowed() -> None:
    x = Var("x", TensorType((Any(), 4, Any(), 6)))
    program = nn.relu(nn.conv2d(x, var("w", shape=(4, 4, 1, 1))))
    after = optimized(program, "ConvertLayout", desired_layouts={"nn.conv2d": ["NHWC", "default"]})
    assert ops_of(after)[-2:] == ["nn.relu", "layout_transform"]
