"""Fusions and evaluations of level 3: equal results within rounding."""

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import apass
from apass.adapters.onnx.passes.constant_part import constant_part
from tests.helpers.onnx_models import model_of, op_types, outputs, run
from tests.helpers.rows import row


def test_product_and_bias_become_a_gemm() -> None:
    weights = "float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, 2}"
    model = model_of(f"g (float[2, 3] x) => (float[2, 2] y) <{weights}> {{ a = MatMul(x, w) y = Add(a, b) }}")
    result = run("onnx.FuseNodes", model)
    assert op_types(result) == ["Gemm"]
    inputs = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert outputs(result, inputs) == outputs(model, inputs)


def test_batched_product_is_not_a_gemm() -> None:
    text = "g (float[5, 2, 3] x, float[3, 2] w, float[2] b) => (float[5, 2, 2] y) { a = MatMul(x, w) y = Add(a, b) }"
    model = model_of(text)
    assert run("onnx.FuseNodes", model) is model


def test_bounds_become_a_clip() -> None:
    text = "g (float[2] x) => (float[2] y) <float low = {0}, float high = {6}> { a = Min(x, high) y = Max(low, a) }"
    assert op_types(run("onnx.FuseNodes", model_of(text))) == ["Clip"]


def test_crossed_bounds_are_kept() -> None:
    text = "g (float[2] x) => (float[2] y) <float low = {7}, float high = {6}> { a = Min(x, high) y = Max(low, a) }"
    assert op_types(run("onnx.FuseNodes", model_of(text))) == ["Min", "Max"]


def test_normalization_moves_into_the_convolution() -> None:
    model = model_of(
        """g (float[1, 1, 4] x) => (float[1, 2, 4] y)
        <float[2, 1, 1] w = {2, 3}, float[2] b = {1, 2}, float[2] s = {2, 4}, float[2] v = {1, 0.25}> {
            a = Conv(x, w, b) y = BatchNormalization(a, s, b, b, v)
        }"""
    )
    result = run("onnx.FuseNodes", model)
    assert op_types(result) == ["Conv"]
    inputs = np.arange(4, dtype=np.float32).reshape(1, 1, 4)
    assert np.allclose(outputs(result, inputs), outputs(model, inputs), rtol=1e-6)


def test_bias_of_a_scaled_product_is_not_scaled() -> None:
    text = """g (float[2, 2] x, float[2, 2] w, float[2] b) => (float[2, 2] y) {
        a = Gemm <beta: float = 0.5> (x, w) y = Add(a, b)
    }"""
    model = model_of(text)
    result = run("onnx.FuseNodes", model)
    assert op_types(result) == ["Gemm"]
    inputs = [np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), np.array([3, 5], np.float32)]
    assert outputs(result, *inputs) == outputs(model, *inputs)


def test_unusual_normalizations_stay_beside_the_convolution() -> None:
    weights = "float[1, 1, 1] w = {0}, float[1] s = {1}, float[1] v = {0}"
    rows = {
        "no variance": (21, "y = BatchNormalization <epsilon: float = 0.0> (a, s, s, s, v)"),
        "a mean for each element": (7, "y = BatchNormalization <spatial: int = 0> (a, s, s, s, s)"),
        "training by outputs": (9, "y, m, n, o, p = BatchNormalization(a, s, s, s, s)"),
        "training": (21, "y, m, n = BatchNormalization <training_mode: int = 1> (a, s, s, s, s)"),
    }
    for name, (version, node) in rows.items():
        with row(name):
            graph = f"g (float[1, 1, 1] x) => (float[1, 1, 1] y) <{weights}> {{ a = Conv(x, w) {node} }}"
            model = ir.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {version}]> {graph}'))
            assert op_types(run("onnx.FuseNodes", model)) == ["Conv", "BatchNormalization"]


def test_weights_stay_quantized() -> None:
    text = """g (float[1, 1, 4] x) => (float[1, 1, 4] y) <int8[1, 1, 1] w = {3}, float s = {0.5}, int8 z = {0}> {
        d = DequantizeLinear(w, s, z) y = Conv(x, d)
    }"""
    result = run("onnx.Default", model_of(text))
    assert op_types(result) == ["DequantizeLinear", "Conv"]
    assert result.graph.initializers["w"].dtype == ir.DataType.INT8


def test_random_part_is_not_constant() -> None:
    text = "g (float x) => (float[2] y) { a = RandomNormal <shape: ints = [2]> () b = Exp(a) y = Add(x, b) }"
    assert constant_part(model_of(text)) is None


def test_large_part_is_not_constant() -> None:
    text = "g (float x) => (float[N] y) <int64[1] n = {4000000}> { a = ConstantOfShape(n) b = Exp(a) y = Add(x, b) }"
    assert constant_part(model_of(text)) is None


@pytest.mark.process
@pytest.mark.slow
def test_constants_are_evaluated_in_a_worker() -> None:
    model = model_of("g (float x) => (float y) <float c = {2}> { a = Exp(c) b = Log(a) y = Mul(x, b) }")
    result = run("onnx.EvaluateConstants", model)
    assert op_types(result) == ["Mul"]
    assert np.allclose(outputs(result, np.float32(3)), [6])


@pytest.mark.process
def test_evaluation_that_takes_too_long_changes_nothing() -> None:
    size = 500
    text = f"g (float x) => (float y) <int64[2] n = {{{size}, {size}}}> {{ o = ConstantOfShape(n) e0 = Exp(o) "
    nodes = " ".join(f"m{i} = MatMul(e{i}, e{i}) e{i + 1} = Exp(m{i})" for i in range(60))
    model = model_of(f"{text} {nodes} r = ReduceMax <keepdims: int = 0> (e60) y = Mul(x, r) }}")
    ctx = apass.PassContext(opt_level=3)
    assert apass.run(apass.get_pass("onnx.EvaluateConstants", time_limit=1e-6), model, context=ctx) is model
    assert "longer than" in str(ctx.diag_ctx.diagnostics[0].message)
