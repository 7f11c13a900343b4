"""Evaluation of operators whose results every evaluator computes alike.

Kernels move data, compute with integers, or round each number once (IEEE 754). Everything else, such as `Exp` or a sum
of floating-point numbers, depends on the evaluator in the last digits and has no kernel here.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

__all__ = [
    "KERNELS",
    "Array",
    "Call",
    "NotExactError",
    "axes_of",
    "cast_exactly",
    "evaluate",
    "is_ambiguous",
    "slice_bounds",
]

Array: TypeAlias = NDArray[Any]

MAX_RANK: Final = 32
"""Maximum number of dimensions of arrays; numpy 1 supports no more."""

MAX_EXACT: Final = 2**53
"""Magnitude below which powers, sums and products of integers are exact, also if in floating point."""


class NotExactError(Exception):
    """Raised for inputs whose result is undefined, or depends on the evaluator."""


@dataclass(frozen=True, slots=True)
class Call:
    """One application of an operator."""

    version: int
    """The version of the operator set."""
    attrs: Mapping[str, Any]
    """Values of the attributes that are set."""
    inputs: Sequence[Array | None]
    """The operands; None for one that is omitted."""

    def operand(self, index: int) -> Array:
        """Return a required operand."""
        value = self.optional(index)
        if value is None:
            raise NotExactError
        return value

    def optional(self, index: int) -> Array | None:
        """Return an operand, or None if it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else None

    def integers(self, name: str, index: int) -> list[int] | None:
        """Return integers that are an operand or, in old versions, an attribute."""
        value = self.optional(index)
        if value is not None:
            return [int(number) for number in value.reshape(-1)]
        return list(self.attrs[name]) if name in self.attrs else None


Kernel = Callable[[Call], "Array | Sequence[Array]"]


def evaluate(op_type: str, call: Call) -> list[Array] | None:
    """Return the results of an operator, or None if they are not known exactly."""
    kernel = KERNELS.get(op_type)
    if kernel is None:
        return None
    try:
        with np.errstate(all="ignore"):
            result = kernel(call)
    except (NotExactError, ValueError, IndexError, TypeError, KeyError, ArithmeticError):
        # Invalid operands: the evaluator of the model will report them.
        return None
    # numpy returns scalars for some arrays without dimensions.
    return [np.asarray(result)] if isinstance(result, np.ndarray | np.generic) else list(result)


def require(condition: object) -> None:
    """Raise NotExactError unless `condition` is true."""
    if not condition:
        raise NotExactError


def axes_of(axes: Sequence[int], rank: int) -> list[int]:
    """Return axes as numbers from 0, without duplicates."""
    require(all(-rank <= axis < rank for axis in axes))
    result = [axis % rank for axis in axes]
    require(len(set(result)) == len(result))
    return result


def is_float(array: Array) -> bool:
    """Return whether the numbers are floating-point."""
    # The types of ml_dtypes have no kind of their own.
    return array.dtype.kind == "f" or "float" in array.dtype.name


def is_integer(array: Array) -> bool:
    """Return whether the numbers are integers of at least 8 bits."""
    return array.dtype.kind in "iu"


def is_nan(array: Array) -> bool:
    """Return whether an element is NaN."""
    return bool((array != array).any())


def _number(array: Array) -> Array:
    """Return the array if IEEE 754 or two's complement determines its arithmetic."""
    require(array.dtype.kind in "iu" or array.dtype.name in ("float16", "float32", "float64", "bfloat16"))
    return array


def _ieee(function: Callable[..., Any], *, integers: bool = True, floats: bool = True) -> Kernel:
    """Return a kernel for an elementwise operator that rounds once."""

    def kernel(call: Call) -> Array:
        require(call.version >= 7)  # before, operands were broadcast by attributes
        operands = [_number(call.operand(index)) for index in range(len(call.inputs))]
        require(all(operand.dtype == operands[0].dtype for operand in operands))
        require(integers or not is_integer(operands[0]))
        require(floats or is_integer(operands[0]))
        result = np.asarray(function(*operands)).astype(operands[0].dtype, copy=False)
        # The sign and the payload of a new NaN depend on the evaluator.
        require(is_integer(result) or not is_nan(result))
        return result

    return kernel


def _divide(left: Array, right: Array) -> Array:
    if is_float(left):
        return np.asarray(left / right)
    # ONNX truncates; numpy and the reference evaluator round down. They agree if nothing is lost, or negative.
    require((right != 0).all())
    quotient, rest = np.divmod(left, right)
    require(((rest == 0) | ((left >= 0) & (right > 0))).all())
    return np.asarray(quotient)


