"""Conversion of ONNX's protocol buffers: models, attributes, tensors and types."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model

from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.node import AttributeValue
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import Any, Dim, TensorType

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
    """Return a model given as an `onnx.ModelProto`, a path or an `onnx_ir.Model`.

    Raises:
        TypeError: if it is none of them.

    """
    if isinstance(model, onnx.ModelProto):
        return model
    if isinstance(model, str | Path):
        proto = onnx.ModelProto.FromString(Path(model).read_bytes())
        load_external_data_for_model(proto, str(Path(model).parent))
        return proto
    # Compare the module name first: onnx_ir is an optional package, imported only for its own models.
    if type(model).__module__.partition(".")[0] == "onnx_ir":
        import onnx_ir

        if isinstance(model, onnx_ir.Model):
            return onnx_ir.to_proto(model)
    raise TypeError(f"model must be an onnx.ModelProto, a path or an onnx_ir.Model, got {model!r}")


def normal_domain(domain: str) -> str:
    """Return the canonical name of a domain; the default domain has two names."""
    return "" if domain == "ai.onnx" else domain


def dtype_of(elem_type: int) -> str:
    """Return NumPy's name of an element type given as ONNX's enum value.

    Raises:
        OpNotImplementedError: if it is the type of strings.

    """
    if elem_type == onnx.TensorProto.STRING:
        raise OpNotImplementedError("the ONNX model has a tensor of strings, which Relay does not support")
    return str(helper.tensor_dtype_to_np_dtype(elem_type))


def tensor_value(tensor: onnx.TensorProto) -> NDArray:
    """Return the value of a tensor.

    Raises:
        OpNotImplementedError: if it is a tensor of strings.

    """
    return NDArray.of(numpy_helper.to_array(tensor).astype(dtype_of(tensor.data_type), copy=False))


def dense_value(sparse: onnx.SparseTensorProto) -> NDArray:
    """Return the value of a sparse tensor as a dense array."""
    values, indices = numpy_helper.to_array(sparse.values), numpy_helper.to_array(sparse.indices)
    dense = np.zeros(tuple(sparse.dims), values.dtype)
    # ONNX has two layouts: indices into the flat tensor, or one row of coordinates for each value.
    if indices.ndim == 1:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return NDArray.of(dense)


def tensor_type(proto: onnx.TypeProto, shape: Sequence[Dim] | None = None) -> TensorType | None:
    """Return the type of a tensor, or None if it is not a tensor or has no rank.

    Symbolic dimensions become `Any`. If `shape` is given, it replaces the dimensions.
    """
    if not proto.HasField("tensor_type") or (shape is None and not proto.tensor_type.HasField("shape")):
        return None
    dims = (dim.dim_value if dim.HasField("dim_value") else Any() for dim in proto.tensor_type.shape.dim)
    return TensorType(dims if shape is None else shape, dtype_of(proto.tensor_type.elem_type))


def type_proto(ty: TensorType) -> onnx.TypeProto:
    """Return a type as an ONNX protocol buffer."""
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(ty.dtype))
    return helper.make_tensor_type_proto(elem_type, [dim if isinstance(dim, int) else None for dim in ty.shape])


def attribute_value(attribute: AttributeProto) -> AttributeValue | None:
    """Return the value of an attribute, or None for graphs, types, and lists of them."""
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
            return tuple(text.decode(errors="replace") for text in attribute.strings)
        case _:
            return None


def subgraphs_of(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.GraphProto]]:
    """Iterate over the graph attributes of a node, with their names."""
    return ((attribute.name, attribute.g) for attribute in node.attribute if attribute.type == AttributeProto.GRAPH)


def attributes_of(node: onnx.NodeProto, bound: Mapping[str, AttributeProto]) -> dict[str, AttributeProto]:
    """Return the attributes of a node by name.

    In the body of a function, `bound` are the attributes of the call, which nodes may refer to.
    """
    named = {
        attribute.name: bound.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        for attribute in node.attribute
    }
    return {name: attribute for name, attribute in named.items() if attribute is not None}
