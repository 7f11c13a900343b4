"""Axes, zero states, quantized weights, and branches that fail."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx import ADAPTER
from tests.helpers.onnx_models import model_of, onnxruntime_session, op_types, run
from tests.helpers.rows import row

CONSTANTS = ", ".join(
    f"int64[{len(values.split(','))}] {name} = {{{values}}}"
    for name, values in {
        "zero": "0",
        "one": "1",
        "two": "2",
        "end": "9223372036854775807",
        "both": "0, 2",
        "heads": "-1, 3, 5",
        "back": "2, 4, 5, 3",
    }.items()
)


def results(model: ir.Model, **inputs: Any) -> list[Any]:
    """Return the outputs in onnxruntime."""
    found: list[Any] = onnxruntime_session(ADAPTER.dumps(model)).run(None, inputs)
    return found


def assert_same(model: ir.Model, result: ir.Model, **inputs: Any) -> None:
    """Check that the outputs of two models are equal bit by bit."""
    for left, right in zip(results(model, **inputs), results(result, **inputs), strict=True):
        assert (left.shape, left.dtype, left.tobytes()) == (right.shape, right.dtype, right.tobytes())


EXACT: dict[str, tuple[str, list[str]]] = {
    "a = Slice(x, zero, one, one) b = Slice(x, one, end, one) y = Concat<axis=1>(b, a)": (
        "float[2,4] x",
        ["Split", "Concat"],
    ),
    "a = Slice(x, zero, two, one) b = Slice(x, one, end, one) y = Concat<axis=1>(b, a)": (
        "float[2,4] x",
        ["Slice", "Slice", "Concat"],
    ),
    "a = Slice(x, zero, one, one) b = Slice(x, one, end, one) y = Concat<axis=0>(b, a)": (
        "float[N,2] x",
        ["Split", "Concat"],
    ),
    "a = Slice(x, zero, one, zero) b = Slice(x, one, end, zero) y = Concat<axis=0>(b, a)": (
        "float[N,2] x",
        ["Slice", "Slice", "Concat"],
    ),
    "a = Unsqueeze(x, one) b = Unsqueeze(a, zero) y = Abs(b)": ("float[N,M] x", ["Unsqueeze", "Abs"]),
    "a = Unsqueeze(x, one) b = Unsqueeze(a, one) y = Abs(b)": ("float[N,M] x", ["Unsqueeze", "Abs"]),
    "a = Unsqueeze(x, both) b = Unsqueeze(a, one) y = Abs(b)": ("float[N,M] x", ["Unsqueeze", "Abs"]),
    "a = Squeeze(x, one) b = Unsqueeze(a, one) y = Abs(b)": ("float[N,1] x", ["Abs"]),
    "i = Constant<value_int=1>() a = Gather<axis=1>(x, i) b = Unsqueeze(a, one) y = Abs(b)": (
        "float[N,4] x",
        ["Gather", "Abs"],
    ),
    "a = Reshape(x, heads) b = Transpose<perm=[0,2,1]>(a) y = Reshape(b, back)": ("float[2,4,3,5] x", ["Transpose"]),
}
"""Nodes, with the input and the operators that are left."""


def test_axes_are_moved_by_fewer_nodes() -> None:
    for nodes, (declared, expected) in EXACT.items():
        with row(nodes):
            model = model_of(f"g ({declared}) => (float y) <{CONSTANTS}> {{ {nodes} }}")
            result = run("onnx.Simplify", model)
            assert op_types(result) == expected
            shape = [int(size) if size.isdigit() else 3 for size in declared[6:-3].split(",")]
            array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            assert_same(model, result, x=array)


def test_initial_states_of_zeros_are_left_out() -> None:
    ones = ",".join(["0.5"] * 24)
    rows = {
        "n = Shape<start=1, end=2>(x) s = Concat<axis=0>(one, n, two) h = ConstantOfShape(s)": ["LSTM"],
        "n = Shape<start=1, end=2>(x) s = Concat<axis=0>(n, two) c = ConstantOfShape(s) h = Unsqueeze(c, zero)": [
            "LSTM"
        ],
        "n = Shape<start=1, end=2>(x) s = Concat<axis=0>(one, n, two) "
        "h = ConstantOfShape<value: tensor = float[1] {1}>(s)": ["Shape", "Concat", "ConstantOfShape", "LSTM"],
    }
    for nodes, expected in rows.items():
        with row(nodes):
            weights = f"float[1,8,3] w = {{{ones}}}, float[1,8,2] r = {{{','.join(['0.25'] * 16)}}}"
            lstm = "y, u = LSTM<hidden_size=2>(x, w, r, , , h)"
            model = model_of(f"g (float[4,N,3] x) => (float y, float u) <{CONSTANTS}, {weights}> {{ {nodes} {lstm} }}")
            result = run("onnx.Simplify", model)
            assert op_types(result) == expected
            array = np.random.default_rng(0).standard_normal((4, 2, 3)).astype(np.float32)
            assert_same(model, result, x=array)


def big_quantized(nodes: str) -> ir.Model:
    """Return a model of int8 weights that are too large to be folded."""
    model = model_of(
        f"g (float[2,64] x, int8[64,64] w, float[1,64] s) => (float y) <float half = {{0.5}}> {{ {nodes} }}"
    )
    rng = np.random.default_rng(0)
    quantized = rng.integers(-9, 9, (64, 64)).astype(np.int8)
    arrays: dict[str, Any] = {"w": quantized, "s": rng.uniform(0.1, 1, (1, 64)).astype(np.float32)}
    for name, array in arrays.items():
        value = next(item for item in model.graph.inputs if item.name == name)
        model.graph.inputs.remove(value)
        value.const_value = ir.tensor(array, name=name)
        model.graph.register_initializer(value)
    return model


def test_large_quantized_weights_stay_quantized() -> None:
    model = big_quantized("f = Cast<to=1>(w) m = Mul(f, s) a = MatMul(x, m) y = Mul(a, half)")
    # With a DequantizeLinear in their place, onnxruntime computes the MatMul more slowly.
    assert run("onnx.Simplify", model) is model
    fused = run("onnx.EvaluateConstants", run("onnx.FuseNodes", model))
    assert op_types(fused) == ["Cast", "Mul", "MatMul"]
    array = np.random.default_rng(1).standard_normal((2, 64)).astype(np.float32)
    np.testing.assert_allclose(results(fused, x=array)[0], results(model, x=array)[0], rtol=1e-5)


SQUEEZED = """g (float[N,M,L] x, float[1,N,2] h) => (float y) <CONSTANTS, WEIGHTS> {
    s = Shape<start=2>(x) c = Equal(s, one)
    a = If(c) <then_branch = t () => (p1) { p1 = Squeeze(x, two) }, else_branch = e () => (q1) { q1 = Identity(x) }>
    r = Shape(a) n = Size(r) k = Constant<value_int=2>() d = Equal(n, k) f = Not(d)
    b = If(f) <then_branch = t () => (p) { p = Unsqueeze(a, zero) }, else_branch = e () => (q) { q = Identity(a) }>
    u = Unsqueeze(b, zero) v, y = LSTM<hidden_size=2>(u, w, r0, , , h, h)
}"""
"""What PyTorch exports for an LSTM without a batch: only a last axis of size 1 leads to a result."""


def squeezed() -> ir.Model:
    """Return the model `SQUEEZED`."""
    weights = f"float[1,8,3] w = {{{','.join(['0.5'] * 24)}}}, float[1,8,2] r0 = {{{','.join(['0.25'] * 16)}}}"
    return model_of(SQUEEZED.replace("CONSTANTS", CONSTANTS).replace("WEIGHTS", weights))


def test_branches_that_fail_are_dropped() -> None:
    model = squeezed()
    result = run("onnx.Default", model)
    assert "If" not in op_types(result)
    inputs = {"x": np.ones((2, 3, 1), np.float32), "h": np.ones((1, 2, 2), np.float32)}
    assert_same(model, result, **inputs)


def test_negated_conditions_exchange_branches() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        n = Not(c) y = If(n) <then_branch = t () => (p) { p = Abs(x) }, else_branch = e () => (q) { q = Neg(x) }>
    }"""
    model = model_of(text)
    result = run("onnx.Simplify", model)
    assert op_types(result) == ["If"]
    for flag in (True, False):
        assert_same(model, result, c=np.array(flag), x=np.array([-1, 2], np.float32))


