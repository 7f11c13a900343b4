"""Operators with computed shapes: `reshape` of an expression, and others.

The type of a result has a known number of dimensions, from the length of the shape vector, and few known sizes. The
kernel is that of the operator of the same name: its attributes are created when the numbers are known.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Constant, Op
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import Any, Dim, TensorType, TupleType
from apass.relay.op.define.attrs import InitOpAttrs
from apass.relay.op.define.dims import axis_of, ints
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import Rule, forward
from apass.relay.op.index.scatter import OneHotAttrs, SparseToDenseAttrs
from apass.relay.op.index.sort import TopkAttrs
from apass.relay.op.shape.axes import ExpandDimsAttrs, SqueezeAttrs
from apass.relay.op.shape.broadcast import TileAttrs
from apass.relay.op.shape.reshape import ReshapeAttrs
from apass.relay.op.shape.slicing import StridedSliceAttrs

__all__ = ["DynExpandDimsAttrs", "DynReshapeAttrs", "DynStridedSliceAttrs", "Static", "define_dynamic"]

ArgT = TypeVar("ArgT")

Numbers = tuple[int, ...]
"""The elements of a vector of integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynReshapeAttrs(Attrs):
    """The attributes of dyn.reshape."""

    allowzero: bool = False
    """Whether 0 is a dimension of size 0 instead of the code for a copied dimension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynExpandDimsAttrs(Attrs):
    """The attributes of dyn.expand_dims."""

    num_newaxis: int = 1
    """The number of dimensions that are inserted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynStridedSliceAttrs(Attrs):
    """The attributes of dyn.strided_slice."""

    slice_mode: str = "end"
    """The meaning of `end`: `end`, or `size`. A size of -1 is the rest of the axis, and strides are ignored."""


@dataclass(frozen=True, slots=True)
class Static:
    """Conversion of a call with a computed shape to one with a known shape.

    It is the attribute `FStatic` of the operator.
    """

    name: str
    """The static operator."""
    make_attrs: Callable[..., Attrs]
    """Returns the attributes of the static call, from the attributes of the call and the numbers."""
    first: int
    """The index of the first argument that holds numbers."""
    vectors: int
    """The number of arguments that hold numbers."""
    read: Callable[[Array], tuple[float, ...]]
    """Returns the numbers of an argument."""

    def call(self, call: Call) -> Call | None:
        """Return the static form of a call, or None if one of its numbers is not constant."""
        numbers, others = self.split(call.args)
        vectors = [number.data for number in numbers if isinstance(number, Constant)]
        if len(vectors) < self.vectors:
            return None
        return Call(Op.get(self.name), others, self.make_attrs(call.attrs, *map(self.read, vectors)), span=call.span)

    def compute(self, attrs: Attrs | None, *inputs: Array) -> Array | tuple[Array, ...]:
        """Return the result of the static operator's kernel for all arguments."""
        kernel = Op.get(self.name).compute
        assert kernel is not None
        numbers, others = self.split(inputs)
        return kernel(self.make_attrs(attrs, *map(self.read, numbers)), *others)

    def split(self, args: Sequence[ArgT]) -> tuple[Sequence[ArgT], Sequence[ArgT]]:
        """Return the arguments that hold numbers, and the other arguments."""
        end = self.first + self.vectors
        return args[self.first : end], (*args[: self.first], *args[end:])


def _numbers(vector: Array) -> Numbers:
    return ints(vector.reshape(-1).astype("int64").tolist())


