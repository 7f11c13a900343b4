"""Tensors from nothing, or from a number: zeros, ones, full, full_like, arange, meshgrid."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from apass.relay.expr import Call, Constant, Expr, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.calls import call_op
from apass.relay.ir.ndarray import Array
from apass.relay.make import const
from apass.relay.op.define.arguments import Ints, computed, static_ints, tuple_of
from apass.relay.op.define.attrs import InitOpAttrs
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, forward_tuple, one_dtype
from apass.relay.op.define.unary import Function
from apass.relay.tuple_wrapper import TupleWrapper
from apass.relay.ty import Any, Dim, TensorType, TupleType

__all__ = ["ArangeAttrs", "MeshgridAttrs", "arange", "full", "full_like", "meshgrid", "ones", "zeros"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArangeAttrs(Attrs):
    """The attributes of arange: its bounds, where they are constants, tell the type how long the result is."""

    start: float | None = None
    """The first number, if it is a constant."""
    stop: float | None = None
    """The number that the result stays below, if it is a constant."""
    step: float | None = None
    """The distance between the numbers, if it is a constant."""
    dtype: str
    """The element type of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshgridAttrs(Attrs):
    """The attributes of meshgrid."""

    indexing: str = "ij"
    """`ij` for the order of matrices, `xy` for that of Cartesian coordinates: the first two swapped."""


def _relate_init(attrs: InitOpAttrs) -> TensorType:
    return TensorType(_given(attrs), attrs.dtype or "float32")


def _given(attrs: InitOpAttrs) -> tuple[int, ...]:
    if attrs.shape is None:
        raise ValueError("the shape must be given")
    return attrs.shape


def _define_init(name: str, function: Function, description: str) -> Op:
    def compute(attrs: InitOpAttrs) -> Array:
        return np.asarray(function(_given(attrs), attrs.dtype or "float32"))

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
        raise ValueError(f"fill_value must be a scalar, but it is a {fill_value}")
    return fill_value.dtype


def _relate_full(fill_value: TensorType, attrs: InitOpAttrs) -> TensorType:
    dtype = _scalar(fill_value)
    return TensorType(_given(attrs), attrs.dtype or dtype)


def _full(attrs: InitOpAttrs, fill_value: Array) -> Array:
    return np.full(_given(attrs), fill_value, attrs.dtype or fill_value.dtype)


def _relate_full_like(data: TensorType, fill_value: TensorType, attrs: None) -> TensorType:
    _scalar(fill_value)
    return data


def _full_like(data: Array, fill_value: Array) -> Array:
    return np.full_like(data, fill_value)


def _relate_arange(start: TensorType, stop: TensorType, step: TensorType, attrs: ArangeAttrs) -> TensorType:
    if start.shape or stop.shape or step.shape:
        raise ValueError(f"start, stop and step must be scalars, but are {start}, {stop} and {step}")
    if attrs.start is None or attrs.stop is None or attrs.step is None:
        return TensorType((Any(),), attrs.dtype)
    return TensorType((_count(attrs.start, attrs.stop, attrs.step),), attrs.dtype)


def _count(start: float, stop: float, step: float) -> int:
    if step == 0:
        raise ValueError("step must not be 0")
    return max(0, math.ceil((stop - start) / step))


def _arange(attrs: ArangeAttrs, start: Array, stop: Array, step: Array) -> Array:
    first, end, distance = (float(one) if one.dtype.kind == "f" else int(one) for one in (start, stop, step))
    places = np.arange(_count(first, end, distance))
    return np.asarray(first + places * distance).astype(attrs.dtype)


def _relate_meshgrid(data: tuple[TensorType, ...], attrs: MeshgridAttrs) -> TupleType:
    if not data or any(len(one.shape) > 1 for one in data):
        raise ValueError(f"scalars and vectors are wanted, not {', '.join(map(str, data)) or 'nothing'}")
    if attrs.indexing not in ("ij", "xy"):
        raise ValueError(f"indexing is {attrs.indexing!r}; it must be ij or xy")
    shape: list[Dim] = [one.shape[0] if one.shape else 1 for one in data]
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
    description="A tensor of one number.",
)
_FULL_LIKE = register_op(
    "full_like",
    arguments=("data", "fill_value"),
    relation=forward("full_like", ("data", "fill_value"), _relate_full_like),
    compute=_full_like,
    pattern=OpPattern.ELEMWISE,
    level=3,
    description="A tensor of one number, of the type of another.",
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
    description="The coordinates of a grid.",
)


def zeros(shape: Ints, dtype: str) -> Call:
    """Return a tensor of zeros."""
    given = computed(shape)
    if given is not None:
        return call_op("dyn.zeros", given, dtype=dtype)
    return Call(_ZEROS, (), InitOpAttrs(shape=static_ints("zeros", "shape", shape), dtype=dtype))


def ones(shape: Ints, dtype: str) -> Call:
    """Return a tensor of ones."""
    given = computed(shape)
    if given is not None:
        return call_op("dyn.ones", given, dtype=dtype)
    return Call(_ONES, (), InitOpAttrs(shape=static_ints("ones", "shape", shape), dtype=dtype))


def full(fill_value: Expr, shape: Ints = (), dtype: str = "") -> Call:
    """Return a tensor of one number, a scalar tensor, in whose own element type it is if no other is given."""
    given = computed(shape)
    if given is not None:
        return call_op("dyn.full", fill_value, given, dtype=dtype)
    return Call(_FULL, (fill_value,), InitOpAttrs(shape=static_ints("full", "shape", shape), dtype=dtype))


def full_like(data: Expr, fill_value: Expr) -> Call:
    """Return a tensor of one number, of the type of `data`."""
    return Call(_FULL_LIKE, (data, fill_value))


def arange(
    start: Expr | float, stop: Expr | float | None = None, step: Expr | float | None = None, dtype: str = "float32"
) -> Call:
    """Return the numbers from `start` to before `stop`, `step` apart; from 0 to before `start` if there is no `stop`.

    The length is part of the type if all three are constants.
    """
    first, end = (0, start) if stop is None else (start, stop)
    bounds = [_bound(one, dtype) for one in (first, end, 1 if step is None else step)]
    known = [one.data.item() if isinstance(one, Constant) and one.data.size == 1 else None for one in bounds]
    return Call(_ARANGE, bounds, ArangeAttrs(start=known[0], stop=known[1], step=known[2], dtype=dtype))


def _bound(given: Expr | float, dtype: str) -> Expr:
    return given if isinstance(given, Expr) else const(given, dtype)


def meshgrid(data: Iterable[Expr], indexing: str = "ij") -> TupleWrapper:
    """Return, for each of several vectors, its numbers spread over the grid that all of them span."""
    vectors = tuple(data)
    call = Call(_MESHGRID, (tuple_of("meshgrid", vectors),), MeshgridAttrs(indexing=indexing))
    return TupleWrapper(call, len(vectors))
