"""What is read from ONNX's own messages: models, attributes, tensors and types."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.node import AttributeValue
from apass.relay.ir.ndarray import NDArray
from apass.relay.ty import Any, Dim, TensorType

__all__ = [
    "attribute_value",
    "attributes_of",
    "dense_value",
    "dtype_of",
    "load_model",
    "normal_domain",
    "subgraphs_of",
    "tensor_type",
    "tensor_value",
    "type_proto",
]


def load_model(model: object) -> onnx.ModelProto:
    """Return a model that is given as itself, as the path of a file, or as an `onnx_ir.Model`.

    Raises:
        TypeError: if it is none of these.

    """
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, str | Path):
        proto = onnx.ModelProto.FromString(Path(model).read_bytes())
        load_external_data_for_model(proto, str(Path(model).parent))
        return proto
    if type(model).__module__.partition(".")[0] == "onnx_ir":
        import onnx_ir

        if isinstance(model, onnx_ir.Model):
            return onnx_ir.to_proto(model)
    raise TypeError(f"from_onnx takes an onnx.ModelProto, a path or an onnx_ir.Model, not {model!r}")


def normal_domain(domain: str) -> str:
    """Return the name of a domain; the default one has two."""
    return "" if domain == "ai.onnx" else domain


def dtype_of(elem_type: int) -> str:
    """Return the element type that ONNX's number stands for, in numpy's spelling.

    Raises:
        OpNotImplementedError: if it is that of strings.

    """
    if elem_type == onnx.TensorProto.STRING:
        raise OpNotImplementedError("the ONNX model has a tensor of strings, which Relay has no type for")
    return str(helper.tensor_dtype_to_np_dtype(elem_type))


def tensor_value(tensor: onnx.TensorProto) -> NDArray:
    """Return the value of a tensor; OpNotImplementedError if it is of strings."""
    return NDArray.of(numpy_helper.to_array(tensor).astype(dtype_of(tensor.data_type), copy=False))


def dense_value(sparse: onnx.SparseTensorProto) -> NDArray:
    """Return the value of a sparse tensor, with the zeros in it."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return NDArray.of(dense)


def tensor_type(proto: onnx.TypeProto, shape: Sequence[Dim] | None = None) -> TensorType | None:
    """Return the type of a tensor, dimensions that are not numbers as Any, unless `shape` is given in their place.

    None if it is no tensor, or has no rank.
    """
    if not proto.HasField("tensor_type") or (shape is None and not proto.tensor_type.HasField("shape")):
        return None
    stated = (dim.dim_value if dim.HasField("dim_value") else Any() for dim in proto.tensor_type.shape.dim)
    return TensorType(stated if shape is None else shape, dtype_of(proto.tensor_type.elem_type))


def type_proto(ty: TensorType) -> onnx.TypeProto:
    """Return a type as ONNX's message."""
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(ty.dtype))
    return helper.make_tensor_type_proto(elem_type, [dim if isinstance(dim, int) else None for dim in ty.shape])


def attribute_value(attribute: AttributeProto) -> AttributeValue | None:
    """Return the value of an attribute; None if it is a graph, a type, or a list of them."""
    match attribute.type:
        case AttributeProto.INT:
            return attribute.i
        case AttributeProto.FLOAT:
            return attribute.f
        case AttributeProto.STRING:
            return attribute.s.decode(errors="replace")
        case AttributeProto.TENSOR:
            return tensor_value(attribute.t).numpy()
        case AttributeProto.SPARSE_TENSOR:
            return dense_value(attribute.sparse_tensor).numpy()
        case AttributeProto.INTS:
            return tuple(attribute.ints)
        case AttributeProto.FLOATS:
            return tuple(attribute.floats)
        case AttributeProto.STRINGS:
            return tuple(one.decode(errors="replace") for one in attribute.strings)
        case _:
            return None


def subgraphs_of(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Go over the graphs that are attributes of a node, by the names of the attributes."""
    return ((one.name, one.g) for one in node.attribute if one.type == AttributeProto.GRAPH)


def attributes_of(node: onnx.NodeProto, bound: Mapping[str, AttributeProto]) -> dict[str, AttributeProto]:
    """Return the attributes of a node by name; in a function, `bound` are those of the call of it."""
    named = {one.name: bound.get(one.ref_attr_name) if one.ref_attr_name else one for one in node.attribute}
    return {name: one for name, one in named.items() if one is not None}
