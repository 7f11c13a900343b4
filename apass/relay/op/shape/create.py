"""Operators that create tensors: zeros, ones, full, full_like, arange, meshgrid."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.expr import Call, Constant, Expr, Op, TupleWrapper, const
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType, TupleType
from apass.relay.op.define.arguments import Ints, computed_expr, static_ints, tuple_of
from apass.relay.op.define.attrs import InitOpAttrs
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, forward_tuple, one_dtype
from apass.relay.op.define.unary import Function

__all__ = ["ArangeAttrs", "MeshgridAttrs", "arange", "full", "full_like", "meshgrid", "ones", "zeros"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArangeAttrs(Attrs):
    """The attributes of arange.

    The length of the result is part of its type if the three numbers are constants.
    """

    start: float | None = None
    """The first number, if it is a constant."""
    stop: float | None = None
    """The exclusive upper bound, if it is a constant."""
    step: float | None = None
    """The difference between consecutive numbers, if it is a constant."""
    dtype: str
    """The element type of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshgridAttrs(Attrs):
    """The attributes of meshgrid."""

    indexing: str = "ij"
    """`ij` for matrix order, `xy` for Cartesian order, which swaps the first two dimensions."""


def _relate_init(attrs: InitOpAttrs) -> TensorType:
    return TensorType(_shape(attrs), attrs.dtype or "float32")


def _shape(attrs: InitOpAttrs) -> tuple[int, ...]:
    if attrs.shape is None:
        raise ValueError("the attribute shape is required")
    return attrs.shape


def _define_init(name: str, function: Function, description: str) -> Op:
    def compute(attrs: InitOpAttrs) -> Array:
        return np.asarray(function(_shape(attrs), attrs.dtype or "float32"))

    return register_op(
        name,
        arguments=(),
        attrs_type=InitOpAttrs,
        relation=forward(name, (), _relate_init),
        compute=compute,
        pattern=OpPattern.ELEMWISE,
        level=3,
        description=description,
    )


def _scalar(fill_value: TensorType) -> str:
    if fill_value.shape:
        raise ValueError(f"fill_value must be a scalar, got {fill_value}")
    return fill_value.dtype


def _relate_full(fill_value: TensorType, attrs: InitOpAttrs) -> TensorType:
    dtype = _scalar(fill_value)
    return TensorType(_shape(attrs), attrs.dtype or dtype)


def _full(attrs: InitOpAttrs, fill_value: Array) -> Array:
    return np.full(_shape(attrs), fill_value, attrs.dtype or fill_value.dtype)


def _relate_full_like(data: TensorType, fill_value: TensorType, attrs: None) -> TensorType:
    _scalar(fill_value)
    return data


def _full_like(data: Array, fill_value: Array) -> Array:
    return np.full_like(data, fill_value)


def _relate_arange(start: TensorType, stop: TensorType, step: TensorType, attrs: ArangeAttrs) -> TensorType:
    if start.shape or stop.shape or step.shape:
        raise ValueError(f"start, stop and step must be scalars, got {start}, {stop} and {step}")
    if attrs.start is None or attrs.stop is None or attrs.step is None:
        return TensorType((Any(),), attrs.dtype)
    return TensorType((_count(attrs.start, attrs.stop, attrs.step),), attrs.dtype)


def _count(start: float, stop: float, step: float) -> int:
    if step == 0:
        raise ValueError("step must not be 0")
    return max(0, math.ceil((stop - start) / step))


def _arange(attrs: ArangeAttrs, start: Array, stop: Array, step: Array) -> Array:
    first, end, distance = (float(value) if value.dtype.kind == "f" else int(value) for value in (start, stop, step))
    # The type relation has the same count.
    return np.asarray(first + np.arange(_count(first, end, distance)) * distance).astype(attrs.dtype)


def _relate_meshgrid(data: tuple[TensorType, ...], attrs: MeshgridAttrs) -> TupleType:
    if not data or any(len(vector.shape) > 1 for vector in data):
        raise ValueError(f"data must be scalars and vectors, got {', '.join(map(str, data)) or 'none'}")
    if attrs.indexing not in ("ij", "xy"):
        raise ValueError(f"indexing must be ij or xy, got {attrs.indexing!r}")
    shape: list[Dim] = [vector.shape[0] if vector.shape else 1 for vector in data]
    if attrs.indexing == "xy":
        shape[:2] = shape[1::-1]
    return TupleType([TensorType(shape, one_dtype(*data))] * len(data))


