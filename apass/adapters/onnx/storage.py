"""Copies, serialization and files of ONNX models.

The functions do not change the models they receive.
"""

import math
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from operator import is_not
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numpy as np
import onnx
import onnx_ir as ir
from onnx.serialization import registry

from apass.adapters.onnx.traversal import (
    TENSOR_TYPES,
    all_graphs,
    attribute_tensors,
    nested_graphs,
    owners,
    tensors_in,
)
from apass.adapters.onnx.validation import (
    MAX_NESTING,
    MAX_TEXT_NESTING,
    check_model,
    check_structure,
    is_text_too_deep,
    kind_of,
    quoted,
)
from apass.errors import AdapterError
from apass.util.files import PartFile, Prepared
from apass.util.text import short_reason

__all__ = [
    "external_files",
    "load_model",
    "model_from_bytes",
    "model_proto",
    "model_to_bytes",
    "private_copy",
    "save_model",
    "with_parts",
]

OwnerT = TypeVar("OwnerT", bound=ir.Graph | ir.Function)
Tensor = ir.TensorProtocol

BIGGEST_MESSAGE: Final = 2**31 - 1
"""Maximum size of a protobuf message in bytes."""

SMALLEST_EXTERNAL: Final = 1024
"""Minimum size in bytes of external data. Smaller initializers stay in the model file."""

_PROTOBUF: Final = "protobuf"
"""The format of most model files."""

_SYNTAX: Final = "onnxtxt"
"""The format of ONNX's own syntax."""

_SMALL: Final = 256
"""Maximum number of elements of a tensor that is kept as a protobuf message, which onnx_ir writes the fastest."""

_PLAIN_DATA: Final[dict[int, tuple[str, str]]] = {
    onnx.TensorProto.FLOAT: ("float_data", "<f4"),
    onnx.TensorProto.DOUBLE: ("double_data", "<f8"),
    onnx.TensorProto.INT32: ("int32_data", "<i4"),
    onnx.TensorProto.INT64: ("int64_data", "<i8"),
}
"""The field with the numbers of a tensor that has no raw data, and their type in raw data."""

_LOCATION: Final = b"location"
"""The key that each reference to external data has."""

_CONVERTED: Final = "apass.tensor"
"""The key in the `meta` of a `TensorProtoTensor` under which its conversion to `ir.Tensor` is cached.

Copies of the tensor are made from that conversion.
"""


def with_parts(model: ir.Model, graph: ir.Graph, functions: Iterable[ir.Function]) -> ir.Model:
    """Return a copy of `model` with another main graph and other functions."""
    result = ir.Model(
        graph,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        domain=model.domain,
        model_version=model.model_version,
        doc_string=model.doc_string,
        functions=list(functions),
        metadata_props=dict(model.metadata_props),
        device_configurations=model.device_configurations,
    )
    cast("dict[str, Any]", result.meta).update(model.meta)
    return result


def private_copy(owner: OwnerT) -> OwnerT:
    """Return a copy that a pass can change in place.

    Only the data of tensors is shared.
    """
    # `clone()` of onnx_ir also shares types and tensors. Inferring a type or renaming an initializer in the copy would
    # therefore change the original.
    result = _clone(owner)
    for value in _values(_map_tensors(result, _copy_tensor)):
        value.type = _copy_type(value.type)
    return result


def model_proto(model: ir.Model, how: Callable[[Tensor], Tensor] | None = None) -> onnx.ModelProto:
    """Return the model as a protobuf message.

    Parameters:
        model: the model.
        how: converts each tensor; by default external data is read into the message.

    Raises:
        AdapterError: if an initializer has no data, or a part cannot be serialized.

    """
    return _proto(model, how, *_data_of(model))


def _proto(
    model: ir.Model, how: Callable[[Tensor], Tensor] | None, initializers: list[ir.Value], tensors: list[Tensor]
) -> onnx.ModelProto:
    """Return the message of a model with these initializers and tensors in attributes."""
    for value in initializers:
        if value.const_value is None:
            raise AdapterError(f"initializer {value.name!r} of the ONNX model has no data; set its const_value")
    if how is not None or not _is_writable(initializers, tensors):
        model = with_parts(model, private_copy(model.graph), map(private_copy, model.functions.values()))
        for owner in owners(model):
            _map_tensors(owner, how or _in_memory)
    try:
        proto = ir.to_proto(model)
    except ir.serde.SerdeError as error:
        raise AdapterError(f"this ONNX model cannot be serialized: {short_reason(_innermost(error))}") from error
    # protobuf omits an empty graph, and the reader would miss it.
    proto.graph.SetInParent()
    for imported in proto.opset_import:
        if not imported.domain:
            # An empty text takes two bytes, which a file without it does not have.
            imported.ClearField("domain")
    _compact(proto.graph)
    return proto


