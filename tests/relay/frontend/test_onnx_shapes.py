"""Shapes: what is known of them is worked out at import, and what is not goes on as operators of dyn."""

import numpy as np
import pytest

from apass.relay.expr import Call, Constant, Op
from apass.relay.frontend import from_onnx
from apass.relay.ir.post_order import post_order
from apass.relay.make import var
from apass.relay.op.shape import reshape
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_module
from tests.relay.frontend.models import computed, evaluated, imported, model, reference, result_type

X = np.arange(24, dtype="float32").reshape(2, 3, 4)

FLATTENED = """
g (float[{batch}, 3, 4] x) => (float[M, N] y) {{
    s = Shape(x)  zero = Constant<value_int = 0>()
    n = Gather(s, zero)  first = Constant<value_ints = [0]>()
    v = Unsqueeze(n, first)  rest = Constant<value_ints = [12]>()
    t = Concat<axis = 0>(v, rest)
    y = Reshape(x, t)
}}
"""


def called(proto_text: str, opset: int = 18) -> list[str]:
    """Return the names of the operators of an imported graph."""
    body = imported(model(proto_text, opset=opset)).body
    return [one.op.name for one in post_order(body) if isinstance(one, Call) and isinstance(one.op, Op)]


def test_a_shape_computed_from_known_dimensions_is_an_attribute() -> None:
    x = var("x", shape=(2, 3, 4))
    assert structural_equal(imported(model(FLATTENED.format(batch=2))).body, reshape(x, (2, 12)), map_free_vars=True)


def test_a_dimension_of_the_data_in_its_own_place_is_copied() -> None:
    func = imported(model(FLATTENED.format(batch="B")))
    assert isinstance(func.body, Call)
    assert structural_equal(func.body, reshape(func.params[0], (0, 12)))
    assert evaluated(model(FLATTENED.format(batch="B")), X)[0].shape == (2, 12)


def test_one_dimension_of_another_tensor_is_what_is_left() -> None:
    proto = model("""
        g (float[B, 3, 4] x, float[B] z) => (float[K, 3, 4] y) {
            s = Shape(z)  r = Constant<value_ints = [3, 4]>()  t = Concat<axis = 0>(s, r)
            f = Flatten<axis = 0>(x)
            y = Reshape(f, t)
        }
    """)
    body = imported(proto).body
    assert isinstance(body, Call)
    assert body.attrs is not None
    assert body.attrs["newshape"] == (-1, 3, 4)
    assert evaluated(proto, X, np.zeros(2, "float32"))[0].tolist() == X.tolist()


def test_dimensions_that_are_swapped_are_not_taken_for_copies() -> None:
    """Both dimensions are unknown, and neither is in its own place: the shape is computed at run time."""
    proto = model("""
        g (float[A, B] x) => (float[C, D] y) {
            t = Transpose<perm = [1, 0]>(x)  s = Shape(x)  y = Reshape(t, s)
        }
    """)
    data = X.reshape(4, 6)
    assert evaluated(proto, data)[0].tolist() == data.T.reshape(4, 6).tolist()


def test_a_shape_that_is_a_weight_is_no_parameter() -> None:
    proto = model("g (float[2, 3, 4] x) => (float[6, 4] y) <int64[2] s = {6, 4}> { y = Reshape(x, s) }")
    mod, params = from_onnx(proto)
    assert (len(mod["main"].params), params) == (1, {})


def test_small_computations_on_constants_are_done_at_import() -> None:
    text = """
        g (float[2, 3, 4] x) => (float y) {
            n = Size(x)  f = Cast<to = 1>(n)  r = Sqrt(f)  two = Constant<value_float = 2.0>()  y = Mul(r, two)
        }
    """
    body = imported(model(text)).body
    assert isinstance(body, Constant)
    assert float(body.data.tolist()) == pytest.approx(2 * np.sqrt(24), rel=1e-6)


def test_big_tensors_of_one_value_are_not_laid_out() -> None:
    text = "g () => (float[100000] y) <int64[1] s = {100000}> { y = ConstantOfShape(s) }"
    assert called(text) == ["full"]
    assert evaluated(model(text))[0].shape == (100_000,)


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        ("y = Reshape(x, s)", {"dyn.reshape"}),
        ("y = Expand(x, s)", {"dyn.broadcast_to"}),
        ("y = Tile(x, s)", {"dyn.tile"}),
        ("y = ConstantOfShape(s)", {"dyn.full"}),
    ],
)
def test_a_shape_that_is_an_input_goes_to_an_operator_of_dyn(graph: str, names: set[str]) -> None:
    text = f"g (float[2, 3, 4] x, int64[3] s) => (float[K, L, M] y) {{ {graph} }}"
    assert {name for name in called(text) if name.startswith("dyn.")} == names
    shape = {"y = Reshape(x, s)": [4, 0, 2], "y = Expand(x, s)": [1, 3, 1]}.get(graph, [2, 1, 3])
    inputs = X, np.asarray(shape, "int64")
    (made,), (right,) = evaluated(model(text), *inputs), reference(model(text), *inputs)
    assert (made.shape, made.tolist()) == (right.shape, right.tolist())
    infer_module(from_onnx(model(text))[0])


