"""The semantics of operators by operator set version."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import defs

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend import from_onnx
from apass.relay.frontend.onnx.convert import CONVERTERS, TOPICS, find_converter
from tests.relay.frontend.models import Numbers, evaluate_model, model

X = np.arange(-4, 4, dtype="float32").reshape(1, 2, 2, 2)
V = np.asarray([1, 2], "float32")


def softmax(data: Numbers, axes: tuple[int, ...]) -> Numbers:
    """Return the softmax over axes."""
    powers = np.exp(data)
    return np.asarray(powers / powers.sum(axis=axes, keepdims=True))


def hardmax(data: Numbers, axes: tuple[int, ...]) -> Numbers:
    """Return true at the maximum over axes, and false elsewhere."""
    return np.asarray(data == data.max(axis=axes, keepdims=True))


def padded(before: int, after: int, **options: Any) -> Numbers:
    """Return `X` padded along the last axis."""
    return np.pad(X, np.array([(0, 0)] * 3 + [(before, after)]), **options)


WRAPPED = "int64[2] p = {1, 2}, int64[1] a = {3}"


@dataclass(frozen=True, slots=True)
class Case:
    """A graph for one operator set version, and its expected result."""

    opset: int
    nodes: str
    """The nodes, from `x` of shape [1, 2, 2, 2] and `v` of shape [2] to `y`."""
    result: npt.ArrayLike
    weights: str = "float[1] unused = {0}"

    def __str__(self) -> str:
        return f"{self.nodes.split('=')[1].split('(')[0].split('<')[0].strip()}-{self.opset}"


CASES = (
    Case(12, "y = Softmax(x)", softmax(X, (1, 2, 3))),
    Case(12, "y = Softmax<axis = -1>(x)", softmax(X, (3,))),
    Case(13, "y = Softmax(x)", softmax(X, (3,))),
    Case(13, "y = Softmax<axis = 1>(x)", softmax(X, (1,))),
    Case(12, "y = LogSoftmax<axis = 2>(x)", np.log(softmax(X, (2, 3)))),
    Case(13, "y = LogSoftmax<axis = 2>(x)", np.log(softmax(X, (2,)))),
    Case(12, "y = Hardmax(x)", hardmax(X, (1, 2, 3))),
    Case(13, "y = Hardmax<axis = 1>(x)", hardmax(X, (1,))),
    Case(6, "y = Clip<max = 1.5>(x)", np.minimum(X, 1.5)),
    Case(6, "y = Clip<min = -1.0, max = 1.5>(x)", np.clip(X, -1, 1.5)),
    Case(11, "y = Clip(x, low, high)", np.clip(X, -1, 1.5), "float low = {-1}, float high = {1.5}"),
    Case(11, 'y = Clip(x, "", high)', np.minimum(X, 1.5), "float high = {1.5}"),
    Case(6, "y = Add<broadcast = 1, axis = 1>(x, v)", X + V.reshape(1, 2, 1, 1)),
    Case(6, "y = Mul<broadcast = 1>(x, v)", X * V),
    Case(6, "y = Sub<broadcast = 1, axis = 2>(x, v)", X - V.reshape(1, 1, 2, 1)),
    Case(7, "y = Add(x, v)", X + V),
    Case(6, "y = PRelu(x, v)", np.where(X < 0, X * V.reshape(1, 2, 1, 1), X)),
    Case(7, "y = PRelu(x, v)", np.where(X < 0, X * V, X)),
    Case(11, "y = Squeeze<axes = [0]>(x)", X[0]),
    Case(13, "y = Squeeze(x, a)", X[0], "int64[1] a = {0}"),
    Case(13, "y = Squeeze(x)", X[0]),
    Case(11, "y = Unsqueeze<axes = [0, -1]>(x)", X[None, ..., None]),
    Case(13, "y = Unsqueeze(x, a)", X[None, ..., None], "int64[2] a = {-1, 0}"),
    Case(
        2,
        "y = Pad<pads = [0, 0, 1, 0, 0, 0, 0, 1], value = 9.0>(x)",
        np.pad(X, np.array([(0, 0)] * 2 + [(1, 0), (0, 1)]), constant_values=9),
    ),
    Case(1, "y = Pad<paddings = [0, 0, 0, 0, 0, 0, 0, 1]>(x)", padded(0, 1)),
    Case(
        11,
        'y = Pad<mode = "edge">(x, p)',
        padded(2, 0, mode="edge"),
        "int64[8] p = {0, 0, 0, 2, 0, 0, 0, 0}",
    ),
    Case(
        11,
        'y = Pad<mode = "reflect">(x, p)',
        padded(1, 1, mode="reflect"),
        "int64[8] p = {0, 0, 0, 1, 0, 0, 0, 1}",
    ),
    Case(13, "y = Pad(x, p)", X[..., 1:, :], "int64[8] p = {0, 0, -1, 0, 0, 0, 0, 0}"),
    Case(18, 'y = Pad(x, p, "", a)', padded(1, 2), "int64[2] p = {1, 2}, int64[1] a = {-1}"),
    Case(
        19,
        'y = Pad<mode = "wrap">(x, p, "", a)',
        padded(1, 2, mode="wrap"),
        "int64[2] p = {1, 2}, int64[1] a = {3}",
    ),
    Case(9, "y = Slice<starts = [0, -1], ends = [1, 100], axes = [1, 3]>(x)", X[:, :1, :, -1:]),
    Case(9, "y = Slice<starts = [0, 1], ends = [1, 2]>(x)", X[:1, 1:2]),
    Case(10, "y = Slice(x, b, e, a)", X[:, 1:], "int64[1] b = {1}, int64[1] e = {9}, int64[1] a = {1}"),
    Case(11, "y = ReduceSum<axes = [1, -1], keepdims = 0>(x)", X.sum(axis=(1, 3))),
    Case(13, "y = ReduceSum<keepdims = 0>(x, a)", X.sum(axis=(1, 3)), "int64[2] a = {1, -1}"),
    Case(13, "y = ReduceSum<noop_with_empty_axes = 1>(x)", X),
    Case(13, "y = ReduceMean<axes = [1]>(x)", X.mean(axis=1, keepdims=True)),
    Case(18, "y = ReduceMean(x, a)", X.mean(axis=1, keepdims=True), "int64[1] a = {1}"),
    Case(18, "y = ReduceSumSquare<noop_with_empty_axes = 1>(x)", X**2),
    Case(9, "a, y = Split<axis = 3, split = [1, 1]>(x)", X[..., 1:]),
    Case(13, "a, y = Split<axis = 3>(x, s)", X[..., 1:], "int64[2] s = {1, 1}"),
    Case(13, "a, y = Split<axis = 1>(x)", X[:, 1:]),
    Case(18, "a, b, y = Split<axis = 1, num_outputs = 3>(x)", X[:, :0]),
    Case(6, "y = Cast<to = 6>(x)", X.astype("int32")),
    Case(5, 'y = Cast<to = "INT32">(x)', X.astype("int32")),
    Case(1, "y = Reshape<shape = [2, -1]>(x)", X.reshape(2, 4)),
    Case(5, "y = Reshape(x, s)", X.reshape(1, 4, 2), "int64[3] s = {0, -1, 2}"),
    Case(3, "y = Concat(x, x)", np.concatenate([X, X], axis=1)),
    Case(4, "y = Concat<axis = -1>(x, x)", np.concatenate([X, X], axis=-1)),
    Case(7, 'y = Upsample<mode = "nearest", scales = [1.0, 1.0, 2.0, 1.0]>(x)', X.repeat(2, axis=2)),
    Case(9, "y = Upsample(x, s)", X.repeat(2, axis=3), "float[4] s = {1, 1, 1, 2}"),
    Case(1, "y = Upsample<height_scale = 2.0, width_scale = 1.0>(x)", X.repeat(2, axis=2)),
    Case(10, "y = Resize(x, s)", X.repeat(2, axis=2), "float[4] s = {1, 1, 2, 1}"),
    Case(1, "y = Dropout(x)", X),
    Case(6, "y = Dropout<is_test = 1>(x)", X),
    Case(7, "a, y = Dropout(x)", np.ones_like(X)),
    Case(12, "a, y = Dropout(x)", np.ones(X.shape, bool)),
    Case(12, "y = Dropout(x, r, t)", X, "float r = {0}, bool t = {1}"),
    Case(9, "y, a = TopK<k = 1>(x)", X[..., 1:]),
    Case(10, "y, a = TopK(x, k)", X[..., 1:], "int64[1] k = {1}"),
    Case(11, "a, y = TopK<largest = 0>(x, k)", np.zeros((1, 2, 2, 1), "int64"), "int64[1] k = {1}"),
    Case(1, "y = Tile(v, n, a)", np.tile(V, 3), "int64 n = {3}, int64 a = {0}"),
    Case(6, "y = Tile(v, n)", np.tile(V, 3), "int64[1] n = {3}"),
    Case(9, "y = Scatter(v, i, u)", [1, 9], "int64[1] i = {1}, float[1] u = {9}"),
    Case(
        18, 'y = ScatterElements<reduction = "max">(v, i, u)', [7, 2], "int64[3] i = {0, 0, 1}, float[3] u = {5, 7, -1}"
    ),
    Case(13, "y = Shape(x)", [1, 2, 2, 2]),
    Case(15, "y = Shape<start = 1, end = -1>(x)", [2, 2]),
    Case(6, "y = Selu<alpha = 1.0, gamma = 2.0>(v)", V * 2),
    Case(11, "y = Round(x)", np.rint(X)),
    Case(10, "y = Mod<fmod = 1>(x, v)", np.fmod(X, V)),
    Case(12, "y = Pow(v, e)", [1, 8], "int64 e = {3}"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator_follows_its_version(case: Case) -> None:
    nodes = "  ".join(reversed(case.nodes.split("  ")))
    proto = model(
        f"g (float[1, 2, 2, 2] x, float[2] v) => (float[K] y) <{case.weights}> {{ {nodes} }}", opset=case.opset
    )
    (result,) = evaluate_model(proto, X, V)
    expected = np.asarray(case.result)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.astype("float64"), expected.astype("float64"), rtol=1e-5, atol=1e-7)


STATISTICS = "float[2] s = {1, 2}, float[2] b = {0, 1}, float[2] m = {-1, 1}, float[2] r = {4, 9}"
NORMAL = (X - np.reshape([-1, 1], (1, 2, 1, 1))) / np.reshape([2, 3], (1, 2, 1, 1)) * V.reshape(1, 2, 1, 1)


@pytest.mark.parametrize("opset", [1, 6, 7, 9, 14, 15])
def test_batch_normalization_uses_given_statistics(opset: int) -> None:
    attributes = "consumed_inputs = [0, 0], " if opset == 1 else ""
    text = f"BatchNormalization<{attributes}epsilon = 0.0>(x, s, b, m, r)"
    proto = model(f"g (float[1, 2, 2, 2] x) => (float[K] y) <{STATISTICS}> {{ y = {text} }}", opset=opset)
    expected = NORMAL + np.reshape([0, 1], (1, 2, 1, 1))
    np.testing.assert_allclose(evaluate_model(proto, X)[0], expected, rtol=1e-6)


def test_batch_normalization_in_training_uses_batch_statistics() -> None:
    text = "BatchNormalization<training_mode = 1, momentum = 0.5, epsilon = 0.0>(x, s, b, m, r)"
    proto = model(
        f"g (float[1, 2, 2, 2] x) => (float[K] y, float[2] p, float[2] q) <{STATISTICS}> {{ y, p, q = {text} }}"
    )
    mean, variance = X.mean(axis=(0, 2, 3), keepdims=True), X.var(axis=(0, 2, 3), keepdims=True)
    normal = (X - mean) / np.sqrt(variance) * V.reshape(1, 2, 1, 1) + np.reshape([0, 1], (1, 2, 1, 1))
    old = np.asarray([-1, 1]), np.asarray([4, 9])
    expected = normal, (mean.reshape(2) + old[0]) / 2, (variance.reshape(2) + old[1]) / 2
    for output, value in zip(evaluate_model(proto, X), expected, strict=True):
        np.testing.assert_allclose(output, value, rtol=1e-6)


@pytest.mark.parametrize(("result", "is_rejected"), [("t", False), ("z", True)])
def test_training_statistics_are_rejected_when_used(result: str, is_rejected: bool) -> None:
    nodes = f"t, z, w, p, q = BatchNormalization(x, s, b, m, r)  y = Identity({result})"
    proto = model(f"g (float[1, 2, 2, 2] x) => (float[K] y) <{STATISTICS}> {{ {nodes} }}", opset=9)
    rejection = pytest.raises(OpNotImplementedError, match="the outputs of training mode are not supported")
    with rejection if is_rejected else nullcontext():
        from_onnx(proto)


def test_random_dropout_is_rejected() -> None:
    proto = model("g (float[2] x) => (float[2] y) <float r = {0.5}, bool t = {1}> { y = Dropout(x, r, t) }")
    with pytest.raises(OpNotImplementedError, match=r"random dropout \(training mode\) is not supported"):
        from_onnx(proto)


def test_converter_versions_are_versions_of_onnx() -> None:
    versions = {(schema.domain, schema.name, schema.since_version) for schema in defs.get_all_schemas_with_history()}
    assert sorted(set(CONVERTERS) - versions) == []


def test_converter_tables_have_no_duplicates() -> None:
    assert sum(map(len, TOPICS)) == len(CONVERTERS)


def test_find_converter_returns_newest_supported_version() -> None:
    converters = [find_converter("", "Softmax", version) for version in (1, 12, 13, 99)]
    first, last = CONVERTERS["", "Softmax", 1], CONVERTERS["", "Softmax", 13]
    assert converters == [first, first, last, last]
    assert (find_converter("", "Gelu", 19), find_converter("elsewhere", "Relu", 13)) == (None, None)
