"""Operators whose shapes are computed: what `reshape` and others become if they are given an expression for a shape.

Of a result they know the number of dimensions, from the length of the vector that tells its shape, and hardly more.
Their kernels are those of the operators of the same names, with attributes that are made when the numbers are there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from apass.relay.expr import Call, Constant, Op
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.ndarray import Array
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
from apass.relay.ty import Any, Dim, TensorType, TupleType

__all__ = ["DynExpandDimsAttrs", "DynReshapeAttrs", "DynStridedSliceAttrs", "Static", "define_dynamic"]

ArgT = TypeVar("ArgT")

Numbers = tuple[int, ...]
"""What a vector of integers holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynReshapeAttrs(Attrs):
    """The attributes of dyn.reshape."""

    allowzero: bool = False
    """Whether 0 is a dimension of that size instead of a copy of the one in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynExpandDimsAttrs(Attrs):
    """The attributes of dyn.expand_dims."""

    num_newaxis: int = 1
    """How many dimensions are put in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DynStridedSliceAttrs(Attrs):
    """The attributes of dyn.strided_slice."""

    slice_mode: str = "end"
    """What `end` means: `end`, or `size`, where -1 is all the rest and strides do not count."""


@dataclass(frozen=True, slots=True)
class Static:
    """How a call with a computed shape becomes one with a shape that is known; the attribute `FStatic` of its op."""

    name: str
    """The operator that takes its place."""
    made: Callable[..., Attrs]
    """Returns the attributes of that, from those of the call and from numbers."""
    first: int
    """The place of the first argument that is numbers."""
    vectors: int
    """How many arguments are numbers."""
    read: Callable[[Array], tuple[float, ...]]
    """Returns the numbers in an argument."""

    def call(self, call: Call) -> Call | None:
        """Return what stands for a call; None if one of its numbers is not known."""
        numbers, others = self.split(call.args)
        vectors = [one.data for one in numbers if isinstance(one, Constant)]
        if len(vectors) < self.vectors:
            return None
        return Call(Op.get(self.name), others, self.made(call.attrs, *map(self.read, vectors)), span=call.span)

    def compute(self, attrs: Attrs | None, *inputs: Array) -> Array | tuple[Array, ...]:
        """Return what the kernel of the other operator makes of the values of all arguments."""
        kernel = Op.get(self.name).compute
        assert kernel is not None
        numbers, others = self.split(inputs)
        return kernel(self.made(attrs, *map(self.read, numbers)), *others)

    def split(self, args: Sequence[ArgT]) -> tuple[Sequence[ArgT], Sequence[ArgT]]:
        """Return the arguments that are numbers, and the others."""
        end = self.first + self.vectors
        return args[self.first : end], (*args[: self.first], *args[end:])


def _numbers(vector: Array) -> Numbers:
    return ints(vector.reshape(-1).astype("int64").tolist())


def define_dynamic(
    name: str,
    arguments: Sequence[str],
    rule: Rule,
    made: Callable[..., Attrs],
    *,
    attrs_type: type[Attrs] | None = None,
    vectors: int = 1,
    first: int | None = None,
    read: Callable[[Array], tuple[float, ...]] = _numbers,
) -> Op:
    """Define `dyn.<name>`, which is given as `vectors` arguments what `name` has among its attributes.

    They are the last ones, or those from place `first` on. `made(attrs, *vectors)` returns the attributes of `name`,
    from those of the call and from numbers, which `read` finds in the value of an argument.
    """
    static = Static(name, made, len(arguments) - vectors if first is None else first, vectors, read)

    def compute_alone(*inputs: Array) -> Array | tuple[Array, ...]:
        return static.compute(None, *inputs)

    op = register_op(
        f"dyn.{name}",
        arguments=arguments,
        attrs_type=attrs_type,
        relation=forward(f"dyn.{name}", arguments, rule),
        compute=static.compute if attrs_type else compute_alone,
        pattern=OpPattern.OPAQUE,
        description=f"As {name}, with a shape that is computed.",
    )
    op.set_attr("FStatic", static)
    return op


def _length(what: str, vector: TensorType) -> int:
    size = vector.shape[0] if vector.shape else 1
    if len(vector.shape) > 1 or not isinstance(size, int):
        raise ValueError(f"{what} must be a vector of a known length, but it is a {vector}")
    return size


def _unknown(rank: int, dtype: str) -> TensorType:
    return TensorType([Any()] * rank, dtype)


def _reshape_rule(data: TensorType, newshape: TensorType, attrs: DynReshapeAttrs) -> TensorType:
    return _unknown(_length("newshape", newshape), data.dtype)


def _reshape_attrs(attrs: DynReshapeAttrs, newshape: Numbers) -> ReshapeAttrs:
    if min(newshape, default=0) < -1:
        raise ValueError(f"a new shape that is computed can have the codes 0 and -1 alone, but is {newshape}")
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
        raise ValueError(f"{data} has not so many dimensions to drop as {axis} names")
    return _unknown(rank, data.dtype)


def _squeeze_attrs(attrs: None, axis: Numbers) -> SqueezeAttrs:
    return SqueezeAttrs(axis=axis)


def _expand_rule(data: TensorType, axis: TensorType, attrs: DynExpandDimsAttrs) -> TensorType:
    if _length("axis", axis) != 1:
        raise ValueError(f"axis must be one number, but it is a {axis}")
    return _unknown(len(data.shape) + attrs.num_newaxis, data.dtype)


def _expand_attrs(attrs: DynExpandDimsAttrs, axis: Numbers) -> ExpandDimsAttrs:
    return ExpandDimsAttrs(axis=axis[0], num_newaxis=attrs.num_newaxis)


def _slice_rule(
    data: TensorType, begin: TensorType, end: TensorType, strides: TensorType, attrs: DynStridedSliceAttrs
) -> TensorType:
    count = max(_length("begin", begin), _length("end", end))
    if count > len(data.shape):
        raise ValueError(f"{data} has not so many dimensions to slice as {begin} and {end} have places")
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