def _modulo(call: Call) -> Array:
    left, right = call.operand(0), call.operand(1)
    require(is_integer(left) and left.dtype == right.dtype and (right > 0).all() and (left >= 0).all())
    return np.asarray(np.mod(left, right))


def _power(call: Call) -> Array:
    require(call.version >= 12)
    base, exponent = call.operand(0), call.operand(1)
    require(is_integer(base) and is_integer(exponent) and (exponent >= 0).all())
    limits = np.iinfo(base.dtype)
    powers = [
        int(number) ** min(int(power), 64)
        for number, power in np.broadcast(base.astype(object), exponent.astype(object))  # exact numbers of Python
    ]
    require(all(limits.min <= power <= limits.max and abs(power) < MAX_EXACT for power in powers))
    require((exponent <= 64).all())
    shape = np.broadcast_shapes(base.shape, exponent.shape)
    return np.array(powers, dtype=base.dtype).reshape(shape)


def _extremum(function: Callable[[Array, Array], Any]) -> Kernel:
    def kernel(call: Call) -> Array:
        require(call.version >= 8 or len(call.inputs) == 1)
        result = _number(call.operand(0))
        for index in range(1, len(call.inputs)):
            operand = call.operand(index)
            require(operand.dtype == result.dtype)
            # Evaluators differ for NaN, and for zeros of both signs.
            require(is_integer(result) or not (is_nan(result) or is_nan(operand) or _has_zeros(result, operand)))
            result = np.asarray(function(result, operand))
        return result

    return kernel


def _has_zeros(left: Array, right: Array) -> bool:
    return bool((left == 0).any() and (right == 0).any())


def _clip(call: Call) -> Array:
    require(call.version >= 11)
    value, low, high = call.operand(0), call.optional(1), call.optional(2)
    require(is_integer(value) and all(bound is None or bound.size == 1 for bound in (low, high)))
    if low is not None:
        value = np.maximum(value, low.reshape(()))
    return np.asarray(value if high is None else np.minimum(value, high.reshape(())))


def _compare(function: Callable[[Array, Array], Any]) -> Kernel:
    def kernel(call: Call) -> Array:
        left, right = call.operand(0), call.operand(1)
        require(call.version >= 7 and left.dtype == right.dtype and left.dtype.kind != "O")
        return np.asarray(function(left, right)).astype(np.bool_)

    return kernel


def _logical(function: Callable[..., Any]) -> Kernel:
    def kernel(call: Call) -> Array:
        operands = [call.operand(index) for index in range(len(call.inputs))]
        require((call.version >= 7 or len(operands) == 1) and all(array.dtype == np.bool_ for array in operands))
        return np.asarray(function(*operands))

    return kernel


def _bitwise(function: Callable[..., Any]) -> Kernel:
    def kernel(call: Call) -> Array:
        operands = [call.operand(index) for index in range(len(call.inputs))]
        require(all(is_integer(array) and array.dtype == operands[0].dtype for array in operands))
        return np.asarray(function(*operands))

    return kernel


def _where(call: Call) -> Array:
    condition, left, right = call.operand(0), call.operand(1), call.operand(2)
    require(condition.dtype == np.bool_ and left.dtype == right.dtype and left.dtype.kind != "c")
    result = np.asarray(np.where(condition, left, right))
    # onnxruntime adds the two selections, so that -0.0 may become 0.0.
    require(not is_float(result) or not np.signbit(result.astype(np.float64)[result == 0]).any())
    return result


def cast_exactly(array: Array, target: int) -> Array:
    """Return the array as another type, if every evaluator agrees on the numbers.

    Raises:
        NotExactError: if a number overflows, is NaN, or would be rounded twice.

    """
    dtype = ir.DataType(target)
    require(dtype != ir.DataType.STRING and array.dtype.kind != "O")
    new = dtype.numpy()
    if array.dtype == new:
        return array
    if new == np.bool_:
        require(array.dtype.kind in "biuf")
        return array.astype(np.bool_)
    plain = array.dtype.kind in "biu" or array.dtype.name in ("float16", "float32", "float64", "bfloat16")
    require(plain and (new.kind in "iu" or new.name in ("float16", "float32", "float64", "bfloat16")))
    if new.kind in "iu":
        if array.dtype.kind != "b":
            limits = np.iinfo(new)
            wide = array if array.dtype.kind in "iu" else np.trunc(array.astype(np.float64))
            require(not is_nan(wide))
            require(
                all(limits.min <= int(number) <= limits.max for number in (wide.min(), wide.max()))
                if wide.size
                else True
            )
        return array.astype(new)
    require(not is_nan(array))
    result = array.astype(new)
    direct = new.name in ("float32", "float64") or (new.name == "float16" and array.dtype.name == "float32")
    direct = direct or (new.name == "bfloat16" and array.dtype.name == "float32")
    # Some evaluators round to float32 first.
    require(direct or (result.astype(np.float64) == array.astype(np.float64)).all())
    return result


