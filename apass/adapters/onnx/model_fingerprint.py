"""Fingerprints of ONNX models and functions, which depend on the contents."""

import hashlib
from array import array
from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Final, cast

import numpy as np
import onnx_ir as ir

__all__ = ["fingerprint", "tensor_digest"]

DIGEST_KEY: Final = "apass.digest"
"""The key in a tensor's `meta` under which the digest of its data is cached.

Copies of a tensor share `meta`. The digest is cached only if the data cannot change.
"""

_QUANTIZATION: Final = "quant_parameter_tensor_names"
"""The key in a value's `meta` of the quantization annotation, which onnx_ir writes to the file."""

Token = tuple[object, ...]


def fingerprint(x: ir.Model | ir.Graph | ir.Function) -> str:
    """Return 32 hex digits that depend only on the contents.

    - The fingerprint depends on names and on the order of nodes.
    - It does not depend on the order of opset imports, metadata, attributes, initializers and functions.
    - It does not depend on how the data of a tensor is stored.

    Data that cannot change, such as that of a loaded file, is read once per tensor. Further fingerprints of large
    models are therefore cheap.
    """
    digest = hashlib.blake2b(digest_size=16)
    for token in _tokens(x):
        digest.update(repr(token).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _tokens(x: ir.Model | ir.Graph | ir.Function) -> Iterator[Token]:
    if isinstance(x, ir.Graph):
        return _graph(x, _items(x.opset_imports))
    return _function(x) if isinstance(x, ir.Function) else _model(x)


def _model(model: ir.Model) -> Iterator[Token]:
    names = (model.producer_name or "", model.producer_version or "", model.domain or "", model.doc_string or "")
    yield "model", model.ir_version, model.model_version or 0, *names, _items(model.metadata_props)
    for configuration in model.device_configurations:
        yield "devices", _bytes(ir.serde.serialize_model_configuration(configuration))
    yield from _graph(model.graph, _items(model.opset_imports))
    for _, function in sorted(model.functions.items()):
        yield from _function(function)


def _function(function: ir.Function) -> Iterator[Token]:
    yield "function", *function.identifier()
    for _, attr in sorted(function.attributes.items()):
        yield from _attribute(attr)
    yield from _graph(function.graph, _items(function.opset_imports))


def _graph(graph: ir.Graph, opset_imports: Token) -> Iterator[Token]:
    yield "graph", graph.name or "", graph.doc_string or "", opset_imports, _items(graph.metadata_props)
    yield "inputs", *(_value(value) for value in graph.inputs)
    for name, value in sorted(graph.initializers.items()):
        yield "initializer", name, _value(value), *(() if value.const_value is None else _tensor(value.const_value))
    for node in graph:
        yield from _node(node)
    yield "outputs", *(_value(value) for value in graph.outputs)


def _node(node: ir.Node) -> Iterator[Token]:
    inputs = tuple(None if value is None else value.name for value in node.inputs)
    outputs = tuple(_value(value) for value in node.outputs)
    texts = (node.domain, node.op_type, node.overload, node.name or "", node.doc_string or "")
    yield "node", texts, inputs, outputs, _items(node.metadata_props) if node.metadata_props else ()
    if node.device_configurations:
        yield "device", _bytes(ir.serde.serialize_node(node))
    for _, attr in sorted(node.attributes.items()):
        yield from _attribute(attr)


def _attribute(attr: ir.Attr) -> Iterator[Token]:
    yield "attribute", attr.name, attr.type.name, attr.ref_attr_name, attr.doc_string or ""
    value: Any = attr.value
    if value is None:
        return
    match attr.type:
        case ir.AttributeType.GRAPH:
            yield from _graph(value, ())
        case ir.AttributeType.GRAPHS:
            for graph in value:
                yield from _graph(graph, ())
        case ir.AttributeType.TENSOR:
            yield value.name or "", _tensor(value)
        case ir.AttributeType.TENSORS:
            yield from ((tensor.name or "", _tensor(tensor)) for tensor in value)
        case ir.AttributeType.FLOAT | ir.AttributeType.FLOATS:
            # A file stores float32, so compare those bits. 0.0 and -0.0 are different.
            yield "floats", _float32(value)
        case ir.AttributeType.TYPE_PROTO | ir.AttributeType.TYPE_PROTOS:
            types = cast("tuple[ir.TypeAndShape, ...]", (value,) if isinstance(value, ir.TypeAndShape) else value)
            yield "types", *((_type(item.type), _shape(item.shape)) for item in types)
        case ir.AttributeType.INT | ir.AttributeType.INTS | ir.AttributeType.STRING | ir.AttributeType.STRINGS:
            yield "value", value
        case _:
            yield "proto", _bytes(ir.serde.serialize_attribute(attr))


def _value(value: ir.Value) -> Token:
    token = (value.name or "", *_type_and_shape(value))
    metadata = _items(value.metadata_props) if value.metadata_props else ()
    quantization: dict[str, str] | None = _meta(value).get(_QUANTIZATION)
    if metadata or quantization or value.doc_string:
        return *token, value.doc_string or "", metadata, _items(quantization or {})
    return token


def _type_and_shape(value: ir.Value) -> Token:
    """Return the type and the shape that a file would store.

    Without a type, the shape is None. For an initializer, the type and the shape default to those of its data.
    """
    tensor = value.const_value if value.is_initializer() else None
    if tensor is not None:
        return _type(value.type) or _type(ir.TensorType(tensor.dtype)), _shape(value.shape or tensor.shape)
    return _type(value.type), None if value.type is None else _shape(value.shape)


def _type(tp: ir.TypeProtocol | None) -> Token | None:
    if tp is None:
        return None
    elem = tp.elem_type
    inner = elem.value if isinstance(elem, ir.DataType) else _type(elem)
    return type(tp).__name__, inner, tp.denotation or ""


def _shape(shape: ir.ShapeProtocol | None) -> Token | None:
    if shape is None:
        return None
    known = cast("ir.Shape", shape)
    dims = tuple(dim if isinstance(dim, int) else (dim.value and str(dim.value),) for dim in known.dims)
    denotations = tuple(known.get_denotation(index) or "" for index in range(len(dims)))
    return (dims, denotations) if any(denotations) else dims


def _tensor(tensor: ir.TensorProtocol) -> Token:
    """Return the contents without the name, which the callers add."""
    notes = (tensor.doc_string or "", _items(tensor.metadata_props) if tensor.metadata_props else ())
    return tensor.dtype.value, tuple(tensor.shape.numpy()), *notes, tensor_digest(tensor)


def tensor_digest(tensor: ir.TensorProtocol) -> str:
    """Return a digest of the data of a tensor, without its type and shape."""
    cached = _meta(tensor).get(DIGEST_KEY)
    if cached is not None:
        return cast("str", cached)
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(tensor, ir.StringTensor):
        digest.update(repr(list(tensor.string_data())).encode())
        return digest.hexdigest()
    digest.update(np.ascontiguousarray(tensor.numpy()).reshape(-1).view(np.uint8).data)
    if _cannot_change(tensor):
        tensor.meta[DIGEST_KEY] = digest.hexdigest()
    return digest.hexdigest()


def _cannot_change(tensor: ir.TensorProtocol) -> bool:
    if not isinstance(tensor, ir.Tensor):
        return isinstance(tensor, ir.TensorProtoTensor | ir.ExternalTensor)
    owner: Any = cast("Any", tensor).raw
    # A read-only view of a writable array can still change, so check each array that it is based on.
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return isinstance(owner, bytes | NoneType)


def _float32(value: float | tuple[float, ...]) -> bytes:
    numbers = value if isinstance(value, tuple) else (value,)
    return array("f", numbers).tobytes()


def _meta(holder: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", holder.meta)


def _items(mapping: Mapping[str, Any]) -> Token:
    return tuple(sorted(mapping.items()))


def _bytes(proto: Any) -> bytes:
    return cast("bytes", proto.SerializeToString(deterministic=True))