@pytest.mark.parametrize("axes", [[0, 2], [-1], [2, 0]])
@pytest.mark.parametrize("bounds", [(1, -1), (-2, 100), (0, 2)])
def test_slices_whose_bounds_are_inputs(axes: list[int], bounds: tuple[int, int]) -> None:
    count = len(axes)
    listed = ", ".join(map(str, axes))
    text = f"""
        g (float[2, 3, 4] x, int64[{count}] b, int64[{count}] e) => (float[K, L, M] y)
        <int64[{count}] axes = {{{listed}}}> {{ y = Slice(x, b, e, axes) }}
    """
    inputs = X, *(np.full(count, bound, "int64") for bound in bounds)
    assert evaluated(model(text), *inputs)[0].tolist() == reference(model(text), *inputs)[0].tolist()


@pytest.mark.parametrize(
    "bounds", [(0, 3, 1), (-1, -10, -1), (2, -100, -1), (1, 9223372036854775807, 2), (5, 2, 1), (-1, -9, -2)], ids=str
)
def test_slices_mean_what_they_mean_in_python(bounds: tuple[int, int, int]) -> None:
    begin, end, step = bounds
    text = f"""
        g (float[2, 3, 4] x) => (float[K, L, M] y)
        <int64[1] b = {{{begin}}}, int64[1] e = {{{end}}}, int64[1] a = {{1}}, int64[1] s = {{{step}}}>
        {{ y = Slice(x, b, e, a, s) }}
    """
    assert evaluated(model(text), X)[0].tolist() == X[:, begin:end:step].tolist()


def test_a_range_may_be_known_at_run_time_only() -> None:
    text = "g (int64 a, int64 b, int64 c) => (int64[N] y) { y = Range(a, b, c) }"
    assert evaluated(model(text), 7, 0, -3)[0].tolist() == [7, 4, 1]


def test_products_of_stacks_of_unknown_size() -> None:
    text = "g (float[A, B, 3, 4] x, float[A, B, 4, 5] z) => (float[C, D, 3, 5] y) { y = MatMul(x, z) }"
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 3, 4), "float32"), rng.standard_normal((2, 3, 4, 5), "float32")
    np.testing.assert_allclose(evaluated(model(text), a, b)[0], a @ b, rtol=1e-5)


ATTENTION = """
block (float[N, S, 8] x) => (float[N, S, 8] y)
<int64[1] two = {2}, int64[1] four = {4}, int64[1] eight = {8}, int64[1] first = {0}> {
    s = Shape(x)  i = Constant<value_int = 0>()  j = Constant<value_int = 1>()
    n0 = Gather(s, i)  s0 = Gather(s, j)  n = Unsqueeze(n0, first)  l = Unsqueeze(s0, first)
    heads = Concat<axis = 0>(n, l, two, four)
    a0 = Reshape(x, heads)
    q = Transpose<perm = [0, 2, 1, 3]>(a0)  k = Transpose<perm = [0, 2, 3, 1]>(a0)
    w = MatMul(q, k)  p = Softmax<axis = -1>(w)  o = MatMul(p, q)
    t = Transpose<perm = [0, 2, 1, 3]>(o)  whole = Concat<axis = 0>(n, l, eight)  u = Reshape(t, whole)
    y = Add(u, x)
}
"""


@pytest.mark.parametrize("given", [{}, {"x": (2, 5, 8)}])
def test_attention_with_batch_and_length_that_are_not_known(given: dict[str, tuple[int, ...]]) -> None:
    proto = model(ATTENTION)
    data = np.random.default_rng(0).standard_normal((2, 5, 8), "float32")
    mod, params = from_onnx(proto, shape=given)
    np.testing.assert_allclose(computed(mod, data, *params.values())[0], reference(proto, data)[0], rtol=1e-5)
    assert result_type(mod) == ("Tensor[(2, 5, 8), float32]" if given else "Tensor[(?, ?, 8), float32]")
