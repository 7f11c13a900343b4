"""CombineParallelConv2D, -Dense and -BatchMatmul: which calls are combined."""

from collections.abc import Sequence

import pytest

from apass import relay
from apass.relay.analysis import free_vars
from apass.relay.expr import Call, Expr, If, Let, Tuple, Var
from apass.relay.function import Function
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import var
from apass.relay.op import nn
from apass.relay.structural.equality import structural_equal
from tests.helpers.relay.meaning import ops_of, optimized, typed

LAYOUTS = {"NCHW": ("OIHW", (1, 4, 5, 5)), "NHWC": ("HWIO", (1, 5, 5, 4))}


def conv(x: Expr, channels: int, number: int, layout: str = "NCHW", size: int = 3) -> Call:
    kernel_layout, _ = LAYOUTS[layout]
    shape = (channels, 4, size, size) if layout == "NCHW" else (size, size, 4, channels)
    pad = size // 2
    weight = var(f"w{number}", shape=shape)
    return nn.conv2d(
        x,
        weight,
        channels=channels,
        kernel_size=(size, size),
        padding=(pad, pad),
        data_layout=layout,
        kernel_layout=kernel_layout,
    )


def image(layout: str = "NCHW") -> Var:
    return var("x", shape=LAYOUTS[layout][1])


def slices(value: Expr, axis: int, sizes: Sequence[int]) -> list[Expr]:
    """Return the slices of TVM: by size, of the axes up to the joined one."""
    starts = [sum(sizes[:index]) for index in range(len(sizes))]
    before = [0] * axis
    return [
        relay.strided_slice(value, [*before, start], [-1] * axis + [size], [1] * (axis + 1), slice_mode="size")
        for start, size in zip(starts, sizes, strict=True)
    ]


def assert_becomes(before: Expr, expected: Expr, name: str, **options: object) -> None:
    """Assert that a pass returns the expected program, of the same meaning."""
    params = free_vars(before)
    after = optimized(Function(params, before), name, **options)
    assert structural_equal(after, typed(Function(params, expected))["main"]), str(after)


@pytest.mark.parametrize(("layout", "axis"), [("NCHW", 1), ("NHWC", 3)])
def test_slices_list_axes_up_to_channels(layout: str, axis: int) -> None:
    x = image(layout)
    convs = [conv(x, c, c, layout) for c in (2, 3, 4)]
    weight = relay.concatenate([call.args[1] for call in convs], axis=0 if layout == "NCHW" else 3)
    attrs = {**dict(convs[0].attrs or {}), "channels": 9}
    joined = call_op("nn.conv2d", x, weight, **attrs)
    assert_becomes(Tuple(convs), Tuple(slices(joined, axis, (2, 3, 4))), "CombineParallelConv2D")


