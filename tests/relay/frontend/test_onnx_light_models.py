"""The big networks that come with onnx are imported, and why they are compared with a reference that is put right.

`examples/relay_light_models.py` compares what they compute.
"""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from apass.relay.frontend import from_onnx
from examples.relay_light_models import LIGHT, LRN, NEWER
from tests.relay.frontend.models import evaluated, model, reference, result_type

MODELS = sorted(LIGHT.glob("*.onnx"))


def test_there_are_nine_of_them() -> None:
    assert len(MODELS) == 9


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_big_network_is_imported_and_has_a_type(path: Path) -> None:
    mod, _ = from_onnx(path)
    assert result_type(mod) in ("Tensor[(1, 1000), float32]", "Tensor[(1, 1000, 1, 1), float32]")


X = np.arange(16, dtype="float32").reshape(1, 4, 2, 2)


def test_why_batch_normalization_is_compared_in_a_newer_version() -> None:
    """The reference evaluator mixes the statistics of the data into those that it is given, in version 9 alone."""
    weights = (
        "float[4] s = {1, 1, 1, 1}, float[4] b = {0, 0, 0, 0}, float[4] m = {1, 2, 3, 4}, float[4] v = {1, 4, 9, 1}"
    )
    text = f"g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) <{weights}> {{ y = BatchNormalization(x, s, b, m, v) }}"
    old, new = model(text, opset=9), model(text, opset=NEWER)
    (right,) = reference(new, X)
    np.testing.assert_allclose(evaluated(old, X)[0], right, rtol=1e-5)
    assert not np.allclose(reference(old, X)[0], right)


def test_why_softmax_is_compared_in_a_newer_version() -> None:
    """The reference evaluator takes the last axis in all versions; in version 9, it is the second and all behind it."""
    old = model("g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) { y = Softmax(x) }", opset=9)
    right = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(evaluated(old, X)[0], right, rtol=1e-5)
    assert not np.allclose(reference(old, X)[0], right)


def test_why_local_responses_are_compared_with_another_kernel() -> None:
    """The reference evaluator leaves all channels behind the size of the batch as they are."""
    proto = model("g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) { y = LRN<size = 3, alpha = 1.0>(x) }")
    right = cast("Any", ReferenceEvaluator(proto, new_ops=[LRN])).run(None, {"x": X})[0]
    np.testing.assert_allclose(evaluated(proto, X)[0], right, rtol=1e-5)
    np.testing.assert_array_equal(reference(proto, X)[0][:, 1:], X[:, 1:])
    np.testing.assert_allclose(reference(proto, X)[0][:, :1], right[:, :1], rtol=1e-5)