def _meshgrid(attrs: MeshgridAttrs, data: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(np.meshgrid(*data, indexing="xy" if attrs.indexing == "xy" else "ij"))


_ZEROS = _define_init("zeros", np.zeros, "A tensor of zeros.")
_ONES = _define_init("ones", np.ones, "A tensor of ones.")
_FULL = register_op(
    "full",
    arguments=("fill_value",),
    attrs_type=InitOpAttrs,
    relation=forward("full", ("fill_value",), _relate_full),
    compute=_full,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="A tensor of one value.",
)
_FULL_LIKE = register_op(
    "full_like",
    arguments=("data", "fill_value"),
    relation=forward("full_like", ("data", "fill_value"), _relate_full_like),
    compute=_full_like,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="A tensor of one value, with the type of another.",
)
_ARANGE = register_op(
    "arange",
    arguments=("start", "stop", "step"),
    attrs_type=ArangeAttrs,
    relation=forward("arange", ("start", "stop", "step"), _relate_arange),
    compute=_arange,
    pattern=OpPattern.OPAQUE,
    level=3,
    description="Numbers at equal distances.",
)
_MESHGRID = register_op(
    "meshgrid",
    arguments=("data",),
    attrs_type=MeshgridAttrs,
    relation=forward_tuple("meshgrid", "data", _relate_meshgrid),
    compute=_meshgrid,
    pattern=OpPattern.INJECTIVE,
    level=3,
    description="The coordinates of the points of a grid.",
)


def zeros(shape: Ints, dtype: str) -> Call:
    """Return a tensor of zeros."""
    expression = computed_expr(shape)
    if expression is not None:
        return call_op("dyn.zeros", expression, dtype=dtype)
    return Call(_ZEROS, (), InitOpAttrs(shape=static_ints("zeros", "shape", shape), dtype=dtype))


def ones(shape: Ints, dtype: str) -> Call:
    """Return a tensor of ones."""
    expression = computed_expr(shape)
    if expression is not None:
        return call_op("dyn.ones", expression, dtype=dtype)
    return Call(_ONES, (), InitOpAttrs(shape=static_ints("ones", "shape", shape), dtype=dtype))


def full(fill_value: Expr, shape: Ints = (), dtype: str = "") -> Call:
    """Return a tensor filled with the scalar `fill_value`.

    If `dtype` is empty, the result has the element type of `fill_value`.
    """
    expression = computed_expr(shape)
    if expression is not None:
        return call_op("dyn.full", fill_value, expression, dtype=dtype)
    return Call(_FULL, (fill_value,), InitOpAttrs(shape=static_ints("full", "shape", shape), dtype=dtype))


def full_like(data: Expr, fill_value: Expr) -> Call:
    """Return a tensor of the type of `data`, filled with the scalar `fill_value`."""
    return Call(_FULL_LIKE, (data, fill_value))


def arange(
    start: Expr | float, stop: Expr | float | None = None, step: Expr | float | None = None, dtype: str = "float32"
) -> Call:
    """Return the numbers from `start` to before `stop`, `step` apart.

    Without `stop`, return the numbers from 0 to before `start`. The length is part of the type if all three numbers
    are constants.
    """
    first, end = (0, start) if stop is None else (start, stop)
    values = (first, end, 1 if step is None else step)
    bounds = [value if isinstance(value, Expr) else const(value, dtype) for value in values]
    known = [bound.data.item() if isinstance(bound, Constant) and bound.data.size == 1 else None for bound in bounds]
    return Call(_ARANGE, bounds, ArangeAttrs(start=known[0], stop=known[1], step=known[2], dtype=dtype))


def meshgrid(data: Iterable[Expr], indexing: str = "ij") -> TupleWrapper:
    """Return the coordinates of a grid: one tensor for each vector.

    Each tensor holds the values of its vector, broadcast over the grid that all vectors span.
    """
    vectors = tuple(data)
    call = Call(_MESHGRID, (tuple_of("meshgrid", vectors),), MeshgridAttrs(indexing=indexing))
    return TupleWrapper(call, len(vectors))