def _compact(graph: onnx.GraphProto) -> None:
    """Write as briefly as exporters do.

    A model would become larger by being read and written: onnx_ir writes the types of initializers, which their data
    has as well, and eight bytes for each integer of a shape.
    """
    graphs = [graph]
    for inner in graphs:  # the list grows in the loop
        known = {tensor.name: tensor for tensor in inner.initializer}
        kept = [info for info in inner.value_info if info.name not in known or info != _type_of(known[info.name])]
        if len(kept) < len(inner.value_info):
            del inner.value_info[:]
            inner.value_info.extend(kept)
        for tensor in inner.initializer:
            _pack(tensor)
        for node in inner.node:
            for attr in node.attribute:
                if attr.HasField("t"):
                    _pack(attr.t)
                if attr.HasField("g"):
                    graphs.append(attr.g)
                graphs += attr.graphs


def _pack(tensor: onnx.TensorProto) -> None:
    """Write a few small integers in one byte each, and no data of an empty tensor."""
    if not tensor.raw_data:
        tensor.ClearField("raw_data")
    elif tensor.data_type == onnx.TensorProto.INT64 and len(tensor.raw_data) <= 8 * _SMALL:
        numbers = np.frombuffer(tensor.raw_data, "<i8").tolist()
        if onnx.TensorProto(int64_data=numbers).ByteSize() < len(tensor.raw_data):
            tensor.ClearField("raw_data")
            tensor.int64_data.extend(numbers)


def _type_of(tensor: onnx.TensorProto) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=tensor.name)
    info.type.tensor_type.elem_type = tensor.data_type
    info.type.tensor_type.shape.SetInParent()
    for size in tensor.dims:
        info.type.tensor_type.shape.dim.add(dim_value=size)
    return info


def _is_writable(initializers: list[ir.Value], tensors: list[Tensor]) -> bool:
    """Return whether onnx_ir would write these as they are, and not change them."""
    for value in initializers:
        tensor = value.const_value
        # onnx_ir gives the tensor of an initializer the name of its value.
        if isinstance(tensor, ir.ExternalTensor) or (tensor is not None and tensor.name != value.name):
            return False
    return not any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)


def _data_of(model: ir.Model) -> tuple[list[ir.Value], list[Tensor]]:
    """Return the initializers, and the tensors in attributes."""
    initializers: list[ir.Value] = []
    tensors: list[Tensor] = []
    for graph in all_graphs(model):
        initializers += graph.initializers.data.values()
        for node in graph:
            for attr in node.attributes.data.values():
                if attr.type in TENSOR_TYPES:
                    tensors += attribute_tensors(attr)
    return initializers, tensors


def model_to_bytes(model: ir.Model) -> bytes:
    """Return the model as one protobuf message that includes external data.

    Raises:
        AdapterError: if `model` is of another type, its message would exceed 2 GB, its external data cannot be read, or
            it cannot be serialized.

    """
    check_model("model_to_bytes", model)
    initializers, tensors = _data_of(model)
    size = sum(tensor.nbytes for tensor in tensors)
    size += sum(value.const_value.nbytes for value in initializers if value.const_value is not None)
    if size > BIGGEST_MESSAGE:
        raise AdapterError(
            f"this ONNX model has {size:,} bytes of weights, but a protobuf message has at most {BIGGEST_MESSAGE:,}; "
            f"save it with save_model, which writes the weights to a separate file"
        )
    data: bytes = _proto(model, None, initializers, tensors).SerializeToString(deterministic=True)
    return data


