"""Fingerprints of ONNX models and functions, which depend on the contents."""

import hashlib
import marshal
from array import array
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, Final, cast

import numpy as np
import onnx_ir as ir

__all__ = ["contents_of_attribute", "fingerprint", "tensor_digest"]

DIGEST_KEY: Final = "apass.digest"
"""The key in a tensor's `meta` under which the digest of its data is cached.

Copies of a tensor share `meta`. The digest is cached only if the data cannot change.
"""

_QUANTIZATION: Final = "quant_parameter_tensor_names"
"""The key in a value's `meta` of the quantization annotation, which onnx_ir writes to the file."""

_SMALL: Final = 256
"""Tensors with fewer elements are part of a fingerprint as they are: a digest, even a cached one, takes longer."""

Token = tuple[object, ...]


def _reader(kind: type, *names: str) -> Callable[[Any], Any]:
    """Return a function that reads attributes of an object of onnx_ir.

    It reads slots, if there are such: the properties of onnx_ir create `meta` and `metadata_props` on first access. For
    the values of a model, that takes as long as the rest of a fingerprint.
    """
    slots = {name: "_metadata" if name == "meta" else f"_{name}" for name in names}
    return attrgetter(*(slot if hasattr(kind, slot) else name for name, slot in slots.items()))


_of_node: Final = _reader(
    ir.Node,
    "domain",
    "op_type",
    "overload",
    "name",
    "doc_string",
    "inputs",
    "outputs",
    "attributes",
    "metadata_props",
    "device_configurations",
)
_of_value: Final = _reader(ir.Value, "name", "type", "shape", "doc_string", "metadata_props", "meta", "const_value")
_of_attribute: Final = _reader(ir.Attr, "name", "type", "value", "ref_attr_name", "doc_string")
_of_tensor: Final = _reader(ir.Tensor, "dtype", "shape", "doc_string", "metadata_props")


def fingerprint(x: ir.Model | ir.Graph | ir.Function) -> str:
    """Return 32 hex digits that depend only on the contents.

    - The fingerprint depends on names and on the order of nodes.
    - It does not depend on the order of opset imports, metadata, attributes, initializers and functions.
    - It does not depend on how the data of a tensor is stored.

    Data that cannot change, such as that of a loaded file, is read once per tensor. Further fingerprints of large
    models are therefore cheap.
    """
    return _digest(_tokens(x))


