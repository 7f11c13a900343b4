"""Scales and shifts in weights, and activations: equal within rounding."""

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from apass.adapters.onnx import ADAPTER
from tests.helpers.amounts import amount
from tests.helpers.onnx_models import model_of, onnxruntime_session, op_types, outputs, run
from tests.helpers.rows import row

WEIGHTS = {"WC": (4, 2, 1, 1), "WG": (4, 1, 1, 1), "WT": (2, 3, 2, 2), "WM": (3, 5), "WN": (5, 3)}
VECTORS = {
    "C4": (4,),
    "K4": (4, 1, 1),
    "C3": (3, 1, 1),
    "V5": (5,),
    "S": (),
    "ONE": (1,),
    "K2": (1, 2, 1, 1),
    "V3": (3,),
}


def constants(dtype: str = "float") -> str:
    """Return the initializers of `WEIGHTS` and `VECTORS`, with numbers that differ."""
    rng = np.random.default_rng(0)
    items: list[str] = []
    for name, shape in (WEIGHTS | VECTORS).items():
        numbers = ",".join(f"{number:.3f}" for number in rng.uniform(0.5, 1.5, int(np.prod(shape))))
        items.append(
            f"{dtype}[{','.join(map(str, shape))}] {name} = {{{numbers}}}"
            if shape
            else f"{dtype} {name} = {{{numbers}}}"
        )
    return ", ".join(items)


IMAGE = "float[1,2,3,3] x"
GROUPS = "float[1,4,3,3] x"
MATRIX = "float[2,3] x"
BATCH = "float[2,4,3] x"

FOLDED: dict[str, tuple[str, list[str]]] = {
    "a = Conv(x, WC) y = Mul(a, K4)": (IMAGE, ["Conv"]),
    "a = Conv(x, WC, C4) b = Mul(a, S) y = Add(b, ONE)": (IMAGE, ["Conv"]),
    "a = Conv(x, WC) b = Div(a, K4) y = Sub(K4, b)": (IMAGE, ["Conv"]),
    "a = Conv<group=4>(x, WG, C4) y = Sub(a, K4)": (GROUPS, ["Conv"]),
    "a = Conv(x, WC) b = Relu(a) y = Mul(b, K4)": (IMAGE, ["Conv", "Relu"]),
    "a = Conv(x, WC) b = MaxPool<kernel_shape=[2,2]>(a) c = Mul(b, K4) y = Add(c, S)": (IMAGE, ["Conv", "MaxPool"]),
    "a = Conv(x, WC) b = GlobalAveragePool(a) y = Mul(b, K4)": (IMAGE, ["Conv", "GlobalAveragePool"]),
    "a = ConvTranspose(x, WT) b = Mul(a, C3) y = Add(b, C3)": (IMAGE, ["ConvTranspose"]),
    "a = Mul(x, K2) b = Add(a, S) y = Conv(b, WC)": (IMAGE, ["Conv"]),
    "a = Mul(x, K4) b = Add(a, K4) y = Conv<group=4>(b, WG)": (GROUPS, ["Conv"]),
    "a = Add(x, S) y = Conv<pads=[1,1,1,1]>(a, WC)": (IMAGE, ["Add", "Conv"]),
    "a = Mul(x, S) y = Conv<pads=[1,1,1,1]>(a, WC)": (IMAGE, ["Conv"]),
    "a = Gemm(x, WM, V5) b = Mul(a, V5) y = Add(b, S)": (MATRIX, ["Gemm"]),
    "a = Gemm<transB=1, alpha=0.5, beta=2.0>(x, WN, V5) b = Div(a, V5) y = Sub(b, V5)": (MATRIX, ["Gemm"]),
    "a = Mul(x, V3) b = Sub(a, V3) y = Gemm<alpha=0.5, beta=2.0>(b, WM, V5)": (MATRIX, ["Gemm"]),
    "a = Mul(x, V3) b = Add(a, S) y = Gemm<transB=1>(b, WN)": (MATRIX, ["Gemm"]),
    "a = MatMul(x, WM) y = Mul(a, V5)": (BATCH, ["MatMul"]),
    "a = Mul(x, V3) y = MatMul(a, WM)": (BATCH, ["MatMul"]),
    "a = MatMul(x, WM) b = Add(a, V5) y = Div(b, S)": (BATCH, ["MatMul", "Add"]),
    "a = MatMul(x, WM) t = Transpose<perm=[0,2,1]>(a) b = MatMul(t, x) y = Mul(b, S)": (
        "float[2,3,3] x",
        ["MatMul", "Transpose", "MatMul"],
    ),
    "a = Add(x, S) y = Add(a, ONE)": (BATCH, ["Add"]),
    "a = Mul(x, V3) b = Div(a, S) y = Mul(V3, b)": (BATCH, ["Mul"]),
    "a = Relu(x) b = Sub(S, a) y = Sub(b, V3)": (BATCH, ["Relu", "Sub"]),
    "a = InstanceNormalization(x, K, K) b = Mul(a, K2) y = Add(b, S)": (IMAGE, ["InstanceNormalization"]),
    "a = LayerNormalization(x, V3) b = Mul(a, V3) y = Add(b, V3)": (BATCH, ["LayerNormalization"]),
    "a = BatchNormalization(x, K, K, K, K) b = Mul(a, K2) y = Sub(b, S)": (IMAGE, ["BatchNormalization"]),
    "a = Mul(x, x) y = Mul(a, S)": (BATCH, ["Mul", "Mul"]),
    "a = Conv(x, WC) b = Softmax(a) y = Mul(b, S)": (IMAGE, ["Conv", "Softmax", "Mul"]),
    "a = Conv(x, WC) b = Relu(a) n = Neg(S) y = Mul(b, n)": (IMAGE, ["Conv", "Relu", "Neg", "Mul"]),
}
"""Nodes, with the inputs of the model and the operators that are left."""