def model_from_bytes(data: bytes | bytearray | memoryview, source: str = "these bytes") -> ir.Model:
    """Return the model that `model_to_bytes` wrote.

    Parameters:
        data: the bytes.
        source: what messages call them.

    Raises:
        AdapterError: if `data` is not an ONNX model, or refers to external data.

    """
    if not isinstance(data, bytes | bytearray | memoryview):
        is_proto = isinstance(data, onnx.ModelProto)
        hint = "convert it with onnx_ir.from_proto(model)" if is_proto else "for a file, use load_model(path)"
        raise AdapterError(f"model_from_bytes needs the bytes of an ONNX model, got {kind_of(data)}; {hint}")
    data = bytes(data)
    model = _deserialized(data, _PROTOBUF, source)
    # Not only if `data` has the key of a location: a damaged reference lacks it.
    for tensor in _tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            message = f"tensor {quoted(tensor.name)} has its data in a file; load the model with load_model"
            raise AdapterError(f"{source}: {message}")
    return model


def load_model(path: str | os.PathLike[str]) -> ir.Model:
    """Return the model in a file.

    The suffix determines the format. A file with an unknown suffix is read as protobuf (`.onnx`). External data is
    mapped into memory on first access.

    Raises:
        AdapterError: if the file is not an ONNX model, has parts that onnx_ir would discard, or lacks external data.
            The message contains the path.
        OSError: if the file cannot be read.

    """
    path = Path(path)
    model = _deserialized(path.read_bytes(), _format(path), str(path))
    for tensor in _tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            tensor.base_dir = path.parent
            _check_external(tensor, path)
    return model


def external_files(path: Path) -> list[Path]:
    """Return the files with the external data of a model file.

    Errors are those of `load_model`.
    """
    if _LOCATION not in path.read_bytes():
        return []
    tensors = _tensors(load_model(path))
    return sorted({Path(tensor.path) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)})


def save_model(
    model: ir.Model, path: str | os.PathLike[str], prepared: Prepared | None = None, *, external: bool = False
) -> None:
    """Write the model to a file, in the format of its suffix.

    The weights are written to `NAME.data` next to the file if the model has external data, or if it is too large for
    one protobuf message. If `model` itself reads `NAME.data`, the new file is `NAME.1.data`. All files get temporary
    names first, and are renamed at the end.

    Parameters:
        model: the model to write.
        path: the file to write.
        prepared: called before the files are renamed.
        external: whether the weights are written to `NAME.data` in any case.

    Raises:
        AdapterError: if `model` is of another type, its external data cannot be read, or it cannot be serialized.
        OSError: if a file cannot be written. Existing files are then unchanged.

    """
    check_model("save_model", model)
    path = Path(path)
    tensors = list(_tensors(model))
    external = external or any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)
    parts: list[PartFile] = []
    try:
        # The graph itself needs space in the message, too: reserve 16 MiB.
        if external or sum(tensor.nbytes for tensor in tensors) > BIGGEST_MESSAGE - 2**24:
            weights = PartFile(_weights_path(path, tensors))
            parts.append(weights)
            proto = _write_weights(model, weights)
            weights.close()
            if not weights.path.stat().st_size:
                parts.remove(weights)  # all weights are in the model file
                weights.discard()
        else:
            proto = model_proto(model)
        file = PartFile(path)
        parts.append(file)
        file.write(_encoded(proto, path))
        file.close()
        if prepared is not None:
            prepared({part.target: part.path for part in parts})
        # The weights first: the model refers to them.
        for part in parts:
            part.replace()
    finally:
        for part in parts:
            part.discard()


def _clone(owner: OwnerT) -> OwnerT:
    try:
        return cast("OwnerT", owner.clone())
    except RuntimeError:
        # onnx_ir clones only nodes in topological order. Otherwise, copy by serialization, which loses opset imports
        # of graphs and the folders of external data.
        from_proto: Any = ir.from_proto
        try:
            result = from_proto(ir.to_proto(cast("Any", owner)))
        except ir.serde.SerdeError as error:
            raise AdapterError(f"this ONNX model cannot be copied: {short_reason(_innermost(error))}") from error
        result.opset_imports.update(owner.opset_imports)
        for new, old in zip(_tensors_in(result), _tensors_in(owner), strict=True):
            if isinstance(new, ir.ExternalTensor):
                new.base_dir = cast("Any", old).base_dir
        return cast("OwnerT", result)


def _values(graphs: Iterable[ir.Graph]) -> Iterator[ir.Value]:
    """Iterate over all values, without duplicates."""
    for graph in graphs:
        # The default of an input is an initializer with the same value object.
        yield from dict.fromkeys([*graph.inputs, *graph.initializers.values()])
        for node in graph:
            yield from node.outputs