def _cast(call: Call) -> Array:
    require(call.version >= 6)
    return cast_exactly(call.operand(0), int(call.attrs["to"]))


def _cast_like(call: Call) -> Array:
    return cast_exactly(call.operand(0), ir.DataType.from_numpy(call.operand(1).dtype).value)


def _reshape(call: Call) -> Array:
    data, target = call.operand(0), call.integers("shape", 1)
    require(target is not None)
    assert target is not None
    if not call.attrs.get("allowzero", 0):
        target = [data.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    require(len(target) <= MAX_RANK)
    return data.reshape(target)


def _flatten(call: Call) -> Array:
    data, axis = call.operand(0), int(call.attrs.get("axis", 1))
    require(-data.ndim <= axis <= data.ndim)
    axis = axis + data.ndim if axis < 0 else axis
    return data.reshape(math.prod(data.shape[:axis]), math.prod(data.shape[axis:]))


def _squeeze(call: Call) -> Array:
    data, axes = call.operand(0), call.integers("axes", 1)
    require(axes is None or axes)
    chosen = [axis for axis, size in enumerate(data.shape) if size == 1] if axes is None else axes_of(axes, data.ndim)
    return np.squeeze(data, tuple(chosen))


def _unsqueeze(call: Call) -> Array:
    data, axes = call.operand(0), call.integers("axes", 1)
    require(axes is not None)
    assert axes is not None
    require(data.ndim + len(axes) <= MAX_RANK)
    return np.expand_dims(data, tuple(axes_of(axes, data.ndim + len(axes))))


def _transpose(call: Call) -> Array:
    return np.ascontiguousarray(np.transpose(call.operand(0), call.attrs.get("perm")))


def _concat(call: Call) -> Array:
    arrays = [call.operand(index) for index in range(len(call.inputs))]
    require(all(array.dtype == arrays[0].dtype for array in arrays))
    return np.concatenate(arrays, int(call.attrs["axis"]))


def slice_bounds(call: Call, rank: int) -> list[tuple[int, int, int, int]]:
    """Return axis, start, end and step of each sliced axis, as given."""
    starts, ends, axes = (call.integers(name, index) for index, name in ((1, "starts"), (2, "ends"), (3, "axes")))
    require(starts is not None and ends is not None)
    assert starts is not None
    assert ends is not None
    steps = call.integers("steps", 4) or [1] * len(starts)
    chosen = axes_of(list(range(len(starts))) if axes is None else axes, rank)
    require(all(steps))
    return list(zip(chosen, starts, ends, steps, strict=True))


def is_ambiguous(end: int, step: int) -> bool:
    """Return whether evaluators disagree on the end of a Slice.

    Backwards, the largest number is clamped to the last element by the specification. onnxruntime takes it for the
    first element, inclusive.
    """
    return step < 0 and end in (2**31 - 1, 2**63 - 1)


def slice_of(size: int, start: int, end: int, step: int) -> slice:
    """Return the slice of Python for bounds of a Slice, which are clamped."""
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        return slice(min(max(start, 0), size), min(max(end, 0), size), step)
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return slice(start, None if end < 0 else end, step)


def _slice(call: Call) -> Array:
    data = call.operand(0)
    index: list[slice] = [slice(None)] * data.ndim
    for axis, start, end, step in slice_bounds(call, data.ndim):
        require(not is_ambiguous(end, step))
        index[axis] = slice_of(data.shape[axis], start, end, step) if data.shape[axis] else slice(None)
    return np.ascontiguousarray(data[tuple(index)])


def _gather(call: Call) -> Array:
    data, indices, axis = call.operand(0), call.operand(1), int(call.attrs.get("axis", 0))
    require(call.version >= 11 or (indices >= 0).all())
    return np.take(data, indices, axis)


def _gather_elements(call: Call) -> Array:
    data, indices, axis = call.operand(0), call.operand(1), int(call.attrs.get("axis", 0))
    size = data.shape[axis]
    require(((indices >= -size) & (indices < size)).all())
    return np.take_along_axis(data, np.where(indices < 0, indices + size, indices), axis)


def _expand(call: Call) -> Array:
    data, shape = call.operand(0), [int(size) for size in call.operand(1)]
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape))).copy()