def test_scales_and_shifts_move_into_weights() -> None:
    for nodes, (inputs, expected) in FOLDED.items():
        with row(nodes):
            extra = ", float[2] K = {0.75, 1.25}"
            model = model_of(f"g ({inputs}) => (float y) <{constants()}{extra}> {{ {nodes} }}")
            result = run("onnx.FuseNodes", model)
            assert op_types(result) == expected
            assert_near(model, result)


def assert_near(model: ir.Model, result: ir.Model) -> None:
    """Check that the outputs of two models are equal within rounding."""
    rng = np.random.default_rng(1)
    shapes = [[int(dim) for dim in value.shape or () if isinstance(dim, int)] for value in model.graph.inputs]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    for left, right in zip(outputs(model, *arrays), outputs(result, *arrays), strict=True):
        np.testing.assert_allclose(right, left, rtol=2e-5, atol=2e-6)


ACTIVATIONS: dict[str, list[str]] = {
    "a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six)": ["HardSigmoid"],
    "a = Mul(x, sixth) b = Add(a, half) y = Clip(b, zero, one)": ["HardSigmoid"],
    "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Div(c, six)": ["HardSwish"],
    "a = Add(x, three) b = Clip(a, zero, six) c = Div(b, six) y = Mul(c, x)": ["HardSwish"],
    "a = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, a)": ["HardSwish"],
    "a = HardSigmoid(x) y = Mul(x, a)": ["HardSigmoid", "Mul"],
    "a = Add(x, three) b = Clip(a, zero, six) c = Mul(x, b) y = Mul(c, half)": ["Add", "Clip", "Mul", "Mul"],
    "a = Add(x, three) b = Clip(a, one, six) y = Div(b, six)": ["Add", "Clip", "Div"],
    "a = Min(x, six) b = Max(a, zero) y = Mul(b, sixth)": ["HardSigmoid"],
    "a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)": ["Gelu"],
    "h = Mul(half, x) a = Mul(root_half, x) b = Erf(a) c = Add(one, b) y = Mul(c, h)": ["Gelu"],
    "a = Div(x, six) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)": ["Div", "Erf", "Add", "Mul", "Mul"],
}
"""Nodes, with the operators that are left."""


def test_activations_become_operators() -> None:
    numbers = {
        "three": 3,
        "zero": 0,
        "six": 6,
        "sixth": 1 / 6,
        "half": 0.5,
        "one": 1,
        "root": 2**0.5,
        "root_half": 0.5**0.5,
    }
    initializers = ", ".join(f"float {name} = {{{number:.9g}}}" for name, number in numbers.items())
    for nodes, expected in ACTIVATIONS.items():
        with row(nodes):
            model = model_of(f"g (float[40] x) => (float[40] y) <{initializers}> {{ {nodes} }}")
            result = run("onnx.FuseNodes", model)
            assert op_types(result) == expected
            array = np.linspace(-8, 8, 40, dtype=np.float32)
            np.testing.assert_allclose(outputs(result, array), outputs(model, array), rtol=1e-5, atol=1e-6)


