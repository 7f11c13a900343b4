"""The light models of onnx are imported, and errors of ONNX's reference evaluator.

`examples/relay_light_models.py` compares the outputs with a corrected reference. The tests here show why it needs one.
"""

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from apass.relay.frontend import from_onnx
from examples.relay_light_models import LIGHT, LRN, NEWER
from tests.relay.frontend.models import evaluate_model, model, reference, result_type

MODELS = sorted(LIGHT.glob("*.onnx"))


def test_onnx_has_nine_light_models() -> None:
    assert len(MODELS) == 9


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_light_model_is_imported_with_types(path: Path) -> None:
    mod, _ = from_onnx(path)
    assert result_type(mod) in ("Tensor[(1, 1000), float32]", "Tensor[(1, 1000, 1, 1), float32]")


X = np.arange(16, dtype="float32").reshape(1, 4, 2, 2)


def test_reference_batch_normalization_is_wrong_before_version_14() -> None:
    """In version 9, the reference evaluator mixes batch statistics into given ones."""
    weights = (
        "float[4] s = {1, 1, 1, 1}, float[4] b = {0, 0, 0, 0}, float[4] m = {1, 2, 3, 4}, float[4] v = {1, 4, 9, 1}"
    )
    text = f"g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) <{weights}> {{ y = BatchNormalization(x, s, b, m, v) }}"
    old, new = model(text, opset=9), model(text, opset=NEWER)
    (expected,) = reference(new, X)
    np.testing.assert_allclose(evaluate_model(old, X)[0], expected, rtol=1e-5)
    assert not np.allclose(reference(old, X)[0], expected)


def test_reference_softmax_is_wrong_before_version_13() -> None:
    """The reference evaluator always uses the last axis.

    In version 9, softmax is over the second axis and all later ones.
    """
    old = model("g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) { y = Softmax(x) }", opset=9)
    expected = np.exp(X) / np.exp(X).sum()
    np.testing.assert_allclose(evaluate_model(old, X)[0], expected, rtol=1e-5)
    assert not np.allclose(reference(old, X)[0], expected)


def test_reference_lrn_skips_channels() -> None:
    """The reference evaluator leaves channels from the batch size on unchanged."""
    proto = model("g (float[1, 4, 2, 2] x) => (float[1, 4, 2, 2] y) { y = LRN<size = 3, alpha = 1.0>(x) }")
    expected = cast("Any", ReferenceEvaluator(proto, new_ops=[LRN])).run(None, {"x": X})[0]
    np.testing.assert_allclose(evaluate_model(proto, X)[0], expected, rtol=1e-5)
    np.testing.assert_array_equal(reference(proto, X)[0][:, 1:], X[:, 1:])
    np.testing.assert_allclose(reference(proto, X)[0][:, :1], expected[:, :1], rtol=1e-5)