def define_dynamic(
    name: str,
    arguments: Sequence[str],
    rule: Rule,
    make_attrs: Callable[..., Attrs],
    *,
    attrs_type: type[Attrs] | None = None,
    vectors: int = 1,
    first: int | None = None,
    read: Callable[[Array], tuple[float, ...]] = _numbers,
) -> Op:
    """Define `dyn.<name>`, which gets as arguments what `name` has as attributes.

    Parameters:
        name: the static operator.
        arguments: the names of all arguments.
        rule: the type rule, as for `forward`.
        make_attrs: `make_attrs(attrs, *vectors)` returns the attributes of `name`, from those of the call and the
            numbers.
        attrs_type: the attributes of the dynamic operator, if it has any.
        vectors: the number of arguments that hold numbers.
        first: the index of the first of them; None if they are the last arguments.
        read: returns the numbers of an argument's value.

    """
    static = Static(name, make_attrs, len(arguments) - vectors if first is None else first, vectors, read)

    def compute_alone(*inputs: Array) -> Array | tuple[Array, ...]:
        return static.compute(None, *inputs)

    op = register_op(
        f"dyn.{name}",
        arguments=arguments,
        attrs_type=attrs_type,
        relation=forward(f"dyn.{name}", arguments, rule),
        compute=static.compute if attrs_type else compute_alone,
        pattern=OpPattern.OPAQUE,
        description=f"As {name}, with a computed shape.",
    )
    op.set_attr("FStatic", static)
    return op


def _length(name: str, vector: TensorType) -> int:
    size = vector.shape[0] if vector.shape else 1
    if len(vector.shape) > 1 or not isinstance(size, int):
        raise ValueError(f"{name} must be a vector of a known length, got {vector}")
    return size


def _unknown(rank: int, dtype: str) -> TensorType:
    return TensorType([Any()] * rank, dtype)


def _reshape_rule(data: TensorType, newshape: TensorType, attrs: DynReshapeAttrs) -> TensorType:
    return _unknown(_length("newshape", newshape), data.dtype)


def _reshape_attrs(attrs: DynReshapeAttrs, newshape: Numbers) -> ReshapeAttrs:
    if any(code < -1 and code != -3 for code in newshape):
        raise ValueError(f"a computed new shape can contain only the codes 0, -1 and -3, got {newshape}")
    return ReshapeAttrs(newshape=newshape, allowzero=attrs.allowzero)


def _tile_rule(data: TensorType, reps: TensorType, attrs: None) -> TensorType:
    return _unknown(max(len(data.shape), _length("reps", reps)), data.dtype)


def _tile_attrs(attrs: None, reps: Numbers) -> TileAttrs:
    return TileAttrs(reps=reps)


def _broadcast_rule(data: TensorType, shape: TensorType, attrs: InitOpAttrs) -> TensorType:
    return _unknown(_length("shape", shape), attrs.dtype or data.dtype)


def _init_rule(shape: TensorType, attrs: InitOpAttrs) -> TensorType:
    return _unknown(_length("shape", shape), attrs.dtype or "float32")


def _shape_attrs(attrs: InitOpAttrs, shape: Numbers) -> InitOpAttrs:
    return replace(attrs, shape=shape)


def _squeeze_rule(data: TensorType, axis: TensorType, attrs: None) -> TensorType:
    rank = len(data.shape) - _length("axis", axis)
    if rank < 0:
        raise ValueError(f"{data} has fewer dimensions than {axis} names to drop")
    return _unknown(rank, data.dtype)


def _squeeze_attrs(attrs: None, axis: Numbers) -> SqueezeAttrs:
    return SqueezeAttrs(axis=axis)


def _expand_rule(data: TensorType, axis: TensorType, attrs: DynExpandDimsAttrs) -> TensorType:
    if _length("axis", axis) != 1:
        raise ValueError(f"axis must be one number, got {axis}")
    return _unknown(len(data.shape) + attrs.num_newaxis, data.dtype)


def _expand_attrs(attrs: DynExpandDimsAttrs, axis: Numbers) -> ExpandDimsAttrs:
    return ExpandDimsAttrs(axis=axis[0], num_newaxis=attrs.num_newaxis)


