"""CombineParallelConv2D, -Dense and -BatchMatmul: which calls are combined."""

import pytest

from apass.relay.expr import Call, Expr, If, Let, Tuple, Var
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import var
from apass.relay.op import nn
from tests.helpers.relay.meaning import ops_of, optimized

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


@pytest.mark.parametrize("transpose_b", [True, False])
def test_batched_products_of_one_tensor_are_combined(transpose_b: bool) -> None:
    x = var("x", shape=(2, 3, 4))
    weights = [var(f"w{c}", shape=(2, c, 4) if transpose_b else (2, 4, c)) for c in (2, 3, 4)]
    branches = [nn.relu(nn.batch_matmul(x, weight, transpose_b=transpose_b)) for weight in weights]
    after = optimized(Tuple(branches), "CombineParallelBatchMatmul")
    assert ops_of(after) == ["concatenate", "nn.batch_matmul", "nn.relu", *["strided_slice"] * 3]


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


@pytest.mark.parametrize("to_batch", [True, False])
def test_operator_enlarging_its_operand_is_not_combined(to_batch: bool) -> None:
    x = var("x", shape=(2, 4))
    layers = [call_op("add", dense(x, 3, p), var(f"b{p}", shape=(3, 2, 3))) for p in range(3)]
    ops = ops_of(optimized(Tuple(layers), "CombineParallelDense", to_batch=to_batch))
    assert (ops.count("nn.dense") < 3, ops.count("add")) == (True, 3)


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
    deep = var("x", shape=(5, 2, 4))
    layers = Tuple([nn.dense(deep, var(f"w{number}", shape=(3, 4))) for number in range(3)])
    for to_batch in (True, False):
        assert ops_of(optimized(layers, "CombineParallelDense", to_batch=to_batch)) == ["nn.dense"] * 3


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