def _tensors(model: ir.Model) -> Iterator[Tensor]:
    for owner in owners(model):
        yield from _tensors_in(owner)


def _tensors_in(owner: ir.Graph | ir.Function) -> Iterator[Tensor]:
    """Iterate over the tensors that a file would contain: initializers and attributes."""
    for graph in nested_graphs(owner):
        yield from tensors_in(graph)


def _map_tensors(owner: ir.Graph | ir.Function, how: Callable[[Tensor], Tensor]) -> list[ir.Graph]:
    """Replace each tensor of a private copy by the result of `how`.

    Returns:
        the graph and the subgraphs of the copy.

    """
    graphs = nested_graphs(owner)
    for graph in graphs:
        # The default of an input is an initializer with the same value object.
        for value in dict.fromkeys([*graph.inputs, *graph.initializers.data.values()]):
            if value.const_value is not None:
                value.const_value = how(value.const_value)
        for node in graph:
            attributes = node.attributes.data
            for name in [name for name, attr in attributes.items() if attr.type in TENSOR_TYPES]:
                attr = attributes[name]
                old = attribute_tensors(attr)
                tensors = tuple(map(how, old))
                if any(map(is_not, tensors, old)):
                    new: Any = tensors[0] if attr.type is ir.AttributeType.TENSOR else tensors
                    attributes[name] = ir.Attr(name, attr.type, new, doc_string=attr.doc_string)
            for value in node.outputs:
                if value.const_value is not None:
                    value.const_value = how(value.const_value)
    return graphs


