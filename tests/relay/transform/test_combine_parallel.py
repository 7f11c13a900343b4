"""CombineParallelConv2D, -Dense and -BatchMatmul: which calls become one, and that the numbers stay."""

import pytest

from apass.relay.expr import Call, Expr, If, Let, Tuple, Var
from apass.relay.ir.calls import call_op
from apass.relay.make import var
from apass.relay.op import nn
from tests.relay.meaning import ops_of, optimized

LAYOUTS = {"NCHW": ("OIHW", (1, 4, 5, 5)), "NHWC": ("HWIO", (1, 5, 5, 4))}


def conv(x: Expr, channels: int, place: int, layout: str = "NCHW", size: int = 3) -> Call:
    kernel_layout, _ = LAYOUTS[layout]
    shape = (channels, 4, size, size) if layout == "NCHW" else (size, size, 4, channels)
    pad = size // 2
    weight = var(f"w{place}", shape=shape)
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
def test_convolutions_of_one_tensor_become_one(layout: str) -> None:
    x = image(layout)
    after = optimized(Tuple([conv(x, c, c, layout) for c in (2, 3, 4)]), "CombineParallelConv2D")
    assert ops_of(after) == ["concatenate", "nn.conv2d", *["strided_slice"] * 3]


def test_what_follows_is_combined_where_all_branches_have_it() -> None:
    x = image()
    branches = [nn.relu(call_op("add", conv(x, c, c), var(f"b{c}", shape=(c, 1, 1)))) for c in (2, 3, 4)]
    after = optimized(Tuple([call_op("exp", branches[0]), *branches[1:]]), "CombineParallelConv2D")
    assert ops_of(after) == [
        "concatenate", "nn.conv2d", "concatenate", "add", "nn.relu", "strided_slice", "exp", *["strided_slice"] * 2
    ]  # fmt: skip


def test_too_few_branches_stay() -> None:
    x = image()
    pair = Tuple([conv(x, c, c) for c in (2, 3)])
    assert ops_of(optimized(pair, "CombineParallelConv2D")) == ["nn.conv2d"] * 2
    assert ops_of(optimized(pair, "CombineParallelConv2D", min_num_branches=2)).count("nn.conv2d") == 1


def test_convolutions_of_other_windows_stay_apart() -> None:
    x = image()
    mixed = Tuple([conv(x, 2, 0), conv(x, 3, 1), conv(x, 2, 2), conv(x, 2, 3, size=1)])
    assert ops_of(optimized(mixed, "CombineParallelConv2D")).count("nn.conv2d") == 2


def test_groups_behind_groups_are_combined_too() -> None:
    x = image()
    first = [nn.relu(conv(x, 4, place)) for place in range(3)]
    second = [conv(first[0], 4, 10 + place) for place in range(3)]
    assert ops_of(optimized(Tuple([*first, *second]), "CombineParallelConv2D")).count("nn.conv2d") == 2


def dense(x: Expr, units: int, place: int) -> Call:
    return nn.dense(x, var(f"w{place}", shape=(units, 4)), units=units)


def test_dense_layers_of_one_shape_become_a_batch() -> None:
    x = var("x", shape=(2, 4))
    layers = [nn.relu(call_op("add", dense(x, 3, p), var(f"b{p}", shape=(3,)))) for p in range(3)]
    ops = ops_of(optimized(Tuple(layers), "CombineParallelDense"))
    assert (ops.count("nn.dense"), ops.count("nn.batch_matmul"), ops.count("nn.relu")) == (0, 1, 1)


def test_dense_layers_of_several_widths_become_a_wider_one() -> None:
    x = var("x", shape=(2, 4))
    layers = Tuple([call_op("add", dense(x, p, p), var(f"b{p}", shape=(p,))) for p in (2, 3, 5)])
    assert ops_of(optimized(layers, "CombineParallelDense")).count("nn.dense") == 3
    ops = ops_of(optimized(layers, "CombineParallelDense", to_batch=False))
    assert (ops.count("nn.dense"), ops.count("add"), ops.count("strided_slice")) == (1, 1, 3)


@pytest.mark.parametrize("transpose_b", [True, False])
def test_batched_products_of_one_tensor_become_one(transpose_b: bool) -> None:
    x = var("x", shape=(2, 3, 4))
    weights = [var(f"w{c}", shape=(2, c, 4) if transpose_b else (2, 4, c)) for c in (2, 3, 4)]
    branches = [nn.relu(nn.batch_matmul(x, one, transpose_b=transpose_b)) for one in weights]
    after = optimized(Tuple(branches), "CombineParallelBatchMatmul")
    assert ops_of(after) == ["concatenate", "nn.batch_matmul", "nn.relu", *["strided_slice"] * 3]


def test_batched_products_that_do_not_fit_each_other_stay_apart() -> None:
    x = var("x", shape=(2, 4, 4))
    plain, turned = (nn.batch_matmul(x, var(name, shape=(2, 4, 4)), transpose_b=name == "t") for name in "pt")
    other = nn.batch_matmul(var("y", shape=(2, 4, 4)), var("z", shape=(2, 4, 4)))
    after = optimized(Tuple([plain, turned, other]), "CombineParallelBatchMatmul", min_num_branches=2)
    assert ops_of(after) == ["nn.batch_matmul"] * 3


PASSES = ["CombineParallelDense", "CombineParallelConv2D", "CombineParallelBatchMatmul"]


def product(name: str, x: Expr, weight: Expr) -> Call:
    """Return a call that a pass combines, of tensors that all have one shape, as has the result."""
    if name == "CombineParallelDense":
        return nn.dense(x, weight)
    if name == "CombineParallelConv2D":
        return nn.conv2d(x, weight, channels=2, kernel_size=(1, 1))
    return nn.batch_matmul(x, weight)


