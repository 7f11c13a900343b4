"""Shapes: static shapes are computed at import, dynamic shapes by dyn operators."""

import numpy as np
import pytest

from apass.relay.expr import Call, Constant, Op
from apass.relay.frontend import from_onnx
from apass.relay.ir.expr import var
from apass.relay.ir.post_order import post_order
from apass.relay.op import reshape
from apass.relay.structural.equality import structural_equal
from apass.relay.type_inference.infer import infer_module
from tests.relay.frontend.models import evaluate_model, evaluate_module, import_function, model, reference, result_type

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


def operator_names(proto_text: str, opset: int = 18) -> list[str]:
    """Return the names of the operators of an imported graph."""
    body = import_function(model(proto_text, opset=opset)).body
    return [node.op.name for node in post_order(body) if isinstance(node, Call) and isinstance(node.op, Op)]


def test_static_shape_becomes_attribute() -> None:
    x = var("x", shape=(2, 3, 4))
    assert structural_equal(
        import_function(model(FLATTENED.format(batch=2))).body, reshape(x, (2, 12)), map_free_vars=True
    )


def test_dynamic_dimension_at_same_axis_is_copied() -> None:
    func = import_function(model(FLATTENED.format(batch="B")))
    assert isinstance(func.body, Call)
    assert structural_equal(func.body, reshape(func.params[0], (0, 12)))
    assert evaluate_model(model(FLATTENED.format(batch="B")), X)[0].shape == (2, 12)


def test_single_foreign_dimension_is_inferred() -> None:
    proto = model("""
        g (float[B, 3, 4] x, float[B] z) => (float[K, 3, 4] y) {
            s = Shape(z)  r = Constant<value_ints = [3, 4]>()  t = Concat<axis = 0>(s, r)
            f = Flatten<axis = 0>(x)
            y = Reshape(f, t)
        }
    """)
    body = import_function(proto).body
    assert isinstance(body, Call)
    assert body.attrs is not None
    assert body.attrs["newshape"] == (-1, 3, 4)
    assert evaluate_model(proto, X, np.zeros(2, "float32"))[0].tolist() == X.tolist()


def test_swapped_dimensions_are_computed_at_run_time() -> None:
    """Both dimensions are unknown, and neither is at the axis that it has in the data."""
    proto = model("""
        g (float[A, B] x) => (float[C, D] y) {
            t = Transpose<perm = [1, 0]>(x)  s = Shape(x)  y = Reshape(t, s)
        }
    """)
    data = X.reshape(4, 6)
    assert evaluate_model(proto, data)[0].tolist() == data.T.reshape(4, 6).tolist()


def test_shape_weight_is_not_a_parameter() -> None:
    proto = model("g (float[2, 3, 4] x) => (float[6, 4] y) <int64[2] s = {6, 4}> { y = Reshape(x, s) }")
    mod, params = from_onnx(proto)
    assert (len(mod["main"].params), params) == (1, {})


def test_small_constant_computations_are_folded() -> None:
    text = """
        g (float[2, 3, 4] x) => (float y) {
            n = Size(x)  f = Cast<to = 1>(n)  r = Sqrt(f)  two = Constant<value_float = 2.0>()  y = Mul(r, two)
        }
    """
    body = import_function(model(text)).body
    assert isinstance(body, Constant)
    assert float(body.data.tolist()) == pytest.approx(2 * np.sqrt(24), rel=1e-6)


def test_large_constant_of_shape_is_not_folded() -> None:
    text = "g () => (float[100000] y) <int64[1] s = {100000}> { y = ConstantOfShape(s) }"
    assert operator_names(text) == ["full"]
    assert evaluate_model(model(text))[0].shape == (100_000,)


