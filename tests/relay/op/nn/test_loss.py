"""Loss functions: definitions, ONNX, and types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apass.relay.expr import Call
from apass.relay.op import nn
from apass.relay.ty import Any, TensorType
from tests.helpers.relay.kernel_checks import X, Y, Z, close, evaluated, inferred, numbers, onnx_outputs, refused


@given(st.integers(1, 4), st.integers(1, 4))
def test_cross_entropy_is_the_batch_mean(batch: int, classes: int) -> None:
    predictions, targets = np.abs(numbers(batch, classes)) + np.float32(0.1), numbers(batch, classes, seed=1)
    logarithms = np.log(predictions)
    expected = -sum(float(p) * float(t) for p, t in zip(logarithms.flat, targets.flat, strict=True)) / batch
    close(evaluated(nn.cross_entropy(X, Y), predictions, targets), expected, 1e-4)
    close(evaluated(nn.cross_entropy_with_logits(X, Y), logarithms, targets), expected, 1e-4)


@given(st.integers(1, 3), st.integers(2, 4), hnp.array_shapes(min_dims=0, max_dims=2, max_side=3))
def test_nll_loss_agrees_with_onnx(batch: int, classes: int, rest: tuple[int, ...]) -> None:
    predictions = numbers(batch, classes, *rest)
    targets = np.random.default_rng(0).integers(0, classes, (batch, *rest))
    targets.flat[0] = 1
    weights = np.abs(numbers(classes, seed=1)) + np.float32(0.1)
    for reduction in ("none", "mean", "sum"):
        for ignored in (-100, 0):
            call = nn.nll_loss(X, Y, Z, reduction, ignored)
            (expected,) = onnx_outputs(
                "NegativeLogLikelihoodLoss",
                (predictions, targets, weights),
                reduction=reduction,
                ignore_index=ignored,
            )
            close(evaluated(call, predictions, targets, weights), expected, 1e-4)


def test_loss_is_a_scalar_of_the_predictions_type() -> None:
    both = TensorType((Any(), 3), "float16")
    assert inferred(nn.cross_entropy(X, Y), both, both) == [None, None, TensorType((), "float16")]
    assert inferred(nn.cross_entropy(X, Y), both, None) is None
    targets, weights = TensorType((Any(),), "int32"), TensorType((3,), "float16")
    assert inferred(nn.nll_loss(X, Y, Z), both, targets, None) == [None, targets, weights, TensorType((), "float16")]
    assert inferred(nn.nll_loss(X, Y, Z), both, None, None) is None


@pytest.mark.parametrize(
    ("call", "types", "message"),
    [
        (
            nn.cross_entropy(X, Y),
            (TensorType((2, 3), "int8"), TensorType((2, 4), "int8")),
            (
                "nn.cross_entropy: predictions and targets must have the same type, "
                "got Tensor[(2, 3), int8] and Tensor[(2, 4), int8]"
            ),
        ),
        (
            nn.nll_loss(X, Y, Z),
            (TensorType((2, 3)), TensorType((3,), "int32"), None),
            "nn.nll_loss: the targets must have the shape (2,), got Tensor[(3), int32]",
        ),
        (
            nn.nll_loss(X, Y, Z, "max"),
            (TensorType((2, 3)), TensorType((2,), "int32"), None),
            "nn.nll_loss: reduction must be none, mean or sum, got 'max'",
        ),
        (
            nn.nll_loss(X, Y, Z),
            (TensorType((2,)), TensorType((2,), "int32"), None),
            "nn.nll_loss: the predictions must have at least 2 dimensions, got Tensor[(2), float32]",
        ),
    ],
)
def test_operands_that_do_not_fit_are_rejected(call: Call, types: tuple[TensorType | None, ...], message: str) -> None:
    assert refused(call, *types) == message