def test_nodes_are_sorted_first() -> None:
    text = "g (float[2, 3] x) => (float[2, 3] y) { s = Shape(x) a = Reshape(x, s) y = Relu(a) }"
    proto = ir.to_proto(model_of(text))
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend(reversed(nodes))
    assert op_types(run("onnx.Simplify", ir.from_proto(proto))) == ["Relu"]


def test_padding_moves_into_the_convolution() -> None:
    rows = {
        "p = Pad(x, pads, zero) y = Conv<pads=[1,0,0,0]>(p, w)": ["Conv"],
        "p = Pad(x, pads) y = Conv(p, w)": ["Conv"],
        "p = Pad(x, pads) a = Conv(p, w) b = Conv(p, w) y = Add(a, b)": ["Conv", "Conv", "Add"],
        "p = Pad(x, pads) a = Conv(p, w) b = Relu(p) c = GlobalMaxPool(b) d = ReduceSum(c) y = Add(a, d)": [
            *("Pad", "Conv", "Relu", "GlobalMaxPool", "ReduceSum", "Add")
        ],
        "p = Pad(x, pads, one) y = Conv(p, w)": ["Pad", "Conv"],
        'p = Pad<mode = "reflect">(x, pads) y = Conv(p, w)': ["Pad", "Conv"],
        "p = Pad(x, channels) y = Conv(p, v)": ["Pad", "Conv"],
        "p = Pad(x, cut) y = Conv(p, w)": ["Pad", "Conv"],
        'p = Pad(x, pads) y = Conv<auto_pad = "SAME_UPPER">(p, w)': ["Pad", "Conv"],
    }
    constants = ", ".join(
        [
            "int64[8] pads = {0,0,1,2,0,0,1,0}, int64[8] channels = {0,1,0,0,0,0,0,0}",
            "int64[8] cut = {0,0,-1,0,0,0,0,0}",
            f"float zero = {{0}}, float one = {{1}}, float[1,2,3,3] w = {{{','.join(['0.5'] * 18)}}}",
            f"float[1,3,3,3] v = {{{','.join(['0.5'] * 27)}}}",
        ]
    )
    for nodes, expected in rows.items():
        with row(nodes):
            model = model_of(f"g (float[1,2,5,5] x) => (float y) <{constants}> {{ {nodes} }}")
            result = run("onnx.FuseNodes", model)
            assert op_types(result) == expected
            array = np.random.default_rng(0).standard_normal((1, 2, 5, 5)).astype(np.float32)
            np.testing.assert_allclose(results(result, x=array)[0], results(model, x=array)[0], rtol=1e-5, atol=1e-6)


def test_types_of_machine_learning_operators_are_known() -> None:
    text = """<ir_version: 10, opset_import: ["": 21, "ai.onnx.ml": 3]> g (float[2,3] x) => (float[2,3] y) {
        a = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x) y = Cast<to=1>(a)
    }"""
    assert op_types(run("onnx.Simplify", ir.from_proto(onnx.parser.parse_model(text)))) == ["Scaler"]