def _slice_rule(
    data: TensorType, begin: TensorType, end: TensorType, strides: TensorType, attrs: DynStridedSliceAttrs
) -> TensorType:
    count = max(_length("begin", begin), _length("end", end))
    if count > len(data.shape):
        raise ValueError(f"{data} has fewer dimensions than begin {begin} and end {end} have elements")
    return TensorType((*(Any() for _ in range(count)), *data.shape[count:]), data.dtype)


def _slice_attrs(attrs: DynStridedSliceAttrs, begin: Numbers, end: Numbers, strides: Numbers) -> StridedSliceAttrs:
    return StridedSliceAttrs(begin=begin, end=end, strides=strides, slice_mode=attrs.slice_mode)


def _topk_rule(data: TensorType, k: TensorType, attrs: TopkAttrs) -> TensorType | TupleType:
    shape: list[Dim] = list(data.shape)
    shape[axis_of(len(shape), attrs.axis)] = Any()
    values, indices = TensorType(shape, data.dtype), TensorType(shape, attrs.dtype or "int32")
    if attrs.ret_type == "both":
        return TupleType([values, indices])
    return values if attrs.ret_type == "values" else indices


def _topk_attrs(attrs: TopkAttrs, k: Numbers) -> TopkAttrs:
    return replace(attrs, k=k[0])


def _one_hot_rule(
    indices: TensorType, on_value: TensorType, off_value: TensorType, depth: TensorType, attrs: OneHotAttrs
) -> TensorType:
    axis = axis_of(len(indices.shape) + 1, attrs.axis)
    return TensorType((*indices.shape[:axis], Any(), *indices.shape[axis:]), attrs.dtype or on_value.dtype)


def _one_hot_attrs(attrs: OneHotAttrs, depth: Numbers) -> OneHotAttrs:
    return replace(attrs, depth=depth[0])


def _dense_rule(
    sparse_indices: TensorType,
    sparse_values: TensorType,
    default_value: TensorType,
    output_shape: TensorType,
    attrs: None,
) -> TensorType:
    return _unknown(_length("output_shape", output_shape), sparse_values.dtype)


def _dense_attrs(attrs: None, output_shape: Numbers) -> SparseToDenseAttrs:
    return SparseToDenseAttrs(output_shape=output_shape)


define_dynamic("reshape", ("data", "newshape"), _reshape_rule, _reshape_attrs, attrs_type=DynReshapeAttrs)
define_dynamic("tile", ("data", "reps"), _tile_rule, _tile_attrs)
define_dynamic("broadcast_to", ("data", "shape"), _broadcast_rule, _shape_attrs, attrs_type=InitOpAttrs)
define_dynamic("zeros", ("shape",), _init_rule, _shape_attrs, attrs_type=InitOpAttrs)
define_dynamic("ones", ("shape",), _init_rule, _shape_attrs, attrs_type=InitOpAttrs)
define_dynamic("full", ("fill_value", "shape"), _broadcast_rule, _shape_attrs, attrs_type=InitOpAttrs)
define_dynamic("squeeze", ("data", "axis"), _squeeze_rule, _squeeze_attrs)
define_dynamic("expand_dims", ("data", "axis"), _expand_rule, _expand_attrs, attrs_type=DynExpandDimsAttrs)
define_dynamic(
    "strided_slice",
    ("data", "begin", "end", "strides"),
    _slice_rule,
    _slice_attrs,
    attrs_type=DynStridedSliceAttrs,
    vectors=3,
)
define_dynamic("topk", ("data", "k"), _topk_rule, _topk_attrs, attrs_type=TopkAttrs)
define_dynamic(
    "one_hot",
    ("indices", "on_value", "off_value", "depth"),
    _one_hot_rule,
    _one_hot_attrs,
    attrs_type=OneHotAttrs,
)
define_dynamic(
    "sparse_to_dense",
    ("sparse_indices", "sparse_values", "default_value", "output_shape"),
    _dense_rule,
    _dense_attrs,
)