def test_blocked_convolutions_are_combined_by_whole_blocks() -> None:
    x, layouts = var("x", shape=(1, 2, 5, 5, 2)), {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o"}
    weights = [var(f"w{c}", shape=(c, 2, 1, 1, 2, 2)) for c in (1, 2, 3)]
    biases = [var(f"b{c}", shape=(c, 1, 1, 2)) for c in (1, 2, 3)]
    convs = [call_op("nn.conv2d", x, w, channels=2 * c, **layouts) for c, w in zip((1, 2, 3), weights, strict=True)]
    branches = Tuple([nn.relu(relay.add(call, bias)) for call, bias in zip(convs, biases, strict=True)])
    joined = call_op("nn.conv2d", x, relay.concatenate(weights, axis=0), channels=12, **layouts)
    total = nn.relu(relay.add(joined, relay.concatenate(biases, axis=0)))
    assert_becomes(branches, Tuple(slices(total, 1, (1, 2, 3))), "CombineParallelConv2D")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_convolutions_of_one_tensor_are_combined(layout: str) -> None:
    x = image(layout)
    after = optimized(Tuple([conv(x, c, c, layout) for c in (2, 3, 4)]), "CombineParallelConv2D")
    assert ops_of(after) == ["concatenate", "nn.conv2d", *["strided_slice"] * 3]


def test_operators_following_all_branches_are_combined() -> None:
    x = image()
    branches = [nn.relu(call_op("add", conv(x, c, c), var(f"b{c}", shape=(c, 1, 1)))) for c in (2, 3, 4)]
    after = optimized(Tuple([call_op("exp", branches[0]), *branches[1:]]), "CombineParallelConv2D")
    assert ops_of(after) == [
        "concatenate", "nn.conv2d", "concatenate", "add", "nn.relu", "strided_slice", "exp", *["strided_slice"] * 2
    ]  # fmt: skip


def test_branches_below_minimum_stay_apart() -> None:
    x = image()
    pair = Tuple([conv(x, c, c) for c in (2, 3)])
    assert ops_of(optimized(pair, "CombineParallelConv2D")) == ["nn.conv2d"] * 2
    assert ops_of(optimized(pair, "CombineParallelConv2D", min_num_branches=2)).count("nn.conv2d") == 1


def test_convolutions_of_different_windows_stay_apart() -> None:
    x = image()
    mixed = Tuple([conv(x, 2, 0), conv(x, 3, 1), conv(x, 2, 2), conv(x, 2, 3, size=1)])
    assert ops_of(optimized(mixed, "CombineParallelConv2D")).count("nn.conv2d") == 2


def test_groups_that_follow_groups_are_combined() -> None:
    x = image()
    first = [nn.relu(conv(x, 4, number)) for number in range(3)]
    second = [conv(first[0], 4, 10 + number) for number in range(3)]
    assert ops_of(optimized(Tuple([*first, *second]), "CombineParallelConv2D")).count("nn.conv2d") == 2


def dense(x: Expr, units: int, number: int) -> Call:
    return nn.dense(x, var(f"w{number}", shape=(units, 4)), units=units)


def test_dense_layers_of_one_shape_become_batch() -> None:
    x = var("x", shape=(2, 4))
    layers = [nn.relu(call_op("add", dense(x, 3, p), var(f"b{p}", shape=(3,)))) for p in range(3)]
    ops = ops_of(optimized(Tuple(layers), "CombineParallelDense"))
    assert (ops.count("nn.dense"), ops.count("nn.batch_matmul"), ops.count("nn.relu")) == (0, 1, 1)


def test_dense_layers_of_different_widths_are_widened() -> None:
    x = var("x", shape=(2, 4))
    layers = Tuple([call_op("add", dense(x, p, p), var(f"b{p}", shape=(p,))) for p in (2, 3, 5)])
    assert ops_of(optimized(layers, "CombineParallelDense")).count("nn.dense") == 3
    ops = ops_of(optimized(layers, "CombineParallelDense", to_batch=False))
    assert (ops.count("nn.dense"), ops.count("add"), ops.count("strided_slice")) == (1, 1, 3)


def test_wider_dense_layer_repeats_small_operands() -> None:
    x, weights = var("x", shape=(2, 4)), [var(f"w{c}", shape=(c, 4)) for c in (2, 1, 3)]
    scalars, columns = [var(f"s{c}", shape=()) for c in (2, 1, 3)], [var(f"c{c}", shape=(2, 1)) for c in (2, 1, 3)]
    operands = zip(weights, scalars, columns, strict=True)
    branches = Tuple([relay.multiply(relay.add(nn.dense(x, w), s), c) for w, s, c in operands])
    joined = nn.dense(x, relay.concatenate(weights, axis=0), units=6)
    vectors = [relay.expand_dims(scalar, -1, 1) for scalar in scalars]
    repeated = [relay.repeat(vectors[0], 2, 0), relay.repeat(vectors[1], 1, 0), relay.repeat(vectors[2], 3, 0)]
    wide = [relay.repeat(columns[0], 2, 1), columns[1], relay.repeat(columns[2], 3, 1)]
    total = relay.multiply(relay.add(joined, relay.concatenate(repeated, axis=0)), relay.concatenate(wide, axis=1))
    # A column beside a vector of length 1 has that length already, but a scalar gets its axis.
    sliced = Tuple(slices(total, 1, (2, 1, 3)))
    assert_becomes(branches, sliced, "CombineParallelDense", to_batch=False)


def test_wider_dense_layer_takes_data_of_any_rank() -> None:
    x, weights = var("x", shape=(5, 2, 4)), [var(f"w{c}", shape=(c, 4)) for c in (2, 1, 3)]
    layers = Tuple([relay.add(nn.dense(x, w), var(f"b{index}", shape=())) for index, w in enumerate(weights)])
    ops = ops_of(optimized(layers, "CombineParallelDense", to_batch=False))
    assert (ops.count("nn.dense"), ops.count("add"), ops.count("strided_slice")) == (1, 1, 3)
    assert ops_of(optimized(layers, "CombineParallelDense")).count("nn.dense") == 3


def test_wider_dense_layer_takes_bias_of_higher_rank() -> None:
    x, widths = var("x", shape=(3, 4)), (5, 10, 1)
    weights = [var(f"w{c}", shape=(c, 4)) for c in widths]
    joined = nn.dense(x, relay.concatenate(weights, axis=0), units=16)
    for shapes in ((9, 3, 5), (9, 3, 10), (9, 3, 1)), ((9, 3, 1), (9, 3, 10), (9, 3, 1)):
        biases = [var(f"b{index}", shape=shape) for index, shape in enumerate(shapes)]
        branches = Tuple([relay.add(nn.dense(x, w), b) for w, b in zip(weights, biases, strict=True)])
        long = [b if s[-1] == c else relay.repeat(b, c, 2) for b, s, c in zip(biases, shapes, widths, strict=True)]
        total = relay.add(joined, relay.concatenate(long, axis=2))
        assert_becomes(branches, Tuple(slices(total, 2, widths)), "CombineParallelDense", to_batch=False)


def test_wider_dense_layer_leaves_operands_of_different_rank() -> None:
    x = var("x", shape=(2, 4))
    ranks: list[tuple[int, ...]] = [(), (3,), (2, 3)]
    layers = [relay.add(dense(x, 3, index), var(f"b{index}", shape=shape)) for index, shape in enumerate(ranks)]
    assert ops_of(optimized(Tuple(layers), "CombineParallelDense", to_batch=False)).count("add") == 3


def test_batched_products_join_biases_on_last_axis() -> None:
    x = var("x", shape=(2, 3, 4))
    weights = [var(f"w{c}", shape=(2, c, 4)) for c in (2, 3, 4)]
    biases = [var(f"b{c}", shape=(c,)) for c in (2, 3, 4)]
    branches = [relay.add(nn.batch_matmul(x, w), b) for w, b in zip(weights, biases, strict=True)]
    joined = nn.batch_matmul(x, relay.concatenate(weights, axis=1))
    total = relay.add(joined, relay.concatenate(biases, axis=-1))
    assert_becomes(Tuple(branches), Tuple(slices(total, 2, (2, 3, 4))), "CombineParallelBatchMatmul")


@pytest.mark.parametrize(("transpose_a", "transpose_b"), [(False, False), (True, True), (True, False)])
def test_batched_products_of_other_layouts_stay_apart(transpose_a: bool, transpose_b: bool) -> None:
    x, weights = var("x", shape=(2, 4, 4)), [var(name, shape=(2, 4, 4)) for name in "abc"]
    products = [nn.batch_matmul(x, w, transpose_a=transpose_a, transpose_b=transpose_b) for w in weights]
    assert ops_of(optimized(Tuple(products), "CombineParallelBatchMatmul")) == ["nn.batch_matmul"] * 3


def test_incompatible_batched_products_stay_apart() -> None:
    x = var("x", shape=(2, 4, 4))
    plain, transposed = (nn.batch_matmul(x, var(name, shape=(2, 4, 4)), transpose_b=name == "t") for name in "pt")
    right = nn.batch_matmul(var("y", shape=(2, 4, 4)), var("z", shape=(2, 4, 4)))
    after = optimized(Tuple([plain, transposed, right]), "CombineParallelBatchMatmul", min_num_branches=2)
    assert ops_of(after) == ["nn.batch_matmul"] * 3


PASSES = ["CombineParallelDense", "CombineParallelConv2D", "CombineParallelBatchMatmul"]


def product(name: str, x: Expr, weight: Expr) -> Call:
    """Return a call that the pass combines; its operands and result have one shape."""
    if name == "CombineParallelDense":
        return nn.dense(x, weight)
    if name == "CombineParallelConv2D":
        return nn.conv2d(x, weight, channels=2, kernel_size=(1, 1))
    return nn.batch_matmul(x, weight)


def tensors(name: str, names: str) -> list[Var]:
    """Return variables of the shape that `product` takes."""
    shape = {"CombineParallelDense": (2, 2), "CombineParallelConv2D": (2, 2, 1, 1)}.get(name, (2, 2, 2))
    return [var(hint, shape=shape) for hint in names]


@pytest.mark.parametrize("name", PASSES)
def test_call_depending_on_another_stays_apart(name: str) -> None:
    x, w, v = tensors(name, "xwv")
    first = product(name, x, w)
    chain = product(name, x, nn.relu(first))
    assert "concatenate" not in ops_of(optimized(Tuple([first, chain]), name, min_num_branches=2))
    # Independent calls are combined.
    ops = ops_of(optimized(Tuple([chain, product(name, x, v)]), name, min_num_branches=2))
    assert ops.count("concatenate") + ops.count("stack") > 0


@pytest.mark.parametrize("name", PASSES)
def test_following_operators_stay_apart_when_branches_depend(name: str) -> None:
    x, w, v, b = tensors(name, "xwvb")
    first = nn.relu(call_op("add", product(name, x, w), b))
    second = call_op("add", product(name, x, v), first)
    # The order of the branches does not matter.
    for fields in ([first, second], [nn.relu(second), first], [product(name, x, v), first, second]):
        assert ops_of(optimized(Tuple(fields), name, min_num_branches=2)).count("add") == 2


@pytest.mark.parametrize("name", PASSES)
def test_calls_in_different_if_branches_stay_apart(name: str) -> None:
    x, w, v = tensors(name, "xwv")
    cond = var("c", dtype="bool", shape=())
    both = If(cond, product(name, x, w), product(name, x, v))
    assert len(ops_of(optimized(both, name, min_num_branches=2))) == 2


@pytest.mark.parametrize("name", PASSES)
def test_let_bound_weight_is_not_used_early(name: str) -> None:
    x, w, v = tensors(name, "xwv")
    left, right = var("one"), var("other")
    first, second = product(name, x, left), product(name, x, right)
    body = Let(left, call_op("exp", w), Let(right, call_op("add", first, v), Tuple([second, first])))
    assert "concatenate" not in ops_of(optimized(body, name, min_num_branches=2))


def test_operator_enlarging_its_operand_is_not_combined() -> None:
    x = var("x", shape=(2, 4))
    layers = [call_op("add", dense(x, 3, p), var(f"b{p}", shape=(3, 2, 3))) for p in range(3)]
    ops = ops_of(optimized(Tuple(layers), "CombineParallelDense"))
    assert (ops.count("nn.dense"), ops.count("add")) == (0, 3)
    # An axis that counts from the front moves.
    data = var("x", shape=(1, 4, 8, 8))
    convs = [nn.conv2d(data, var(f"w{p}", shape=(3, 4, 1, 1))) for p in range(3)]
    layers = [call_op("add", conv, var(f"b{p}", shape=(2, 1, 3, 8, 8))) for p, conv in enumerate(convs)]
    ops = ops_of(optimized(Tuple(layers), "CombineParallelConv2D"))
    assert (ops.count("nn.conv2d"), ops.count("add")) == (1, 3)


def ops_of_pair(pass_name: str, left: Expr, right: Expr) -> list[str]:
    """Return the operators of ops_of_pair branches after the pass."""
    return ops_of(optimized(Tuple([left, right]), pass_name, min_num_branches=2))


@pytest.mark.parametrize("name", PASSES)
def test_different_following_operators_stay_apart(name: str) -> None:
    x, w, v, a, b = tensors(name, "xwvab")
    left, right = product(name, x, w), product(name, x, v)
    assert ops_of_pair(name, nn.relu(left), call_op("tanh", right)).count("nn.relu") == 1
    ops = ops_of_pair(name, call_op("nn.leaky_relu", left, alpha=0.1), call_op("nn.leaky_relu", right, alpha=0.5))
    assert ops.count("nn.leaky_relu") == 2
    ops = ops_of_pair(name, call_op("subtract", left, a), call_op("subtract", b, right))
    assert ops.count("subtract") == 2
    transposed = [call_op("transpose", branch) for branch in (left, right)]
    assert ops_of_pair(name, *transposed).count("transpose") == 2
    flat = var(
        "flat", shape={"CombineParallelDense": (1, 2), "CombineParallelConv2D": (1, 2, 1, 1)}.get(name, (1, 2, 2))
    )
    assert ops_of_pair(name, call_op("add", left, flat), call_op("add", right, b)).count("add") == 2


def test_dense_layers_of_different_types_stay_apart() -> None:
    x, narrow = (var(name, shape=(2, 4), dtype="int8") for name in "xy")
    weights = [var(f"w{number}", shape=(3, 4), dtype="int8") for number in range(3)]
    mixed = [nn.dense(x, weights[0], out_dtype="int32"), nn.dense(x, weights[1]), nn.dense(narrow, weights[2])]
    for to_batch in (True, False):
        ops = ops_of(optimized(Tuple(mixed), "CombineParallelDense", min_num_branches=2, to_batch=to_batch))
        assert ops == ["nn.dense"] * 3


def test_grouped_convolutions_stay_apart() -> None:
    x = image()
    grouped = [
        nn.conv2d(x, var(f"w{name}", shape=(4, 2, 1, 1)), channels=4, kernel_size=(1, 1), groups=2) for name in "ab"
    ]
    assert ops_of_pair("CombineParallelConv2D", *grouped) == ["nn.conv2d"] * 2


def test_batched_products_of_different_shapes_stay_apart() -> None:
    x = var("x", shape=(1, 3, 4))
    weights = [var("w", shape=(1, 2, 4)), var("v", shape=(5, 2, 4))]
    products = [nn.batch_matmul(x, weight) for weight in weights]
    assert ops_of_pair("CombineParallelBatchMatmul", *products) == ["nn.batch_matmul"] * 2