def _tile(call: Call) -> Array:
    data, repeats = call.operand(0), call.operand(1)
    require(call.version >= 6 and repeats.size == data.ndim and (repeats >= 0).all())
    return np.tile(data, repeats.tolist())


def _split(call: Call) -> list[Array]:
    data, axis, sizes = call.operand(0), int(call.attrs.get("axis", 0)), call.integers("split", 1)
    require(sizes is not None and sum(sizes) == data.shape[axis] and min(sizes, default=0) >= 0)
    assert sizes is not None
    ends = np.cumsum(sizes)[:-1]
    return [np.ascontiguousarray(part) for part in np.split(data, ends, axis)]


def _pad(call: Call) -> Array:
    data, pads, value = call.operand(0), call.integers("pads", 1), call.optional(2)
    require(call.version >= 11 and call.attrs.get("mode", "constant") == "constant" and pads is not None)
    assert pads is not None
    axes = range(data.ndim) if call.optional(3) is None else axes_of(call.operand(3).tolist(), data.ndim)
    require(min(pads, default=0) >= 0 and len(pads) == 2 * len(axes))
    widths = [(0, 0)] * data.ndim
    for index, axis in enumerate(axes):
        widths[axis] = (pads[index], pads[index + len(axes)])
    result = np.full([size + sum(width) for size, width in zip(data.shape, widths, strict=True)], 0, data.dtype)
    if value is not None:
        require(value.dtype == data.dtype)
        result[...] = value.reshape(())
    result[tuple(slice(low, low + size) for size, (low, _) in zip(data.shape, widths, strict=True))] = data
    return result


def _range(call: Call) -> Array:
    start, limit, delta = (call.operand(index).reshape(()) for index in range(3))
    require(is_integer(start) and delta != 0)
    return np.arange(int(start), int(limit), int(delta)).astype(start.dtype)


def _constant_of_shape(call: Call) -> Array:
    value = call.attrs.get("value")
    shape = [int(size) for size in call.operand(0)]
    if value is None:
        return np.zeros(shape, np.float32)
    return np.full(shape, value.numpy().reshape(()), value.numpy().dtype)


def _reduce(function: Callable[..., Any], *, chooses: bool = False) -> Kernel:
    """Return a kernel for a reduction, which is exact for floats if it `chooses`."""

    def kernel(call: Call) -> Array:
        data, axes = call.operand(0), call.integers("axes", 1)
        require(data.size)
        signs = np.signbit(_number(data).astype(np.float64)[data == 0])
        require(is_integer(data) or (chooses and not is_nan(data) and signs.all() == signs.any()))
        if not axes and call.attrs.get("noop_with_empty_axes", 0):
            return data
        chosen = tuple(axes_of(axes, data.ndim)) if axes else None
        if not chooses:
            # Some evaluators accumulate in float64, and clip numbers beyond the type instead of wrapping them.
            magnitude = function(np.maximum(np.abs(data.astype(np.float64)), 1), axis=chosen)
            require((magnitude < min(int(np.iinfo(data.dtype).max) + 1, MAX_EXACT)).all())
        result = np.asarray(function(data, axis=chosen, keepdims=bool(call.attrs.get("keepdims", 1))))
        return result.astype(data.dtype)

    return kernel


def _cumulative_sum(call: Call) -> Array:
    data, axis = call.operand(0), int(call.operand(1).reshape(()))
    require(is_integer(data) and not call.attrs.get("exclusive", 0) and not call.attrs.get("reverse", 0))
    return np.cumsum(data, axis, dtype=data.dtype)


def _triangle(call: Call) -> Array:
    data, diagonal = call.operand(0), call.optional(1)
    require(data.ndim >= 2)
    keep = np.triu if call.attrs.get("upper", 1) else np.tril
    offset = 0 if diagonal is None else int(diagonal.reshape(()))
    require(abs(offset) < 2**31)
    mask = keep(np.ones(data.shape[-2:], np.bool_), offset)
    return np.where(mask, data, np.zeros((), data.dtype))


def _one_hot(call: Call) -> Array:
    indices, depth, values = call.operand(0), int(call.operand(1).reshape(())), call.operand(2)
    require(is_integer(indices) and depth > 0 and values.shape == (2,))
    axis = int(call.attrs.get("axis", -1))
    require(-indices.ndim - 1 <= axis <= indices.ndim)
    inside = (indices >= -depth) & (indices < depth)
    hot: Array = (np.mod(indices, depth)[..., None] == np.arange(depth)) & inside[..., None]
    chosen = np.full(hot.shape, values[0], values.dtype)
    chosen[hot] = values[1]
    return np.ascontiguousarray(np.moveaxis(chosen, -1, axis))


