"""Small models on which other ONNX optimizers are wrong without a guard."""

from collections.abc import Mapping
from typing import Final

import onnx
import onnx_ir as ir

OPTIMIZERS: Final = (
    "onnxscript.Optimize",
    "onnxscript.FoldConstants",
    "onnxscript.Rewrite",
    "onnxslim.Slim",
    "ort.Basic",
    "ort.Extended",
)
"""The passes that change most models."""

_TEXTS: Final[Mapping[str, tuple[int, str]]] = {
    "attribute of CastLike": (
        21,
        "g (float[4] a, float8e4m3fn[1] b) => (float8e4m3fn[4] x) { x = CastLike<saturate=0>(a, b) }",
    ),
    "reduction of ScatterND": (
        21,
        """g (float[2, 3] a, float[2, 3] u) => (float[2, 3] x) <int64[2, 1] i = {0, 1}>
        { x = ScatterND<reduction = "add">(a, i, u) }""",
    ),
    "zero bias of an old Gemm": (
        9,
        """g (float[2, 3] a) => (float[2, 2] x) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {0, 0}>
        { x = Gemm(a, w, b) }""",
    ),
    "addend of three dimensions": (
        21,
        """g (float[2, 3] a) => (float[1, 2, 2] x) <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[1, 2, 2] b = {1, 2, 3, 4}>
        { c = MatMul(a, w) x = Add(c, b) }""",
    ),
    "statistics of a batch": (
        21,
        """g (float[2, 1, 4, 4] a) => (float[2, 1, 4, 4] x)
        <float[1, 1, 1, 1] w = {2}, float[1] s = {3}, float[1] b = {1}, float[1] mean = {0.5}, float[1] var = {2}>
        { c = Conv(a, w) x, m, v = BatchNormalization<training_mode = 1>(c, s, b, mean, var) }""",
    ),
    "negative bound before Relu": (
        21,
        "g (float[4] a) => (float[4] x) <float l = {-2}, float h = {-1}> { y = Clip(a, l, h) x = Relu(y) }",
    ),
    "disjoint bounds": (
        21,
        """g (float[4] a) => (float[4] x) <float k = {-1}, float l = {0}, float m = {1}, float n = {2}>
        { y = Clip(a, k, l) x = Clip(y, m, n) }""",
    ),
    "floats of a Constant": (
        21,
        """g (float[4] a) => (float[4] x)
        { c = Constant<value_float = 1.0>() d = Constant<value_float = 2.0>() e = Add(c, d) x = Add(a, e) }""",
    ),
    "input that is an output": (
        21,
        "g (float[4] a) => (float[4] a, float[4] x) { y = Identity(a) x = Relu(y) }",
    ),
    "unused input": (21, "g (float[4] a, float[4] b) => (float[4] x) { c = Identity(a) x = Relu(c) }"),
    "input with a default": (
        21,
        "g (float[4] a, float[4] w) => (float[4] x) <float[4] w = {0, 0, 0, 0}> { y = Identity(a) x = Add(y, w) }",
    ),
}

_RANDOM_TEXTS: Final[Mapping[str, str]] = {
    "Bernoulli": """g (float[400] a) => (float[400] x) <float[1] p = {0.5}, int64[1] n = {400}>
        { q = Expand(p, n) r = Bernoulli(q) s = Bernoulli(q) d = Sub(r, s) x = Add(a, d) }""",
    "RandomNormal": "g (float[4] a) => (float[4] x) { r = RandomNormal<shape = [4]>() x = Add(a, r) }",
    "Dropout": """g (float[400] a) => (float[400] x) <float ratio = {0.5}, bool t = {1}>
        { y = Identity(a) x = Dropout(y, ratio, t) }""",
}


def _model(opset: int, text: str) -> ir.Model:
    header = f'<ir_version: {8 if opset < 10 else 10}, opset_import: ["": {opset}]>'
    return ir.from_proto(onnx.parser.parse_model(f"{header}\n{text}"))


def traps() -> dict[str, ir.Model]:
    """Return models by what an optimizer may get wrong."""
    return {name: _model(opset, text) for name, (opset, text) in _TEXTS.items()}


def random_models() -> dict[str, ir.Model]:
    """Return models with different outputs in each run."""
    return {name: _model(21, text) for name, text in _RANDOM_TEXTS.items()}