def test_scales_do_not_change_a_gelu() -> None:
    numbers = f"float half = {{0.5}}, float one = {{1}}, float root = {{{2**0.5:.9g}}}"
    gelu = "a = Div(x, root) b = Erf(a) c = Add(b, one)"
    for last in ("d = Mul(x, c) z = Mul(d, half)", "h = Mul(x, half) z = Mul(h, c)"):
        with row(last):
            nodes = f"x = MatMul(w, WM) {gelu} {last} s = Mul(z, S) y = MatMul(s, WN)"
            model = model_of(f"g (float[2,4,3] w) => (float y) <{constants()}, {numbers}> {{ {nodes} }}")
            model.opset_imports[""] = 17
            result = run("onnx.FuseNodes", model)
            # Only the scale after it has moved into weights.
            assert op_types(result) == [*op_types(model)[:-2], "MatMul"]
            assert_near(model, result)
            assert result.graph.initializers["half"].const_value.numpy() == 0.5


def test_constants_that_add_axes_keep_operators_spelled_out() -> None:
    numbers = "float[1,1] half = {0.5}, float one = {1}, float root = {1.41421356}, float[1,1,1] eps = {0.1}"
    gelu = "a = Div(x, root) b = Erf(a) c = Add(b, one) d = Mul(x, c) y = Mul(d, half)"
    mean = "m = ReduceMean(x, last) d = Sub(x, m) p = Mul(d, d) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e)"
    for nodes in (gelu, f"{mean} y = Div(d, s)"):
        with row(nodes):
            model = model_of(f"g (float[40] x) => (float y) <{numbers}, int64[1] last = {{-1}}> {{ {nodes} }}")
            assert op_types(run("onnx.FuseNodes", model)) == op_types(model)


NORMALIZED: dict[str, bool] = {
    "p = Pow(d, two) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e) y = Div(d, s)": True,
    "p = Mul(d, d) v = ReduceMean(p, last) e = Add(eps, v) s = Sqrt(e) n = Div(d, s) y = Mul(n, V3)": True,
    "p = Pow(d, two) v = ReduceMean(p, middle) e = Add(v, eps) s = Sqrt(e) y = Div(d, s)": False,
    "p = Pow(d, two) v = ReduceMean(p, last) e = Add(v, two) s = Sqrt(v) y = Div(d, s)": False,
    "p = Pow(x, two) v = ReduceMean(p, last) e = Add(v, eps) s = Sqrt(e) y = Div(d, s)": False,
}
"""Nodes after a difference from a mean, and whether they become one operator."""


def test_normalizations_become_operators() -> None:
    numbers = "float two = {2}, float eps = {0.00001}, int64[1] last = {-1}, int64[1] middle = {1}"
    for nodes, is_normalization in NORMALIZED.items():
        with row(nodes):
            nodes = f"m = ReduceMean(x, last) d = Sub(x, m) {nodes}"
            model = model_of(f"g ({BATCH}) => (float y) <{constants()}, {numbers}> {{ {nodes} }}")
            result = run("onnx.RemoveUnusedNodes", run("onnx.FuseNodes", model))
            operators = op_types(result)
            assert (operators == ["LayerNormalization"]) == ("LayerNormalization" in operators) == is_normalization
            assert_near(model, result)


def test_weights_of_two_nodes_are_not_multiplied() -> None:
    big = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    nodes = "a = MatMul(x, w) b = MatMul(z, w) y = Mul(a, S) u = Mul(b, ONE)"
    model = model_of(
        f"g (float[2,64] x, float[2,64] z, float[64,64] w) => (float y, float u) <{constants()}> {{ {nodes} }}"
    )
    value = model.graph.inputs.pop()
    value.const_value = ir.tensor(numpy_helper.to_array(big), name="w")
    model.graph.register_initializer(value)
    assert run("onnx.FuseNodes", model) is model