def _copy_type(tp: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    # Nearly all types are of this class, and the constructor is much faster than `deepcopy`.
    return ir.TensorType(tp.dtype, denotation=tp.denotation) if type(tp) is ir.TensorType else deepcopy(tp)


def _copy_tensor(tensor: Tensor) -> Tensor:
    """Return a copy that shares the data, but not the name."""
    if type(tensor) is ir.TensorProtoTensor:
        # Its name is stored in the protobuf message, which a copy would share.
        if _CONVERTED not in tensor.meta:
            tensor.meta[_CONVERTED] = _converted(tensor)
        tensor = cast("Tensor", tensor.meta[_CONVERTED])
    # Accessing `meta` creates it. The copy then shares it, and with it the cached digest of the data.
    assert tensor.meta is not None
    return copy(tensor)


def _converted(tensor: ir.TensorProtocol) -> Tensor:
    array = tensor.numpy()
    if array.flags.owndata:
        array.flags.writeable = False
    names: dict[str, Any] = {"name": tensor.name, "doc_string": tensor.doc_string}
    return ir.Tensor(array, tensor.dtype, metadata_props=dict(tensor.metadata_props), **names)


def _without_file(tensor: Tensor) -> Tensor:
    """Return a tensor without the message of a file.

    Each part of a message keeps all of it in memory.
    """
    if type(tensor) is not ir.TensorProtoTensor:
        return tensor
    old = tensor.raw
    field, dtype = _PLAIN_DATA.get(old.data_type, ("", ""))
    if not field or math.prod(old.dims) > _SMALL or old.doc_string or old.metadata_props:
        return _converted(tensor)
    data = old.raw_data if old.HasField("raw_data") else np.array(getattr(old, field), dtype).tobytes()
    return ir.TensorProtoTensor(
        onnx.TensorProto(dims=old.dims, data_type=old.data_type, name=old.name or None, raw_data=data)
    )


def _in_memory(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    with _reading(tensor):
        return _converted(tensor)


@contextmanager
def _reading(tensor: Tensor) -> Generator[None]:
    """Raise AdapterError if the external data of a tensor cannot be read in the block."""
    try:
        yield
    except (OSError, ValueError) as error:  # onnx_ir raises ValueError for a file that is too short
        if not isinstance(tensor, ir.ExternalTensor):
            raise
        where = f"tensor {quoted(tensor.name)} has its data in {str(tensor.path)!r}"
        raise AdapterError(f"{where}, which cannot be read: {short_reason(error)}; restore that file") from error


def _deserialized(data: bytes, model_format: str, source: str) -> ir.Model:
    """Return the model in `data`, after checking its structure."""
    # The parser of ONNX's syntax is recursive C++ code, and deep nesting overflows its stack.
    if model_format == _SYNTAX and is_text_too_deep(data):
        raise AdapterError(
            f"{source}: the text has more than {MAX_TEXT_NESTING} nested brackets; flatten its subgraphs"
        )
    try:
        proto = registry.get(model_format).deserialize_proto(data, onnx.ModelProto())
    except Exception as error:
        # The decoder of each format raises errors of other types.
        reason = f"{short_reason(error)} (damaged, or nested deeper than {MAX_NESTING} subgraphs)"
        raise AdapterError(f"{source}: not an ONNX model in the format {model_format!r}: {reason}") from error
    if not proto.HasField("graph") or not proto.ir_version:
        message = f"{source}: not an ONNX model in the format {model_format!r}: the graph or the IR version is missing"
        raise AdapterError(message)
    try:
        check_structure(proto, data if model_format == _PROTOBUF else None)
        _keep_input_types(proto.graph)
        model = ir.from_proto(proto)
        for owner in owners(model):
            _map_tensors(owner, _without_file)
    except AdapterError as error:
        raise AdapterError(f"{source}: {error}") from None
    except Exception as error:
        # Texts are decoded on access, and onnx_ir raises errors of many types.
        raise AdapterError(
            f"{source}: onnx_ir cannot read this ONNX model: {short_reason(_innermost(error))}"
        ) from error
    return model


def _keep_input_types(graph: onnx.GraphProto) -> None:
    """Declare outputs that are inputs as the inputs are declared."""
    # onnx_ir has one value for both, and would take the type of the output, which may have no shape.
    types = {entry.name: entry.type for entry in graph.input}
    for output in graph.output:
        if output.name in types:
            output.type.CopyFrom(types[output.name])
    for attr in (attr for node in graph.node for attr in node.attribute):
        for inner in (*attr.graphs, *([attr.g] if attr.HasField("g") else [])):
            _keep_input_types(inner)


def _check_external(tensor: ir.ExternalTensor, path: Path) -> None:
    """Raise unless a file in the folder of the model has the data of a tensor."""
    where = f"{path}: tensor {quoted(tensor.name)}"
    location = str(cast("Any", tensor).location)
    folder, file = path.parent.resolve(), Path(path.parent, location)
    # A model from elsewhere must not read other files, such as keys, into its results.
    if not location or "\0" in location or folder not in file.resolve().parents:
        reason = "is outside of the folder of the model; move the data there, and change the location"
        raise AdapterError(f"{where} has its data in {quoted(location)}, which {reason}")
    start, length = tensor.offset or 0, tensor.nbytes if tensor.length is None else tensor.length
    if length != tensor.nbytes:
        raise AdapterError(f"{where} needs {tensor.nbytes:,} bytes, but refers to {length:,}; correct its length")
    size = file.stat().st_size if file.is_file() else -1
    if size < start + length:
        state = "does not exist" if size < 0 else f"has {size:,} bytes"
        shown = quoted(str(file))[1:-1]
        raise AdapterError(f"{where} ends at byte {start + length:,} of {shown}, which {state}; restore that file")


def _weights_path(path: Path, tensors: Iterable[Tensor]) -> Path:
    read = {Path(tensor.path).resolve() for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
    candidate, count = path.with_name(f"{path.name}.data"), 0
    while candidate.resolve() in read:
        count += 1
        candidate = path.with_name(f"{path.name}.{count}.data")
    return candidate


def _write_weights(model: ir.Model, weights: PartFile) -> onnx.ModelProto:
    """Write the large tensors to a file.

    Parameters:
        model: the model.
        weights: the file to write.

    Returns:
        the model, with references to that file instead of large tensors.

    """

    def moved(tensor: Tensor) -> Tensor:
        if tensor.nbytes < SMALLEST_EXTERNAL or isinstance(tensor, ir.StringTensor):
            return _in_memory(tensor)
        offset = weights.file.tell()
        with _reading(tensor):
            data = tensor.tobytes()
        weights.write(data)
        length = weights.file.tell() - offset
        fields: Any = {"shape": tensor.shape, "name": tensor.name}
        return ir.ExternalTensor(weights.target.name, offset, length, tensor.dtype, **fields)

    return model_proto(model, moved)


def _format(path: Path) -> str:
    return registry.get_format_from_file_extension(path.suffix.lower()) or _PROTOBUF


def _encoded(proto: onnx.ModelProto, path: Path) -> bytes:
    data: bytes | str = registry.get(_format(path)).serialize_proto(proto)
    return data.encode() if isinstance(data, str) else data


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
