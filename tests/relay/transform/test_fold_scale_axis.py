"""FoldScaleAxis: channel scales are folded into weights, forward and backward."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apass import relay
from apass.relay.analysis import free_vars
from apass.relay.expr import Call, Constant, Expr, Var
from apass.relay.function import Function
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import const, var
from apass.relay.ir.post_order import post_order
from apass.relay.op import nn
from apass.relay.structural.equality import structural_equal
from apass.relay.ty import TensorType
from tests.helpers.amounts import amount
from tests.helpers.relay.meaning import ops_of, optimized, typed

RNG = np.random.default_rng(0)


def scale(channels: int, layout: str = "NCHW", *, low: float = 0.5) -> Constant:
    shape = (channels, 1, 1) if layout == "NCHW" else (channels,)
    return const(RNG.uniform(low, 2.0, shape).astype("float32"))


def conv(data: Expr, channels: int, name: str = "w", *, groups: int = 1, layout: str = "NCHW", inputs: int = 4) -> Call:
    shape = (channels, inputs // groups, 3, 3)
    kernel_layout = "OIHW"
    if layout == "NHWC":
        kernel_layout = "HWIO" if groups == 1 else "HWOI"
        shape = (3, 3, inputs, channels) if groups == 1 else (3, 3, channels, 1)
    return nn.conv2d(
        data,
        var(name, TensorType(shape)),
        channels=channels,
        kernel_size=(3, 3),
        padding=(1, 1),
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )


def image(layout: str = "NCHW") -> Var:
    return var("x", shape=(1, 4, 5, 5) if layout == "NCHW" else (1, 5, 5, 4))


def scales_only_weights(func: Function) -> bool:
    """Return whether all products in a function scale weights, which are variables."""
    calls = [node for node in post_order(func) if isinstance(node, Call)]
    products = [call for call in calls if ops_of(call)[-1:] == ["multiply"]]
    return bool(products) and all(isinstance(call.args[0], Var) and call.args[0].name_hint != "x" for call in products)


@pytest.mark.parametrize(("layout", "groups"), [("NCHW", 1), ("NHWC", 1), ("NCHW", 4), ("NHWC", 4)])
def test_scale_is_folded_forward_into_weight(layout: str, groups: int) -> None:
    product = call_op("multiply", image(layout), scale(4, layout))
    after = optimized(conv(nn.relu(product), 4, groups=groups, layout=layout), "ForwardFoldScaleAxis")
    assert scales_only_weights(after)


def test_negative_scale_is_not_folded_forward_through_relu() -> None:
    product = call_op("multiply", image(), scale(4, low=-2.0))
    assert not scales_only_weights(optimized(conv(nn.relu(product), 4), "ForwardFoldScaleAxis"))


def test_bias_is_divided_by_scale_folded_forward() -> None:
    product = call_op("multiply", image(), scale(4))
    biased = call_op("add", product, var("b", shape=(4, 1, 1)))
    after = optimized(conv(nn.relu(biased), 6), "ForwardFoldScaleAxis")
    assert (scales_only_weights(after), "divide" in ops_of(after)) == (True, True)


def test_scale_is_folded_when_all_users_absorb_it() -> None:
    product = call_op("multiply", image(), scale(4))
    left, right = conv(product, 4, "w1"), conv(product, 4, "w2")
    assert scales_only_weights(optimized(call_op("add", left, right), "ForwardFoldScaleAxis"))
    assert not scales_only_weights(optimized(call_op("add", left, product), "ForwardFoldScaleAxis"))


@pytest.mark.parametrize(("layout", "groups"), [("NCHW", 1), ("NHWC", 1), ("NCHW", 4), ("NHWC", 4)])
def test_scale_is_folded_backward_into_weight(layout: str, groups: int) -> None:
    after = optimized(
        call_op("multiply", nn.relu(conv(image(layout), 4, groups=groups, layout=layout)), scale(4, layout)),
        "BackwardFoldScaleAxis",
    )
    assert scales_only_weights(after)


def test_scale_is_folded_backward_into_both_summands() -> None:
    total = call_op("add", conv(image(), 6, "w1"), conv(image(), 6, "w2"))
    assert scales_only_weights(optimized(call_op("multiply", nn.relu(total), scale(6)), "BackwardFoldScaleAxis"))


def test_bias_is_multiplied_by_scale_folded_backward() -> None:
    biased = call_op("add", conv(image(), 6), var("b", shape=(6, 1, 1)))
    after = optimized(call_op("multiply", nn.relu(biased), scale(6)), "BackwardFoldScaleAxis")
    assert ops_of(after).count("multiply") == 2


def test_scale_is_not_folded_into_shared_convolution() -> None:
    shared = conv(image(), 4)
    after = optimized(call_op("add", shared, call_op("multiply", shared, scale(4))), "BackwardFoldScaleAxis")
    assert not scales_only_weights(after)


def test_scale_is_folded_into_dense_layer() -> None:
    x, w = var("x", shape=(2, 4)), var("w", shape=(3, 4))
    factors = const(RNG.uniform(0.5, 2.0, 4).astype("float32"))
    assert scales_only_weights(optimized(nn.dense(call_op("multiply", x, factors), w), "ForwardFoldScaleAxis"))
    outputs = const(RNG.uniform(0.5, 2.0, 3).astype("float32"))
    assert scales_only_weights(optimized(call_op("multiply", nn.dense(x, w), outputs), "BackwardFoldScaleAxis"))


BOTH = ["ForwardFoldScaleAxis", "BackwardFoldScaleAxis"]


def is_unchanged(expr: Expr, name: str) -> bool:
    """Return whether a pass leaves a program as it is, and keeps its meaning."""
    return ops_of(optimized(expr, name)) == ops_of(expr)


def test_negative_scale_is_not_folded_backward_through_relu() -> None:
    negative = scale(4, low=-2.0)
    assert is_unchanged(call_op("multiply", nn.relu(conv(image(), 4)), negative), "BackwardFoldScaleAxis")
    for left, right in (((0, 1)), ((1, 0))):
        sides = [conv(image(), 4, "w1"), nn.relu(conv(image(), 4, "w2"))]
        total = call_op("add", sides[left], sides[right])
        assert is_unchanged(call_op("multiply", total, negative), "BackwardFoldScaleAxis")


def test_scale_is_not_folded_backward_into_mismatched_sum() -> None:
    x, y = var("x", shape=(1, 4, 4, 4)), var("y", shape=(1, 4, 4, 4))
    mixed_axes = call_op("add", conv(x, 4, "w1"), conv(y, 4, "w2", layout="NHWC"))
    assert is_unchanged(call_op("multiply", mixed_axes, scale(4)), "BackwardFoldScaleAxis")
    one_channel = call_op("add", conv(x, 4, "w1"), conv(x, 1, "w2"))
    assert is_unchanged(call_op("multiply", one_channel, scale(4)), "BackwardFoldScaleAxis")
    more_axes = call_op("add", conv(x, 4), var("b", shape=(3, 1, 4, 4, 4)))
    assert is_unchanged(call_op("multiply", more_axes, scale(4)), "BackwardFoldScaleAxis")


@pytest.mark.parametrize("name", BOTH)
def test_factors_along_other_axes_are_not_folded(name: str) -> None:
    factors = const(RNG.uniform(0.5, 2.0, (4, 5, 1)).astype("float32"))
    before = call_op("multiply", image(), factors)
    assert is_unchanged(call_op("multiply", conv(before, 4), factors), name)


@pytest.mark.parametrize("relu", [False, True])
def test_scale_with_zero_is_not_folded_through_bias(relu: bool) -> None:
    zeros = const(np.array([[[1]], [[0]], [[2]], [[3]]], "float32"))
    biased = call_op("add", call_op("multiply", image(), zeros), var("b", shape=(4, 1, 1)))
    assert is_unchanged(conv(nn.relu(biased) if relu else biased, 4), "ForwardFoldScaleAxis")


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(("groups", "channels"), [(2, 4), (4, 8)])
def test_scales_of_grouped_convolutions_are_not_folded(name: str, groups: int, channels: int) -> None:
    grouped = conv(call_op("multiply", image(), scale(4)), channels, groups=groups)
    assert is_unchanged(call_op("multiply", grouped, scale(channels)), name)


@pytest.mark.parametrize("name", BOTH)
def test_scales_of_transposed_convolutions_are_not_folded(name: str) -> None:
    weight = var("w", shape=(4, 4, 3, 3))
    transposed = nn.conv2d_transpose(call_op("multiply", image(), scale(4)), weight, channels=4, kernel_size=(3, 3))
    assert is_unchanged(call_op("multiply", transposed, scale(4)), name)


def test_scale_follows_axis_of_output_layout() -> None:
    weight = var("w", shape=(4, 4, 3, 3))
    result = nn.conv2d(image(), weight, channels=4, kernel_size=(3, 3), padding=(1, 1), out_layout="NHWC")
    after = optimized(call_op("multiply", result, scale(4, "NHWC")), "BackwardFoldScaleAxis")
    assert scales_only_weights(after)


@pytest.mark.parametrize("name", BOTH)
def test_integer_scales_are_not_folded(name: str) -> None:
    x, w, b = (
        var("x", shape=(2, 4), dtype="int32"),
        var("w", shape=(3, 4), dtype="int32"),
        var("b", dtype="int32", shape=(4,)),
    )
    factors = [const(np.arange(2, 2 + size, dtype="int32")) for size in (4, 3)]
    inner = nn.dense(call_op("add", call_op("multiply", x, factors[0]), b), w)
    assert is_unchanged(call_op("multiply", inner, factors[1]), name)


@pytest.mark.parametrize("name", BOTH)
def test_scale_of_wider_result_is_not_folded(name: str) -> None:
    x, w = var("x", shape=(2, 4), dtype="float16"), var("w", shape=(3, 4), dtype="float16")
    factors = [const(RNG.uniform(0.5, 2.0, size).astype(dtype)) for size, dtype in ((4, "float16"), (3, "float32"))]
    wide = nn.dense(call_op("multiply", x, factors[0]), w, out_dtype="float32")
    assert is_unchanged(call_op("multiply", wide, factors[1]), name)


BLOCKS = var("x", shape=(1, 2, 5, 5, 2))


def blocked_conv(data: Expr, weight: Expr, channels: int, groups: int = 1, kernel: str = "OIHW2i4o") -> Call:
    layouts = {"data_layout": "NCHW2c", "kernel_layout": kernel}
    return call_op("nn.conv2d", data, weight, channels=channels, kernel_size=(1, 1), groups=groups, **layouts)


def blocked_scale(blocks: int, rank: int = 5) -> Constant:
    return const(RNG.uniform(0.5, 2.0, (1, blocks, 1, 1, 2)[-rank:]).astype("float32"))


def assert_becomes(before: Expr, expected: Expr, name: str) -> None:
    """Assert that a pass returns the expected program, of the same meaning."""
    params = free_vars(before)
    after = optimized(Function(params, before), name)
    assert structural_equal(after, typed(Function(params, expected))["main"]), str(after)


@pytest.mark.parametrize("rank", [4, 5])
def test_scale_of_blocks_is_folded_forward(rank: int) -> None:
    weight, bias, factor = var("w", shape=(2, 2, 1, 1, 2, 4)), var("b", shape=(2, 1, 1, 2)), blocked_scale(2, rank)
    before = blocked_conv(nn.relu(relay.add(relay.multiply(BLOCKS, factor), bias)), weight, 8)
    squeezed = relay.squeeze(factor, (1, 2) if rank == 4 else (0, 2, 3))
    divided = relay.divide(bias, relay.reshape(squeezed, (1, 2, 1, 1, 2)))
    scaled = relay.multiply(weight, relay.reshape(squeezed, (1, 2, 1, 1, 2, 1)))
    assert_becomes(before, blocked_conv(nn.relu(relay.add(BLOCKS, divided)), scaled, 8), "ForwardFoldScaleAxis")


def test_scale_of_blocks_is_folded_backward() -> None:
    weight, bias, factor = var("w", shape=(1, 2, 1, 1, 2, 4)), var("b", shape=(2, 1, 1, 2)), blocked_scale(2)
    before = relay.multiply(nn.relu(relay.add(blocked_conv(BLOCKS, weight, 4), bias)), factor)
    squeezed = relay.squeeze(factor, (0, 2, 3))
    scaled = relay.multiply(weight, relay.reshape(squeezed, (1, 1, 1, 1, 1, 4)))
    product = relay.multiply(bias, relay.reshape(squeezed, (1, 2, 1, 1, 2)))
    after = nn.relu(relay.add(blocked_conv(BLOCKS, scaled, 4), product))
    assert_becomes(before, after, "BackwardFoldScaleAxis")


def test_scale_of_blocks_is_folded_into_depthwise_weight() -> None:
    weight, factor = var("w", shape=(1, 1, 1, 1, 1, 4)), blocked_scale(2)
    squeezed = relay.squeeze(factor, (0, 2, 3))
    scaled = relay.multiply(weight, relay.reshape(squeezed, (1, 1, 1, 1, 1, 4)))
    after = blocked_conv(BLOCKS, scaled, 4, 4, "OIHW1i4o")
    before = blocked_conv(relay.multiply(BLOCKS, factor), weight, 4, 4, "OIHW1i4o")
    assert_becomes(before, after, "ForwardFoldScaleAxis")
    before = relay.multiply(blocked_conv(BLOCKS, weight, 4, 4, "OIHW1i4o"), factor)
    assert_becomes(before, after, "BackwardFoldScaleAxis")


@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize(("kernel", "shape"), [("OIHW", (4, 4, 1, 1)), ("OIHW4o", (1, 4, 1, 1, 4))])
def test_scale_stays_if_only_some_tensors_have_blocks(name: str, kernel: str, shape: tuple[int, ...]) -> None:
    inner = blocked_conv(relay.multiply(BLOCKS, blocked_scale(2)), var("w", shape=shape), 4, kernel=kernel)
    assert is_unchanged(relay.multiply(inner, blocked_scale(2)), name)


@pytest.mark.parametrize("name", BOTH)
def test_scale_stays_if_block_precedes_its_axis(name: str) -> None:
    weight = var("w", shape=(2, 1, 2, 1, 1, 4))
    inner = blocked_conv(relay.multiply(BLOCKS, blocked_scale(2)), weight, 4, kernel="2iOIHW4o")
    assert is_unchanged(relay.multiply(inner, blocked_scale(2)), name)


@pytest.mark.parametrize("name", BOTH)
def test_scale_along_blocks_alone_stays(name: str) -> None:
    factor = const(RNG.uniform(0.5, 2.0, (1, 1, 1, 2)).astype("float32"))
    inner = blocked_conv(relay.multiply(BLOCKS, factor), var("w", shape=(1, 2, 1, 1, 2, 4)), 4)
    assert is_unchanged(relay.multiply(inner, factor), name)


@pytest.mark.parametrize("name", BOTH)
def test_scales_of_conv1d_stay_as_in_tvm(name: str) -> None:
    x, factor = var("x", shape=(1, 4, 5)), const(RNG.uniform(0.5, 2.0, (4, 1)).astype("float32"))
    inner = nn.conv1d(relay.multiply(x, factor), var("w", shape=(4, 4, 3)), channels=4, kernel_size=3)
    assert is_unchanged(relay.multiply(inner, factor), name)


def blocked_step(name: str, value: Expr, number: int) -> Expr:
    """Return a value in blocks with one more step applied to it."""
    low = -2.0 if name == "negative" else 0.5
    factor = const(RNG.uniform(low, 2.0, (2, 1, 1, 2)).astype("float32"))
    steps = {
        "conv": lambda: blocked_conv(value, var(f"w{number}", shape=(1, 1, 1, 1, 4, 4)), 4, kernel="OIHW4i4o"),
        "relu": lambda: nn.relu(value),
        "bias": lambda: call_op("add", value, var(f"b{number}", shape=(2, 1, 1, 2))),
        "twice": lambda: call_op("add", value, nn.relu(value)),
    }
    return steps[name]() if name in steps else call_op("multiply", value, factor)


@settings(max_examples=amount(30), deadline=None)
@given(st.lists(st.sampled_from(["conv", "scale", "negative", "relu", "bias", "twice"]), max_size=9))
def test_folding_keeps_meaning_of_blocks(steps: list[str]) -> None:
    value: Expr = BLOCKS
    for number, name in enumerate(steps):
        value = blocked_step(name, value, number)
    optimized(value, "FoldScaleAxis")


def step(name: str, value: Expr, number: int) -> Expr:
    """Return the value with one more step applied to it."""
    steps = {
        "conv": lambda: conv(value, 4, f"w{number}"),
        "scale": lambda: call_op("multiply", value, scale(4)),
        "negative": lambda: call_op("multiply", value, scale(4, low=-2.0)),
        "relu": lambda: nn.relu(value),
        "bias": lambda: call_op("add", value, var(f"b{number}", shape=(4, 1, 1))),
        "twice": lambda: call_op("add", value, nn.relu(value)),
        "pool": lambda: nn.max_pool2d(value, pool_size=(3, 3), padding=(1, 1)),
    }
    return steps[name]()


STEPS = ("conv", "scale", "negative", "relu", "bias", "twice", "pool")


@settings(max_examples=amount(40), deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=9))
def test_folding_keeps_meaning_of_any_chain(steps: list[str]) -> None:
    value: Expr = image()
    for number, name in enumerate(steps):
        value = step(name, value, number)
    optimized(value, "FoldScaleAxis")