def _eye_like(call: Call) -> Array:
    data, target = call.operand(0), call.attrs.get("dtype")
    dtype = data.dtype if target is None else ir.DataType(target).numpy()
    require(data.ndim == 2)
    rows, columns = data.shape
    return np.asarray(np.eye(rows, columns, int(call.attrs.get("k", 0))).astype(dtype))


def _round(function: Callable[[Array], Any]) -> Kernel:
    def kernel(call: Call) -> Array:
        data = call.operand(0)
        require(data.dtype.name in ("float32", "float64") and not is_nan(data))
        return np.asarray(function(data))

    return kernel


def _is_infinite(call: Call) -> Array:
    data = call.operand(0)
    require(data.dtype.name in ("float32", "float64") and not call.attrs)
    return np.asarray(np.isinf(data))


def _is_nan_kernel(call: Call) -> Array:
    data = call.operand(0)
    require(is_float(data))
    return np.asarray(data != data)


def _dropout(call: Call) -> Array:
    require(call.version >= 7 and (call.optional(2) is None or not call.operand(2).any()))
    return call.operand(0)


def _scatter(call: Call) -> Array:
    data, indices, updates = call.operand(0), call.operand(1), call.operand(2)
    require(call.attrs.get("reduction", "none") == "none" and data.dtype == updates.dtype)
    rank = indices.shape[-1]
    result = data.copy()
    chosen = indices.reshape(-1, rank)
    # Of duplicate indices, evaluators may take any.
    require(len({tuple(index) for index in chosen.tolist()}) == len(chosen) and (chosen >= 0).all())
    parts = updates.reshape(len(chosen), *data.shape[rank:])
    for index, part in zip(chosen.tolist(), parts, strict=True):
        result[tuple(index)] = part
    return result


def _gather_nd(call: Call) -> Array:
    data, indices = call.operand(0), call.operand(1)
    require(not call.attrs.get("batch_dims", 0) and indices.ndim > 0)
    return np.asarray(data[tuple(np.moveaxis(indices, -1, 0))])


KERNELS: Final[Mapping[str, Kernel]] = {
    "Abs": _ieee(np.abs),
    "Add": _ieee(np.add),
    "And": _logical(np.logical_and),
    "BitwiseAnd": _bitwise(np.bitwise_and),
    "BitwiseNot": _bitwise(np.bitwise_not),
    "BitwiseOr": _bitwise(np.bitwise_or),
    "BitwiseXor": _bitwise(np.bitwise_xor),
    "Cast": _cast,
    "CastLike": _cast_like,
    "Ceil": _round(np.ceil),
    "Clip": _clip,
    "Concat": _concat,
    "ConstantOfShape": _constant_of_shape,
    "CumSum": _cumulative_sum,
    "Div": _ieee(_divide),
    "Dropout": _dropout,
    "Equal": _compare(np.equal),
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Flatten": _flatten,
    "Floor": _round(np.floor),
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Greater": _compare(np.greater),
    "GreaterOrEqual": _compare(np.greater_equal),
    "Identity": lambda call: call.operand(0),
    "IsInf": _is_infinite,
    "IsNaN": _is_nan_kernel,
    "Less": _compare(np.less),
    "LessOrEqual": _compare(np.less_equal),
    "Max": _extremum(np.maximum),
    "Min": _extremum(np.minimum),
    "Mod": _modulo,
    "Mul": _ieee(np.multiply),
    "Neg": _ieee(np.negative),
    "Not": _logical(np.logical_not),
    "OneHot": _one_hot,
    "Or": _logical(np.logical_or),
    "Pad": _pad,
    "Pow": _power,
    "Range": _range,
    "Reciprocal": _ieee(np.reciprocal, integers=False),
    "ReduceMax": _reduce(np.max, chooses=True),
    "ReduceMin": _reduce(np.min, chooses=True),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "Reshape": _reshape,
    "Round": _round(np.rint),
    "ScatterND": _scatter,
    "Shape": lambda call: np.array(call.operand(0).shape[_shape_range(call)], np.int64),
    "Size": lambda call: np.array(call.operand(0).size, np.int64),
    "Slice": _slice,
    "Split": _split,
    "Sqrt": _ieee(np.sqrt, integers=False),
    "Squeeze": _squeeze,
    "Sub": _ieee(np.subtract),
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _triangle,
    "Unsqueeze": _unsqueeze,
    "Where": _where,
    "Xor": _logical(np.logical_xor),
}
"""The kernel of each operator, for all versions it accepts."""


def _shape_range(call: Call) -> slice:
    return slice(call.attrs.get("start", 0), call.attrs.get("end"))
