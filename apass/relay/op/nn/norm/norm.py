"""Normalization by statistics of the data: instance_norm, layer_norm, group_norm."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Compute, Expr, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.conv.kernel import accumulator
from apass.relay.op.nn.relations import axis_in, broadcast_along, must_be, must_divide, tensors

__all__ = [
    "GroupNormAttrs",
    "InstanceNormAttrs",
    "LayerNormAttrs",
    "NormAttrs",
    "group_norm",
    "instance_norm",
    "layer_norm",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NormAttrs(Attrs):
    """The attributes that normalizations share."""

    axis: int = 1
    """The axis of gamma and beta."""
    epsilon: float = 1e-5
    """A number added to the variance, to avoid division by 0."""
    center: bool = True
    """Whether beta is added."""
    scale: bool = True
    """Whether the result is multiplied by gamma."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceNormAttrs(NormAttrs):
    """The attributes of nn.instance_norm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNormAttrs(NormAttrs):
    """The attributes of nn.layer_norm."""

    axis: int = -1
    """The axis that is normalized, and the axis of gamma and beta."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupNormAttrs(Attrs):
    """The attributes of nn.group_norm."""

    num_groups: int = 0
    """The number of groups of channels."""
    axis: int = 1
    """The axis of the channels."""
    epsilon: float = 1e-5
    """A number added to the variance, to avoid division by 0."""
    center: bool = True
    """Whether beta is added."""
    scale: bool = True
    """Whether the result is multiplied by gamma."""


def _define(name: str, attrs_type: type[Attrs], compute: Compute, description: str) -> Op:
    def relation(types: Sequence[Type], attrs: NormAttrs | GroupNormAttrs) -> Sequence[Type | None] | None:
        data, gamma, beta, _ = tensors(name, types)
        return None if data is None else _relate(name, data, gamma, beta, attrs)

    return register_op(
        name,
        arguments=("data", "gamma", "beta"),
        attrs_type=attrs_type,
        relation=relation,
        compute=compute,
        pattern=OpPattern.OPAQUE,
        level=1,
        description=description,
    )


def _relate(
    op: str, data: TensorType, gamma: TensorType | None, beta: TensorType | None, attrs: NormAttrs | GroupNormAttrs
) -> Sequence[Type | None]:
    channels = data.shape[axis_in(op, data, attrs.axis)]
    if isinstance(attrs, GroupNormAttrs):
        if attrs.num_groups < 1:
            raise TypeInferenceError(f"{op}: num_groups must be positive, got {attrs.num_groups}")
        must_divide(op, "the number of channels", channels, attrs.num_groups)
    vector = TensorType((channels,), data.dtype)
    return [None, must_be(op, "gamma", gamma, vector), must_be(op, "beta", beta, vector), data]


def _normalized(data: Array, axes: Sequence[int], epsilon: float) -> Array:
    """Return the data minus its mean, divided by its standard deviation.

    The result has the element type of the computation.
    """
    wide = data.astype(accumulator(str(data.dtype)), copy=False)
    centred: Array = np.subtract(wide, wide.mean(axis=tuple(axes), keepdims=True))
    variance: Array = np.square(centred).mean(axis=tuple(axes), keepdims=True)
    out: Array = np.divide(centred, np.sqrt(np.add(variance, np.asarray(epsilon, wide.dtype))))
    return out


def _affine(out: Array, gamma: Array, beta: Array, attrs: NormAttrs | GroupNormAttrs, dtype: str) -> Array:
    for enabled, rule, vector in ((attrs.scale, np.multiply, gamma), (attrs.center, np.add, beta)):
        if enabled:
            rule(out, broadcast_along(vector, out.ndim, attrs.axis), out=out)
    return out.astype(dtype, copy=False)


def _instance_norm(attrs: InstanceNormAttrs, data: Array, gamma: Array, beta: Array) -> Array:
    axes = [axis for axis in range(1, data.ndim) if axis != attrs.axis % data.ndim]
    return _affine(_normalized(data, axes, attrs.epsilon), gamma, beta, attrs, str(data.dtype))


def _layer_norm(attrs: LayerNormAttrs, data: Array, gamma: Array, beta: Array) -> Array:
    return _affine(_normalized(data, [attrs.axis], attrs.epsilon), gamma, beta, attrs, str(data.dtype))


def _group_norm(attrs: GroupNormAttrs, data: Array, gamma: Array, beta: Array) -> Array:
    axis = attrs.axis % data.ndim
    grouped = data.reshape(*data.shape[:axis], attrs.num_groups, -1, *data.shape[axis + 1 :])
    out = _normalized(grouped, range(axis + 1, grouped.ndim), attrs.epsilon)
    return _affine(out.reshape(data.shape), gamma, beta, attrs, str(data.dtype))


_INSTANCE_NORM = _define(
    "nn.instance_norm", InstanceNormAttrs, _instance_norm, "Each channel of each sample normalized separately."
)
_LAYER_NORM = _define("nn.layer_norm", LayerNormAttrs, _layer_norm, "The data normalized along an axis.")
_GROUP_NORM = _define(
    "nn.group_norm", GroupNormAttrs, _group_norm, "Each group of channels of each sample normalized separately."
)


def instance_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Return the data with each channel of each sample normalized separately."""
    attrs = InstanceNormAttrs(axis=axis, epsilon=float(epsilon), center=center, scale=scale)
    return Call(_INSTANCE_NORM, (data, gamma, beta), attrs)


def layer_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    axis: int = -1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Return the data normalized by its mean and variance along an axis."""
    attrs = LayerNormAttrs(axis=axis, epsilon=float(epsilon), center=center, scale=scale)
    return Call(_LAYER_NORM, (data, gamma, beta), attrs)


def group_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    num_groups: int,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> Call:
    """Return the data with each group of channels normalized separately.

    The mean and the variance are those of the group in one sample, over all spatial dimensions.
    """
    attrs = GroupNormAttrs(num_groups=num_groups, axis=axis, epsilon=float(epsilon), center=center, scale=scale)
    return Call(_GROUP_NORM, (data, gamma, beta), attrs)
