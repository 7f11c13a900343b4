"""Loss functions: nn.cross_entropy, nn.cross_entropy_with_logits, nn.nll_loss."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.dims import dims_differ
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import must_be, must_fit, tensors, with_rank

__all__ = ["NLLLossAttrs", "cross_entropy", "cross_entropy_with_logits", "nll_loss"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NLLLossAttrs(Attrs):
    """The attributes of nn.nll_loss."""

    reduction: str = "mean"
    """How the losses are reduced: none, mean (weighted) or sum."""
    ignore_index: int = -100
    """The target class whose losses are ignored."""


def _define(name: str, compute: Compute, description: str) -> Op:
    def relation(types: Sequence[Type], attrs: Attrs | None) -> Sequence[Type | None] | None:
        x, y, _ = tensors(name, types)
        if x is None or y is None:
            return None
        with_rank(name, "the predictions", x, 2)
        if len(y.shape) != 2 or any(map(dims_differ, x.shape, y.shape)) or x.dtype != y.dtype:
            raise TypeInferenceError(f"{name}: predictions and targets must have the same type, got {x} and {y}")
        return [None, None, TensorType((), x.dtype)]

    return register_op(
        name,
        arguments=("predictions", "targets"),
        relation=relation,
        compute=compute,
        pattern=OpPattern.OPAQUE,
        level=10,
        description=description,
    )


def _with_logits(predictions: Array, targets: Array) -> Array:
    total = np.multiply(predictions, targets).sum()
    return np.asarray(-total / predictions.shape[0], predictions.dtype)


def _cross_entropy(predictions: Array, targets: Array) -> Array:
    return _with_logits(np.log(predictions), targets)


def _nll_relation(types: Sequence[Type], attrs: NLLLossAttrs) -> Sequence[Type | None] | None:
    op = "nn.nll_loss"
    data, targets, weights, _ = tensors(op, types)
    if data is None or targets is None:
        return None
    if len(data.shape) < 2:
        raise TypeInferenceError(f"{op}: the predictions must have at least 2 dimensions, got {data}")
    if attrs.reduction not in {"none", "mean", "sum"}:
        raise TypeInferenceError(f"{op}: reduction must be none, mean or sum, got {attrs.reduction!r}")
    batch, classes, *rest = data.shape
    target_type = must_fit(op, "the targets", targets, TensorType((batch, *rest), targets.dtype))
    weight_type = must_be(op, "the weights", weights, TensorType((classes,), data.dtype))
    shape = target_type.shape if attrs.reduction == "none" else ()
    return [None, target_type, weight_type, TensorType(shape, data.dtype)]


def _nll_loss(attrs: NLLLossAttrs, predictions: Array, targets: Array, weights: Array) -> Array:
    counted = targets != attrs.ignore_index
    chosen = np.where(counted, targets, 0).astype("int64")
    picked = np.take_along_axis(predictions, np.expand_dims(chosen, 1), 1).squeeze(1)
    scales = np.where(counted, weights[chosen], 0).astype(predictions.dtype)
    losses: Array = np.negative(np.multiply(picked, scales))
    if attrs.reduction == "none":
        return losses
    divisor = scales.sum() if attrs.reduction == "mean" else 1
    return np.asarray(losses.sum() / divisor, predictions.dtype)


_CROSS_ENTROPY = _define(
    "nn.cross_entropy", _cross_entropy, "The mean over the batch of the cross entropy of probabilities."
)
_CROSS_ENTROPY_WITH_LOGITS = _define(
    "nn.cross_entropy_with_logits", _with_logits, "The mean over the batch of the cross entropy of log-probabilities."
)
_NLL_LOSS = register_op(
    "nn.nll_loss",
    arguments=("predictions", "targets", "weights"),
    attrs_type=NLLLossAttrs,
    relation=_nll_relation,
    compute=_nll_loss,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    level=10,
    description="The negative log-likelihood of the targets, weighted by class.",
)


def cross_entropy(predictions: Expr, targets: Expr) -> Call:
    """Return the batch mean of minus the sum of targets times log(predictions)."""
    return Call(_CROSS_ENTROPY, (predictions, targets))


def cross_entropy_with_logits(predictions: Expr, targets: Expr) -> Call:
    """Return `cross_entropy` of predictions that are logarithms."""
    return Call(_CROSS_ENTROPY_WITH_LOGITS, (predictions, targets))


def nll_loss(
    predictions: Expr, targets: Expr, weights: Expr, reduction: str = "mean", ignore_index: int = -100
) -> Call:
    """Return the negative log-likelihood of the targets, weighted by class.

    For each target class it is minus the prediction times the weight of the class. Reduction `mean` divides by the sum
    of the weights.
    """
    attrs = NLLLossAttrs(reduction=reduction, ignore_index=ignore_index)
    return Call(_NLL_LOSS, (predictions, targets, weights), attrs)
