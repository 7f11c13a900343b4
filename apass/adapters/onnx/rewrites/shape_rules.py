"""Shapes and types of the results of operators, with symbols for unknown sizes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from apass.adapters.onnx.rewrites.dims import MAX_ELEMENTS, Dim, Known, Shape, broadcast
from apass.adapters.onnx.rewrites.kernels import Call, axes_of, is_ambiguous, slice_bounds

__all__ = ["SHAPE_RULES", "Result"]

ENDLESS: Final = 2**62
"""An end of a slice from which it means the end of the axis."""

Result = tuple[Shape | None, ir.DataType | None] | None
"""The shape and the type of the first result of a node; None if the rule does not apply."""


def _reshape_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    before = facts.shape(node.inputs[0])
    target = facts.elements(node.inputs[1]) if len(node.inputs) > 1 else attrs.get("shape")
    dtype = facts.dtype(node.inputs[0])
    if target is None:
        return _unknown_sizes(facts, node.inputs[1]) if len(node.inputs) > 1 else None, dtype
    dims: list[Dim] = list(target)
    if not attrs.get("allowzero", 0):
        if 0 in dims and before is None:
            return tuple(dim if isinstance(dim, int) and dim > 0 else facts.fresh() for dim in dims), dtype
        dims = [before[axis] if dim == 0 and before is not None else dim for axis, dim in enumerate(dims)]
    # An unknown number can be -1, or 0 for the size of the operand. A size of a tensor is taken for positive: with 0,
    # which copies another size, most models fail here.
    dims = [
        dim
        if isinstance(dim, int) or facts.is_size(dim) or (before is not None and before[axis : axis + 1] == (dim,))
        else facts.fresh()
        for axis, dim in enumerate(dims)
    ]
    if -1 in dims:
        rest = [dim for dim in dims if dim != -1]
        inferred = None if before is None else facts.products.quotient(before, rest)
        inferred = facts.fresh() if inferred is None else inferred
        dims = [inferred if dim == -1 else dim for dim in dims]
    return tuple(dims), dtype


def _unknown_sizes(facts: Known, sizes: ir.Value | None) -> Shape | None:
    """Return a symbol for each of several sizes; None if their number is unknown."""
    length = facts.shape(sizes)
    if length is None or len(length) != 1 or not isinstance(length[0], int) or length[0] > MAX_ELEMENTS:
        return None
    return tuple(facts.fresh() for _ in range(length[0]))


def _transpose_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape = facts.shape(node.inputs[0])
    if shape is None:
        rank = len(attrs.get("perm") or ())
        return tuple(facts.fresh() for _ in range(rank)) if rank else None, facts.dtype(node.inputs[0])
    perm = attrs.get("perm") or tuple(reversed(range(len(shape))))
    return tuple(shape[axis] for axis in perm), facts.dtype(node.inputs[0])


def _operand_axes(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Sequence[int] | None:
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        return facts.integers(node.inputs[1])
    return attrs.get("axes")


def _squeeze_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, axes = facts.shape(node.inputs[0]), _operand_axes(facts, node, attrs)
    if shape is None:
        return None
    if axes is not None and not axes:
        # The reference evaluator removes no axis, onnxruntime all of size 1.
        return None, facts.dtype(node.inputs[0])
    if axes is None:
        if len(node.inputs) > 1 or not all(isinstance(dim, int) for dim in shape):
            return None
        return tuple(dim for dim in shape if dim != 1), facts.dtype(node.inputs[0])
    removed = axes_of(axes, len(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in removed), facts.dtype(node.inputs[0])


def _unsqueeze_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, axes = facts.shape(node.inputs[0]), _operand_axes(facts, node, attrs)
    if shape is None or axes is None:
        return None
    added = axes_of(axes, len(shape) + len(axes))
    dims = iter(shape)
    result = tuple(1 if axis in added else next(dims) for axis in range(len(shape) + len(axes)))
    return result, facts.dtype(node.inputs[0])


def _concat_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shapes = [facts.shape(value) for value in node.inputs]
    first, axis = shapes[0], int(attrs["axis"])
    if first is None:
        return None, facts.dtype(node.inputs[0])
    along = [None if shape is None else shape[axis] for shape in shapes]
    known = [dim for dim in along if isinstance(dim, int)]
    result = list(first)
    result[axis] = sum(known) if len(known) == len(along) else facts.fresh() if len(along) > 1 else first[axis]
    for other in range(len(result)):
        sizes = [shape[other] for shape in shapes if shape is not None and isinstance(shape[other], int)]
        if other != axis % len(result) and sizes:
            result[other] = sizes[0]
    return tuple(result), facts.dtype(node.inputs[0])


def _slice_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, dtype = facts.shape(node.inputs[0]), facts.dtype(node.inputs[0])
    operands = [facts.integers(value) for value in node.inputs[1:]]
    if shape is None:
        return None, dtype
    if any(value is not None and numbers is None for value, numbers in zip(node.inputs[1:], operands, strict=True)):
        axes = facts.integers(node.inputs[3]) if len(node.inputs) > 3 else None
        changed = None if axes is None else axes_of(axes, len(shape))
        ends = facts.elements(node.inputs[2]) if len(node.inputs) > 2 else None
        if changed is not None and len(changed) == 1 and operands[0] == [0] and ends is not None and len(ends) == 1:
            return _until(facts, shape, changed[0], ends[0], operands[3] if len(operands) > 3 else [1]), dtype
        return tuple(
            facts.fresh() if changed is None or axis in changed else dim for axis, dim in enumerate(shape)
        ), dtype
    result = list(shape)
    arrays = [None, *(None if numbers is None else np.array(numbers, np.int64) for numbers in operands)]
    for axis, start, end, step in slice_bounds(Call(facts.version, attrs, arrays), len(shape)):
        dim = shape[axis]
        if is_ambiguous(end, step):
            result[axis] = facts.fresh()
        elif isinstance(dim, int):
            result[axis] = _slice_length(dim, start, end, step)
        elif not (start == 0 and end >= ENDLESS and step == 1):
            result[axis] = facts.fresh()
    return tuple(result), dtype


def _until(facts: Known, shape: Shape, changed: int, end: Dim, steps: list[int] | None) -> Shape:
    """Return the shape of a Slice of one axis from its start to a size."""
    size = shape[changed]
    if steps == [1] and end == size:
        return shape
    is_limited = steps == [1] and isinstance(size, int) and size > 0 and facts.is_size(end)
    length = facts.shortened(end) if is_limited else facts.fresh()
    return tuple(length if axis == changed else dim for axis, dim in enumerate(shape))


def _slice_length(size: int, start: int, end: int, step: int) -> int:
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    if step > 0:
        start, end = min(max(start, 0), size), min(max(end, 0), size)
        return max(0, -((start - end) // step))
    start, end = min(max(start, 0), size - 1), min(max(end, -1), size - 1)
    return max(0, -((end - start) // -step)) if size else 0


def _gather_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if shape is None or indices is None:
        return None, facts.dtype(node.inputs[0])
    axis = axes_of([int(attrs.get("axis", 0))], len(shape))[0]
    return (*shape[:axis], *indices, *shape[axis + 1 :]), facts.dtype(node.inputs[0])


def _expand_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape, target = facts.shape(node.inputs[0]), facts.elements(node.inputs[1])
    dtype = facts.dtype(node.inputs[0])
    target = _unknown_sizes(facts, node.inputs[1]) if target is None else target
    if shape is None or target is None or any(isinstance(dim, int) and dim < 0 for dim in target):
        return None, dtype
    return broadcast([shape, target], facts.fresh), dtype


def _tile_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape = facts.shape(node.inputs[0])
    repeats = facts.elements(node.inputs[1]) if facts.version >= 6 else None
    if shape is not None and repeats is None and facts.version >= 6:
        return tuple(facts.fresh() for _ in shape), facts.dtype(node.inputs[0])
    if shape is None or repeats is None or len(shape) != len(repeats):
        return None
    if any(isinstance(count, int) and count < 0 for count in repeats):
        return None
    dims = [
        dim if count == 1 else dim * count if isinstance(dim, int) and isinstance(count, int) else facts.fresh()
        for dim, count in zip(shape, repeats, strict=True)
    ]
    return tuple(dims), facts.dtype(node.inputs[0])


def _shape_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    shape = facts.shape(node.inputs[0])
    result = (facts.fresh(),) if shape is None else (len(shape[attrs.get("start", 0) : attrs.get("end")]),)
    return result, ir.DataType.INT64


def _size_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    return (), ir.DataType.INT64


def _constant_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    dims = facts.elements(node.inputs[0])
    dtype = attrs["value"].dtype if "value" in attrs else ir.DataType.FLOAT
    if dims is None:
        return _unknown_sizes(facts, node.inputs[0]), dtype
    return None if any(isinstance(dim, int) and dim < 0 for dim in dims) else dims, dtype


def _cast_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    target = facts.dtype(node.inputs[1]) if node.op_type == "CastLike" else ir.DataType(int(attrs["to"]))
    return facts.shape(node.inputs[0]), target


def _range_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    dtype = facts.dtype(node.inputs[0])
    bounds = [facts.elements(value) for value in node.inputs]
    start, limit, delta = (None if bound is None or len(bound) != 1 else bound[0] for bound in bounds)
    if start == 0 and delta == 1 and isinstance(limit, str):
        return (limit,), dtype
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int) and delta:
        return (max(0, -((start - limit) // delta)),), dtype
    return (facts.fresh(),), dtype


def _matmul_shape(facts: Known, node: ir.Node, attrs: Mapping[str, Any]) -> Result:
    left, right = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    batch = broadcast([left[:-2], right[:-2]], facts.fresh) if len(left) > 2 or len(right) > 2 else ()
    return (*batch, left[-2], right[-1]), facts.dtype(node.inputs[0])


SHAPE_RULES: Final[Mapping[str, Callable[[Known, ir.Node, Mapping[str, Any]], Result]]] = {
    "Cast": _cast_shape,
    "CastLike": _cast_shape,
    "Concat": _concat_shape,
    "ConstantOfShape": _constant_shape,
    "Expand": _expand_shape,
    "Gather": _gather_shape,
    "MatMul": _matmul_shape,
    "Range": _range_shape,
    "Reshape": _reshape_shape,
    "Shape": _shape_shape,
    "Size": _size_shape,
    "Slice": _slice_shape,
    "Squeeze": _squeeze_shape,
    "Tile": _tile_shape,
    "Transpose": _transpose_shape,
    "Unsqueeze": _unsqueeze_shape,
}
"""Rules that track symbols, which the inference functions of onnx would lose; they are also faster."""