def tensors(name: str, names: str) -> list[Var]:
    """Return variables of that shape."""
    shape = {"CombineParallelDense": (2, 2), "CombineParallelConv2D": (2, 2, 1, 1)}.get(name, (2, 2, 2))
    return [var(one, shape=shape) for one in names]


@pytest.mark.parametrize("name", PASSES)
def test_a_call_whose_weight_depends_on_another_stays_apart(name: str) -> None:
    x, w, v = tensors(name, "xwv")
    first = product(name, x, w)
    chain = product(name, x, nn.relu(first))
    assert "concatenate" not in ops_of(optimized(Tuple([first, chain]), name, min_num_branches=2))
    # What is independent is combined.
    ops = ops_of(optimized(Tuple([chain, product(name, x, v)]), name, min_num_branches=2))
    assert ops.count("concatenate") + ops.count("stack") > 0


@pytest.mark.parametrize("name", PASSES)
def test_what_follows_is_not_combined_where_one_branch_needs_another(name: str) -> None:
    x, w, v, b = tensors(name, "xwvb")
    first = nn.relu(call_op("add", product(name, x, w), b))
    second = call_op("add", product(name, x, v), first)
    # Whichever comes first.
    for fields in ([first, second], [nn.relu(second), first], [product(name, x, v), first, second]):
        assert ops_of(optimized(Tuple(fields), name, min_num_branches=2)).count("add") == 2


@pytest.mark.parametrize("name", PASSES)
def test_calls_in_different_branches_of_an_if_stay_apart(name: str) -> None:
    x, w, v = tensors(name, "xwv")
    cond = var("c", dtype="bool", shape=())
    both = If(cond, product(name, x, w), product(name, x, v))
    assert len(ops_of(optimized(both, name, min_num_branches=2))) == 2


@pytest.mark.parametrize("name", PASSES)
def test_a_weight_that_a_let_binds_is_not_used_before_it_is_there(name: str) -> None:
    x, w, v = tensors(name, "xwv")
    one, other = var("one"), var("other")
    first, second = product(name, x, one), product(name, x, other)
    body = Let(one, call_op("exp", w), Let(other, call_op("add", first, v), Tuple([second, first])))
    assert "concatenate" not in ops_of(optimized(body, name, min_num_branches=2))


@pytest.mark.parametrize("to_batch", [True, False])
def test_what_makes_the_result_larger_is_not_combined(to_batch: bool) -> None:
    x = var("x", shape=(2, 4))
    layers = [call_op("add", dense(x, 3, p), var(f"b{p}", shape=(3, 2, 3))) for p in range(3)]
    ops = ops_of(optimized(Tuple(layers), "CombineParallelDense", to_batch=to_batch))
    assert (ops.count("nn.dense") < 3, ops.count("add")) == (True, 3)


def two(pass_name: str, one: Expr, other: Expr) -> list[str]:
    """Return the operators of two branches once the pass has seen them."""
    return ops_of(optimized(Tuple([one, other]), pass_name, min_num_branches=2))


@pytest.mark.parametrize("name", PASSES)
def test_what_follows_in_other_ways_stays(name: str) -> None:
    x, w, v, a, b = tensors(name, "xwvab")
    one, other = product(name, x, w), product(name, x, v)
    assert two(name, nn.relu(one), call_op("tanh", other)).count("nn.relu") == 1
    ops = two(name, call_op("nn.leaky_relu", one, alpha=0.1), call_op("nn.leaky_relu", other, alpha=0.5))
    assert ops.count("nn.leaky_relu") == 2
    ops = two(name, call_op("subtract", one, a), call_op("subtract", b, other))
    assert ops.count("subtract") == 2
    turned = [call_op("transpose", each) for each in (one, other)]
    assert two(name, *turned).count("transpose") == 2
    flat = var(
        "flat", shape={"CombineParallelDense": (1, 2), "CombineParallelConv2D": (1, 2, 1, 1)}.get(name, (1, 2, 2))
    )
    assert two(name, call_op("add", one, flat), call_op("add", other, b)).count("add") == 2


def test_dense_layers_that_differ_in_more_than_their_weights_stay() -> None:
    x, narrow = (var(name, shape=(2, 4), dtype="int8") for name in "xy")
    weights = [var(f"w{place}", shape=(3, 4), dtype="int8") for place in range(3)]
    mixed = [nn.dense(x, weights[0], out_dtype="int32"), nn.dense(x, weights[1]), nn.dense(narrow, weights[2])]
    for to_batch in (True, False):
        ops = ops_of(optimized(Tuple(mixed), "CombineParallelDense", min_num_branches=2, to_batch=to_batch))
        assert ops == ["nn.dense"] * 3
    deep = var("x", shape=(5, 2, 4))
    layers = Tuple([nn.dense(deep, var(f"w{place}", shape=(3, 4))) for place in range(3)])
    for to_batch in (True, False):
        assert ops_of(optimized(layers, "CombineParallelDense", to_batch=to_batch)) == ["nn.dense"] * 3


def test_grouped_convolutions_stay() -> None:
    x = image()
    grouped = [
        nn.conv2d(x, var(f"w{place}", shape=(4, 2, 1, 1)), channels=4, kernel_size=(1, 1), groups=2) for place in "ab"
    ]
    assert two("CombineParallelConv2D", *grouped) == ["nn.conv2d"] * 2


def test_batched_products_of_other_shapes_stay() -> None:
    x = var("x", shape=(1, 3, 4))
    weights = [var("w", shape=(1, 2, 4)), var("v", shape=(5, 2, 4))]
    assert two("CombineParallelBatchMatmul", *(nn.batch_matmul(x, one) for one in weights)) == ["nn.batch_matmul"] * 2