@pytest.mark.parametrize(
    ("graph", "names"),
    [
        ("y = Reshape(x, s)", {"dyn.reshape"}),
        ("y = Expand(x, s)", {"dyn.broadcast_to"}),
        ("y = Tile(x, s)", {"dyn.tile"}),
        ("y = ConstantOfShape(s)", {"dyn.full"}),
    ],
)
def test_shape_input_selects_dyn_operator(graph: str, names: set[str]) -> None:
    text = f"g (float[2, 3, 4] x, int64[3] s) => (float[K, L, M] y) {{ {graph} }}"
    assert {name for name in operator_names(text) if name.startswith("dyn.")} == names
    shape = {"y = Reshape(x, s)": [4, 0, 2], "y = Expand(x, s)": [1, 3, 1]}.get(graph, [2, 1, 3])
    inputs = X, np.asarray(shape, "int64")
    (result,), (expected,) = evaluate_model(model(text), *inputs), reference(model(text), *inputs)
    assert (result.shape, result.tolist()) == (expected.shape, expected.tolist())
    infer_module(from_onnx(model(text))[0])


@pytest.mark.parametrize("axes", [[0, 2], [-1], [2, 0]])
@pytest.mark.parametrize("bounds", [(1, -1), (-2, 100), (0, 2)])
def test_slice_with_dynamic_bounds_equals_reference(axes: list[int], bounds: tuple[int, int]) -> None:
    count = len(axes)
    axes_text = ", ".join(map(str, axes))
    text = f"""
        g (float[2, 3, 4] x, int64[{count}] b, int64[{count}] e) => (float[K, L, M] y)
        <int64[{count}] axes = {{{axes_text}}}> {{ y = Slice(x, b, e, axes) }}
    """
    inputs = X, *(np.full(count, bound, "int64") for bound in bounds)
    assert evaluate_model(model(text), *inputs)[0].tolist() == reference(model(text), *inputs)[0].tolist()


@pytest.mark.parametrize(
    "bounds", [(0, 3, 1), (-1, -10, -1), (2, -100, -1), (1, 9223372036854775807, 2), (5, 2, 1), (-1, -9, -2)], ids=str
)
def test_slice_equals_python_slice(bounds: tuple[int, int, int]) -> None:
    begin, end, step = bounds
    text = f"""
        g (float[2, 3, 4] x) => (float[K, L, M] y)
        <int64[1] b = {{{begin}}}, int64[1] e = {{{end}}}, int64[1] a = {{1}}, int64[1] s = {{{step}}}>
        {{ y = Slice(x, b, e, a, s) }}
    """
    assert evaluate_model(model(text), X)[0].tolist() == X[:, begin:end:step].tolist()


def test_range_accepts_dynamic_bounds() -> None:
    text = "g (int64 a, int64 b, int64 c) => (int64[N] y) { y = Range(a, b, c) }"
    assert evaluate_model(model(text), 7, 0, -3)[0].tolist() == [7, 4, 1]


def test_matmul_accepts_dynamic_batches() -> None:
    text = "g (float[A, B, 3, 4] x, float[A, B, 4, 5] z) => (float[C, D, 3, 5] y) { y = MatMul(x, z) }"
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 3, 4), "float32"), rng.standard_normal((2, 3, 4, 5), "float32")
    np.testing.assert_allclose(evaluate_model(model(text), a, b)[0], a @ b, rtol=1e-5)


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


@pytest.mark.parametrize("shape", [{}, {"x": (2, 5, 8)}])
def test_attention_accepts_dynamic_batch_and_length(shape: dict[str, tuple[int, ...]]) -> None:
    proto = model(ATTENTION)
    data = np.random.default_rng(0).standard_normal((2, 5, 8), "float32")
    mod, params = from_onnx(proto, shape=shape)
    np.testing.assert_allclose(evaluate_module(mod, data, *params.values())[0], reference(proto, data)[0], rtol=1e-5)
    assert result_type(mod) == ("Tensor[(2, 5, 8), float32]" if shape else "Tensor[(?, ?, 8), float32]")
