"""Types and shapes of results from the inference functions of onnx.

onnx infers some shapes otherwise than the specification and the evaluators compute them. Those are corrected or left
out here. `Facts` has rules of its own for operators that move data.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import onnx
import onnx_ir as ir

from apass.adapters.onnx.rewrites.kernels import Array

__all__ = ["Operand", "infer_results"]

Shape: TypeAlias = tuple[int | str, ...]

Operand: TypeAlias = tuple[ir.DataType, Shape | None, "Array | None"]
"""The type, the shape and the numbers of an operand, as far as they are known."""

Dims: TypeAlias = "list[int | str | None] | None"
"""A shape, or None if its rank is not known. A dimension is a size, a symbol, or None if it is not known."""

_KNOWN_NUMBERS: Final = frozenset({ir.DataType.INT64, ir.DataType.FLOAT})
"""The types of operands whose numbers determine shapes."""


def infer_results(
    node: ir.Node, version: int, operands: Sequence[Operand | None], fresh: Callable[[], str]
) -> list[tuple[Shape | None, ir.DataType] | None]:
    """Return shape and type of each result; None if unknown or not a tensor.

    `fresh` creates the symbol of an unknown dimension.
    """
    message = _node_message(node)
    if message is None:
        return []
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for index, operand in enumerate(operands):
        if operand is None:
            continue
        dtype, shape, numbers = operand
        types[str(index)] = _type_message(dtype, shape)
        if index and numbers is not None and dtype in _KNOWN_NUMBERS:
            data[str(index)] = onnx.numpy_helper.from_array(numbers)
    try:
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        imports = [onnx.helper.make_opsetid(node.domain, version)]
        inferred = onnx.shape_inference.infer_node_outputs(schema, message, types, data, opset_imports=imports)
    except Exception:
        # The inference functions reject invalid nodes with errors of many types.
        return []
    correct = _CORRECTIONS.get(node.op_type) if not node.domain else None
    known = {dim for operand in operands if operand for dim in operand[1] or () if isinstance(dim, str)}
    results: list[tuple[Shape | None, ir.DataType] | None] = []
    for index in range(len(node.outputs)):
        result = inferred.get(f"o{index}")
        if result is None or not result.HasField("tensor_type") or not result.tensor_type.elem_type:
            results.append(None)
            continue
        tensor = result.tensor_type
        dims: Dims = [_dim(dim) for dim in tensor.shape.dim] if tensor.HasField("shape") else None
        if correct is not None:
            attrs = {name: attr.value for name, attr in node.attributes.items()}
            dims = correct(attrs, operands[0][1] if operands and operands[0] else None, dims)
        shape = None if dims is None else tuple(_symbol(dim, known, fresh) for dim in dims)
        results.append((shape, ir.DataType(tensor.elem_type)))
    return results


def _symbol(dim: int | str | None, known: set[str], fresh: Callable[[], str]) -> int | str:
    return dim if isinstance(dim, int) or (dim is not None and dim in known) else fresh()


def _dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) or None


def _type_message(dtype: ir.DataType, shape: Shape | None) -> onnx.TypeProto:
    message = onnx.TypeProto()
    message.tensor_type.elem_type = dtype.value
    if shape is not None:
        message.tensor_type.shape.SetInParent()
        for dim in shape:
            part = message.tensor_type.shape.dim.add()
            if isinstance(dim, int):
                part.dim_value = dim
            else:
                part.dim_param = dim
    return message


def _node_message(node: ir.Node) -> onnx.NodeProto | None:
    """Return the node with numbers as names; None for an attribute with a tensor."""
    message = onnx.NodeProto()
    message.op_type = node.op_type
    message.input.extend("" if value is None else str(index) for index, value in enumerate(node.inputs))
    message.output.extend(f"o{index}" if value.name else "" for index, value in enumerate(node.outputs))
    for attr in node.attributes.values():
        part = message.attribute.add()
        part.name = attr.name
        value: Any = attr.value
        match attr.type:
            case ir.AttributeType.INT:
                part.type, part.i = onnx.AttributeProto.INT, value
            case ir.AttributeType.INTS:
                part.type = onnx.AttributeProto.INTS
                part.ints.extend(value)
            case ir.AttributeType.FLOAT:
                part.type, part.f = onnx.AttributeProto.FLOAT, value
            case ir.AttributeType.FLOATS:
                part.type = onnx.AttributeProto.FLOATS
                part.floats.extend(value)
            case ir.AttributeType.STRINGS:
                part.type = onnx.AttributeProto.STRINGS
                part.strings.extend(text.encode() if isinstance(text, str) else text for text in value)
            case ir.AttributeType.STRING:
                part.type, part.s = onnx.AttributeProto.STRING, value.encode() if isinstance(value, str) else value
            case _:
                return None
    return message


def _pool_dims(attrs: Mapping[str, Any], before: Shape | None, dims: Dims) -> Dims:
    """Leave out the last window of a pool with `ceil_mode` if it starts in padding.

    Dimensions on which the evaluators disagree are left out: those of windows that are larger than the image, and of
    `auto_pad` with dilations or `ceil_mode`.
    """
    if dims is None or before is None:
        return dims
    rank = len(before) - 2
    kernel, dilations = attrs["kernel_shape"], attrs.get("dilations") or [1] * rank
    strides, pads = attrs.get("strides") or [1] * rank, attrs.get("pads") or [0] * 2 * rank
    is_padded_alike = attrs.get("auto_pad", "NOTSET") == "NOTSET" or (
        max(dilations, default=1) == 1 and not attrs.get("ceil_mode", 0)
    )
    result = dims[:2]
    for axis, (size, count) in enumerate(zip(before[2:], dims[2:], strict=True)):
        extent = dilations[axis] * (kernel[axis] - 1) + 1
        result.append(_kept(attrs, size, extent, strides[axis], pads[axis] + pads[axis + rank]))
        if not isinstance(size, int) or not isinstance(count, int):
            continue
        if is_padded_alike and extent <= size + pads[axis] + pads[axis + rank]:
            is_beyond = attrs.get("ceil_mode", 0) and (count - 1) * strides[axis] >= size + pads[axis]
            result[-1] = count - 1 if is_beyond else count
    return result


def _kept(attrs: Mapping[str, Any], size: int | str, extent: int, stride: int, padding: int) -> str | None:
    """Return an unknown size that windows keep, or None."""
    if not isinstance(size, str) or attrs.get("auto_pad", "NOTSET") != "NOTSET":
        return None
    return size if stride == 1 and padding == extent - 1 else None


def _convolved_dims(attrs: Mapping[str, Any], before: Shape | None, dims: Dims) -> Dims:
    """Keep the unknown sizes that a Conv does not change."""
    kernel: Sequence[int] | None = attrs.get("kernel_shape")
    if dims is None or before is None or kernel is None or len(dims) != len(before):
        return dims
    rank = len(kernel)
    dilations, strides = attrs.get("dilations") or [1] * rank, attrs.get("strides") or [1] * rank
    pads = attrs.get("pads") or [0] * 2 * rank
    result = dims[:2]
    for axis, (size, count) in enumerate(zip(before[2:], dims[2:], strict=True)):
        extent = dilations[axis] * (kernel[axis] - 1) + 1
        kept = _kept(attrs, size, extent, strides[axis], pads[axis] + pads[axis + rank])
        result.append(count if kept is None else kept)
    return result


def _transposed_dims(attrs: Mapping[str, Any], before: Shape | None, dims: Dims) -> Dims:
    """Leave out dimensions of a ConvTranspose with `output_shape` or two paddings.

    For the first, onnx may infer another rank.
    """
    has_two = "output_padding" in attrs and attrs.get("auto_pad", "NOTSET") != "NOTSET"
    return None if "output_shape" in attrs or has_two else dims


def _split_dims(attrs: Mapping[str, Any], before: Shape | None, dims: Dims) -> Dims:
    """Leave out the dimensions of a Split that has more parts than elements for them."""
    count = attrs.get("num_outputs", 1)
    if count == 1 or dims is None or before is None:
        return dims
    axis: int = attrs.get("axis", 0)
    size = before[axis]
    return dims if isinstance(size, int) and -(size // -count) * (count - 1) < size else None


def _no_dims(attrs: Mapping[str, Any], before: Shape | None, dims: Dims) -> Dims:
    return None


_CORRECTIONS: Final[Mapping[str, Callable[[Mapping[str, Any], Shape | None, Dims], Dims]]] = {
    "AveragePool": _pool_dims,
    "Conv": _convolved_dims,
    "ConvTranspose": _transposed_dims,
    "Einsum": _no_dims,  # of equal labels, onnx takes the first size, which may be broadcast
    "LpPool": _pool_dims,
    "MaxPool": _pool_dims,
    "NonZero": _no_dims,  # a scalar has no axes for onnx, and one for onnxruntime
    "Split": _split_dims,
}
"""Corrections of onnx 1.23, each found by comparison with onnxruntime and the reference evaluator."""