def test_scale_that_would_be_lost_is_kept() -> None:
    for number in ("1e-38", "1e38", "inf"):
        with row(number):
            nodes = "a = MatMul(x, WM) b = Mul(a, t) y = Mul(b, t)"
            text = f"g (float[2,3] x) => (float y) <{constants()}, float t = {{{number}}}> {{ {nodes} }}"
            model = model_of(text)
            assert "Mul" in op_types(run("onnx.FuseNodes", model))


LAYERS = {
    "Conv": "{out} = Conv<pads=[{p},{p},{p},{p}]>({x}, W{i}, B{i})",
    "Depthwise": "{out} = Conv<group=2, pads=[{p},{p},{p},{p}]>({x}, D{i})",
    "BatchNormalization": "{out} = BatchNormalization({x}, B{i}, B{i}, B{i}, P{i})",
    "Mul": "{out} = Mul({x}, K{i})",
    "Add": "{out} = Add({x}, K{i})",
    "Sub": "{out} = Sub(S{i}, {x})",
    "Div": "{out} = Div({x}, S{i})",
    "Relu": "{out} = Relu({x})",
    "LeakyRelu": "{out} = LeakyRelu({x})",
    "Pool": "{out} = MaxPool<kernel_shape=[2,2], pads=[1,1,0,0]>({x})",
    "Average": "{out} = AveragePool<kernel_shape=[2,2], pads=[1,1,0,0]>({x})",
    "Swish": "{out}_a = Add({x}, three) {out}_b = Clip({out}_a, zero, six) {out}_c = Mul({x}, {out}_b) "
    "{out} = Div({out}_c, six)",
    "Gelu": "{out}_a = Div({x}, root) {out}_b = Erf({out}_a) {out}_c = Add({out}_b, one) {out}_d = Mul({x}, {out}_c) "
    "{out} = Mul({out}_d, half)",
    "Reshape": "{out} = Reshape({x}, same)",
    "Skip": "{out} = Add({x}, x)",
    "Softmax": "{out} = Softmax<axis=1>({x})",
}
"""Layers that keep the shape [N, 2, 4, 4]."""


@st.composite
def networks(draw: st.DrawFn) -> ir.Model:
    """Return a random network of scales, shifts and layers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 7))
    text: list[str] = []
    arrays: dict[str, Any] = {"three": 3.0, "zero": 0.0, "six": 6.0, "root": 2**0.5, "one": 1.0, "half": 0.5}
    for index in range(count):
        layer = draw(st.sampled_from(sorted(LAYERS)))
        source = "x" if index == 0 else f"v{index - 1}"
        text.append(LAYERS[layer].format(out=f"v{index}", x=source, i=index, p=0 if draw(st.booleans()) else 1))
        kernel = (1, 1) if "pads=[0" in text[-1] else (3, 3)
        shapes = {
            "W": (2, 2, *kernel),
            "D": (2, 1, *kernel),
            "B": (2,),
            "P": (2,),
            "S": (),
            "K": draw(st.sampled_from([(), (1,), (2, 1, 1), (1, 2, 1, 1), (4,), (1, 1, 4, 4)])),
        }
        for name, shape in shapes.items():
            arrays[f"{name}{index}"] = rng.uniform(0.5, 1.5, shape) * (1 if name == "P" else rng.choice([-1, 1], shape))
    nodes = " ".join([*text, f"y = Identity(v{count - 1})"])
    graph = f"g (float[{draw(st.sampled_from(['N', '3', '0']))},2,4,4] x) => (float y) {{ {nodes} }}"
    version = draw(st.sampled_from([13, 21]))
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {version}]> {graph}')
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in arrays.items() if name in used
    )
    if "same" in used:
        model.graph.initializer.append(numpy_helper.from_array(np.array([0, 2, 4, 4]), "same"))
    return ir.from_proto(model)


@settings(deadline=None, max_examples=amount(100))
@given(networks())
def test_fused_networks_are_equal_within_rounding(model: ir.Model) -> None:
    result = run("onnx.FuseNodes", model)
    ADAPTER.verify(result)
    declared = (model.graph.inputs[0].shape or [3])[0]
    batch = declared if isinstance(declared, int) else 3
    array = np.random.default_rng(0).standard_normal((batch, 2, 4, 4)).astype(np.float32)
    before, after = (
        onnxruntime_session(ADAPTER.dumps(version)).run(None, {"x": array})[0] for version in (model, result)
    )
    assert before.shape == after.shape
    scale = np.abs(before).max(initial=1.0, where=np.isfinite(before))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4 * scale)
