"""AlterOpLayout: hooks of operators choose layouts, and other calls."""

from collections.abc import Callable, Sequence

import pytest

import apass
from apass import relay
from apass.relay.expr import Call, Expr, Tuple
from apass.relay.function import Function
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import OPS, const, var
from apass.relay.op import get, nn, register_alter_op_layout
from apass.relay.structural.equality import structural_equal
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.transform.alter_op_layout import alter_op_layout
from apass.relay.ty import TensorType, Type
from tests.helpers.relay.meaning import ops_of, optimized, typed

pytestmark = pytest.mark.anyio

Hook = Callable[..., Expr | None]
X = var("x", shape=(1, 32, 8, 8))
W = var("w", shape=(32, 32, 3, 3))
BLOCKED = {"data_layout": "NCHW16c", "kernel_layout": "OIHW16i"}


def conv(data: Expr, weight: Expr = W, data_layout: str = "NCHW", kernel_layout: str = "OIHW") -> Call:
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call_op("nn.conv2d", data, weight, channels=32, kernel_size=(3, 3), padding=(1, 1), **layouts)


def in_blocks(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
    return Call(get("nn.conv2d"), inputs, attrs.replaced(**BLOCKED))


def returning(result: Expr | None) -> Hook:
    """Return a hook that always returns `result`."""

    def hook(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Expr | None:
        return result

    return hook


def altered(expr: Expr, name: str, hook: Hook) -> Function:
    """Return `main` after the pass; assert that its meaning is unchanged."""
    with TempOpAttr(name, "FTVMAlterOpLayout", hook):
        return optimized(expr, "AlterOpLayout")


def moved(value: Expr, source: str, target: str) -> Call:
    return relay.layout_transform(value, source, target)


def assert_becomes(before: Expr, expected: Expr, name: str = "nn.conv2d", hook: Hook = in_blocks) -> None:
    after = altered(before, name, hook)
    assert structural_equal(after, typed(expected)["main"]), str(after)


def test_level_and_requirements_match_tvm() -> None:
    assert relay.transform.AlterOpLayout().info == apass.PassInfo(3, "AlterOpLayout", ("InferType",))


def test_hook_replaces_operand_of_call() -> None:
    one = const(1.0)

    def double(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
        return Call(get("nn.conv2d"), [inputs[0], relay.multiply(inputs[1], relay.multiply(one, one))], attrs)

    expected = nn.relu(conv(X, relay.multiply(W, relay.multiply(one, one))))
    assert_becomes(nn.relu(conv(X)), expected, hook=double)


def test_hook_gets_types_and_none_keeps_call() -> None:
    seen: list[object] = []

    def keep(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> None:
        seen.append((attrs, [(ty.shape, ty.dtype) for ty in tinfos], out_type))

    mod = typed(nn.global_max_pool2d(conv(X)))
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", keep):
        assert alter_op_layout(mod["main"]) is mod["main"]
    shapes = [((1, 32, 8, 8), "float32"), ((32, 32, 3, 3), "float32")]
    assert seen == [(conv(X).attrs, shapes, TensorType((1, 32, 8, 8), "float32"))]


def test_layout_passes_operators_up_to_one_without_rule() -> None:
    bias = var("b", shape=(32, 1, 1))
    before = nn.batch_flatten(call_op("cast", nn.max_pool2d(nn.relu(relay.add(conv(X), bias)), (2, 2)), dtype="int32"))
    data = conv(moved(X, "NCHW", "NCHW16c"), moved(W, "OIHW", "OIHW16i"), **BLOCKED)
    full = moved(relay.expand_dims(bias, 0, 1), "NCHW", "NCHW16c")
    pooled = nn.max_pool2d(nn.relu(relay.add(data, full)), (2, 2), layout="NCHW16c")
    expected = nn.batch_flatten(moved(call_op("cast", pooled, dtype="int32"), "NCHW16c", "NCHW"))
    assert_becomes(before, expected)


def test_layouts_change_between_different_layouts_only() -> None:
    other = var("v", shape=(32, 32, 3, 3))
    before = conv(conv(X), other)
    first = conv(moved(X, "NCHW", "NCHW16c"), moved(W, "OIHW", "OIHW16i"), **BLOCKED)
    second = conv(first, moved(other, "OIHW", "OIHW16i"), **BLOCKED)
    assert_becomes(before, moved(second, "NCHW16c", "NCHW"))


def test_shared_tensor_is_transformed_once() -> None:
    first, other = conv(X), var("v", shape=(32, 32, 3, 3))
    data, weight = moved(X, "NCHW", "NCHW16c"), moved(W, "OIHW", "OIHW16i")
    both = relay.add(conv(data, weight, **BLOCKED), conv(data, moved(other, "OIHW", "OIHW16i"), **BLOCKED))
    assert_becomes(relay.add(first, conv(X, other)), moved(both, "NCHW16c", "NCHW"))


@pytest.mark.parametrize("scalar", [const(2.0), var("s", shape=(1,)), var("s", shape=(1, 1))])
def test_operand_of_one_element_keeps_layout(scalar: Expr) -> None:
    data = conv(moved(X, "NCHW", "NCHW16c"), moved(W, "OIHW", "OIHW16i"), **BLOCKED)
    assert_becomes(relay.multiply(conv(X), scalar), moved(relay.multiply(data, scalar), "NCHW16c", "NCHW"))


def test_smaller_operand_gets_blocks_of_its_own_size() -> None:
    row = var("row", shape=(1, 8, 1))
    data = conv(moved(X, "NCHW", "NCHW16c"), moved(W, "OIHW", "OIHW16i"), **BLOCKED)
    full = moved(relay.expand_dims(row, 0, 1), "NCHW", "NCHW1c")
    assert_becomes(relay.add(conv(X), row), moved(relay.add(data, full), "NCHW16c", "NCHW"))


def test_concatenation_along_channels_keeps_blocks() -> None:
    other = var("v", shape=(32, 32, 3, 3))
    data = moved(X, "NCHW", "NCHW16c")
    convs = [conv(data, moved(weight, "OIHW", "OIHW16i"), **BLOCKED) for weight in (W, other)]
    before = relay.concatenate([conv(X), conv(X, other)], axis=1)
    assert_becomes(before, moved(relay.concatenate(convs, axis=1), "NCHW16c", "NCHW"))


def test_hook_chooses_blocked_operator() -> None:
    def packed(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
        layouts = {"data_layout": "NCHW8c", "kernel_layout": "OIHW8i8o", "out_layout": "NCHW16c"}
        return Call(get("nn.contrib_conv2d_NCHWc"), inputs, attrs.replaced(**layouts))

    after = altered(nn.relu(conv(X)), "nn.conv2d", packed)
    assert ops_of(after) == ["layout_transform"] * 2 + ["nn.contrib_conv2d_NCHWc", "nn.relu", "layout_transform"]
    assert isinstance(after.body, Call)
    assert after.body.attrs == moved(X, "NCHW16c", "NCHW").attrs


def test_undividable_axis_keeps_original_layout() -> None:
    before = typed(nn.conv2d(var("x", shape=(1, 3, 8, 8)), var("w", shape=(6, 3, 1, 1))))
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", in_blocks):
        assert alter_op_layout(before["main"]) is before["main"]


def test_dense_weight_is_packed_as_on_x86() -> None:
    def packed(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
        return nn.contrib_dense_pack(inputs[0], inputs[1], "NC4n", None, tinfos[0].dtype)

    x, w = var("x", shape=(2, 3)), var("v", shape=(8, 3))
    expected = nn.relu(nn.contrib_dense_pack(x, moved(w, "NC", "NC4n"), "NC4n", None, "float32"))
    assert_becomes(nn.relu(nn.dense(x, w)), expected, "nn.dense", packed)
    # The blocks of four do not divide six rows.
    mod = typed(nn.dense(x, var("v", shape=(6, 3))))
    with TempOpAttr("nn.dense", "FTVMAlterOpLayout", packed):
        assert alter_op_layout(mod["main"]) is mod["main"]


def test_operator_without_rule_becomes_result_of_hook() -> None:
    def halves(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Expr:
        product = Call(get("nn.batch_matmul"), inputs, attrs)
        return relay.add(product, relay.zeros_like(product))

    x, w = var("x", shape=(2, 3, 4)), var("v", shape=(2, 5, 4))
    product = nn.batch_matmul(x, w)
    assert_becomes(product, relay.add(product, relay.zeros_like(product)), "nn.batch_matmul", halves)


def test_operator_without_rule_gets_operands_in_original_layout() -> None:
    def keep(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
        return nn.batch_flatten(inputs[0])

    with TempOpAttr("nn.batch_flatten", "FTVMAlterOpLayout", keep):
        after = altered(nn.batch_flatten(conv(X)), "nn.conv2d", in_blocks)
    assert ops_of(after)[-2:] == ["layout_transform", "nn.batch_flatten"]


def test_new_operator_without_rule_is_ignored() -> None:
    relay.op.register("tests.conv", "A convolution without a layout rule.")
    before = typed(conv(X))

    def unknown(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call:
        return Call(get("tests.conv"), inputs)

    try:
        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", unknown):
            assert alter_op_layout(before["main"]) is before["main"]
    finally:
        del OPS["tests.conv"]


@pytest.mark.parametrize(
    ("result", "name"), [(X, "nn.conv2d"), (nn.relu(X), "nn.conv2d"), (Tuple([X]), "nn.batch_flatten")]
)
def test_hook_must_return_call_with_same_operands(result: Expr, name: str) -> None:
    mod = typed(nn.batch_flatten(conv(X)))
    with (
        TempOpAttr(name, "FTVMAlterOpLayout", returning(result)),
        pytest.raises(TypeError, match=f"the FTVMAlterOpLayout of {name} must return None or a call"),
    ):
        alter_op_layout(mod["main"])


async def test_hook_registered_at_higher_level_applies() -> None:
    mod = typed(conv(X))
    register_alter_op_layout("nn.conv2d", in_blocks, level=11)
    try:
        register_alter_op_layout("nn.conv2d", returning(None), level=10)
        async with apass.PassContext(opt_level=3):
            after = await relay.transform.AlterOpLayout()(mod)
    finally:
        get("nn.conv2d").reset_attr("FTVMAlterOpLayout")
    assert ops_of(after["main"]).count("layout_transform") == 3