def _digest(tokens: Iterator[Token]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for token in tokens:
        digest.update(_encoded(token))
    return digest.hexdigest()


def _encoded(token: Token) -> bytes:
    """Return bytes that differ for different tokens, and are equal in all processes."""
    try:
        # Three times as fast as `repr`. Later formats of `marshal` depend on which objects are shared.
        return marshal.dumps(cast("Any", token), 2)
    except ValueError:  # a subclass of str or int, such as a scalar of numpy
        return repr(token).encode("utf-8", "surrogatepass")


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
    # `data` is the dict itself: the views of a UserDict run Python code for each item.
    yield from (_attribute(attr) for _, attr in sorted(function.attributes.data.items()))
    yield from _graph(function.graph, _items(function.opset_imports))


def _graph(graph: ir.Graph, opset_imports: Token) -> Iterator[Token]:
    yield "graph", graph.name or "", graph.doc_string or "", opset_imports, _items(graph.metadata_props)
    yield "inputs", [_value(value) for value in graph.inputs]
    initializers = graph.initializers.data
    for name in sorted(initializers):
        value = initializers[name]
        tensor = value.const_value
        described = None if value.is_graph_input() else _value(value)
        yield "initializer", name, described, None if tensor is None else _tensor(tensor)
    yield from map(_node, graph)
    yield "outputs", [_value(value) for value in graph.outputs]


def _node(node: ir.Node) -> Token:
    domain, op_type, overload, name, doc, inputs, outputs, attributes, props, devices = _of_node(node)
    named = attributes.data
    return (
        "node",
        domain,
        op_type,
        overload,
        name or "",
        doc or "",
        [None if value is None else value.name for value in inputs],
        [_value(value) for value in outputs],
        [_attribute(named[name]) for name in sorted(named)] if named else None,
        _items(props) if props else None,
        _bytes(ir.serde.serialize_node(node)) if devices else None,
    )


def _attribute(attr: ir.Attr) -> Token:
    name, kind, value, ref_name, doc = _of_attribute(attr)
    if value is not None and kind not in _PLAIN:
        value = _attribute_value(attr, kind)
    return name, int(kind), ref_name, doc or "", value


def contents_of_attribute(attr: ir.Attr) -> str:
    """Return a digest of the contents of an attribute."""
    return _digest(iter((_attribute(attr),)))


def _attribute_value(attr: ir.Attr, kind: ir.AttributeType) -> object:
    value: Any = attr.value
    match kind:
        case ir.AttributeType.TENSOR:
            return value.name or "", _tensor(value)
        case ir.AttributeType.FLOAT | ir.AttributeType.FLOATS:
            # A file stores float32, so compare those bits. 0.0 and -0.0 are different.
            return _float32(value)
        case ir.AttributeType.GRAPH:
            return _digest(_graph(value, ()))
        case ir.AttributeType.GRAPHS:
            return [_digest(_graph(graph, ())) for graph in value]
        case ir.AttributeType.TENSORS:
            return [(tensor.name or "", _tensor(tensor)) for tensor in value]
        case ir.AttributeType.TYPE_PROTO | ir.AttributeType.TYPE_PROTOS:
            types = cast("tuple[ir.TypeAndShape, ...]", (value,) if isinstance(value, ir.TypeAndShape) else value)
            return [(_type(item.type), _shape(item.shape)) for item in types]
        case _:
            return _bytes(ir.serde.serialize_attribute(attr))


_PLAIN: Final = (ir.AttributeType.INTS, ir.AttributeType.INT, ir.AttributeType.STRING, ir.AttributeType.STRINGS)
"""Types of attributes whose values are integers, texts, or tuples of these."""


def _value(value: ir.Value) -> object:
    name, tp, shape, doc, props, meta, tensor = _of_value(value)
    if tensor is not None and value.is_initializer():
        # A file would store these.
        tp, shape = tp or ir.TensorType(tensor.dtype), shape or tensor.shape
    quantization: dict[str, str] | None = meta.data.get(_QUANTIZATION) if meta else None
    has_more = props or quantization or doc
    more = (doc or "", _items(props or {}), _items(quantization or {})) if has_more else None
    # Without a type, a file has no shape.
    if tp is None:
        return (name or "", *more) if more else name or ""
    return name or "", _type(tp), _shape(shape), more


def _type(tp: ir.TypeProtocol | None) -> Token | None:
    if tp is None:
        return None
    if type(tp) is ir.TensorType:
        return int(tp.dtype), tp.denotation or ""
    elem = tp.elem_type
    inner = int(elem) if isinstance(elem, ir.DataType) else _type(elem)
    return type(tp).__name__, inner, tp.denotation or ""


def _shape(shape: ir.ShapeProtocol | None) -> Token | None:
    if shape is None:
        return None
    known = cast("ir.Shape", shape)
    dims = [dim if isinstance(dim, int) else (dim.value,) for dim in known.dims]
    if any(map(known.get_denotation, range(len(dims)))):
        return dims, [known.get_denotation(index) or "" for index in range(len(dims))]
    return (dims,)


def _tensor(tensor: ir.TensorProtocol) -> Token:
    """Return the contents without the name, which the callers add."""
    if type(tensor) is ir.Tensor:
        dtype, shape, doc, props = _of_tensor(tensor)
        data = tensor.numpy()
        small = data if data.size < _SMALL else None
    else:
        dtype, shape, doc, props = tensor.dtype, tensor.shape, tensor.doc_string, tensor.metadata_props
        is_small = tensor.size < _SMALL and not isinstance(tensor, ir.StringTensor)
        small = tensor.numpy() if is_small else None
    contents = tensor_digest(cast("Any", tensor)) if small is None else small.tobytes()
    return int(dtype), shape.dims, contents, doc or "", _items(props) if props else None


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
