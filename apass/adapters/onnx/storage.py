"""ONNX models as private copies, as bytes and as files; none of it changes the model that it is given."""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from copy import copy, deepcopy
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import onnx
import onnx_ir as ir
from onnx.serialization import registry

from apass.errors import AdapterError
from apass.util.files import Prepared

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
"""Bytes that a protobuf message can have."""

SMALLEST_EXTERNAL: Final = 1024
"""In a model with external data, initializers with fewer bytes than this stay in the model file."""

_CONVERTED: Final = "apass.tensor"
"""Where in the `meta` of a tensor that is a protobuf message the tensor is kept that copies are made of."""


def with_parts(model: ir.Model, graph: ir.Graph, functions: Iterable[ir.Function]) -> ir.Model:
    """Return a model of these parts, and all else as in `model`."""
    made = ir.Model(
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
    cast("dict[str, Any]", made.meta).update(model.meta)
    return made


def private_copy(owner: OwnerT) -> OwnerT:
    """Return a copy that shares nothing that a pass may change in place: only the data of tensors is shared.

    `clone()` of onnx_ir shares types and tensors as well, so that inferring a type or renaming an initializer would
    change the original.
    """
    made = _clone(owner)
    for value in _map_tensors(made, _own):
        value.type = _own_type(value.type)
    return made


def model_proto(model: ir.Model, how: Callable[[Tensor], Tensor] | None = None) -> onnx.ModelProto:
    """Return the model as a protobuf message, each tensor as `how` gives it; by default with all data in it.

    Raises:
        AdapterError: if an initializer has no data, or a part cannot be written.

    """
    for graph in chain.from_iterable(map(_graphs, _owners(model))):
        for name, value in graph.initializers.items():
            if value.const_value is None:
                raise AdapterError(f"initializer {name!r} of the ONNX model has no data")
    made = with_parts(model, private_copy(model.graph), map(private_copy, model.functions.values()))
    for owner in _owners(made):
        _map_tensors(owner, how or _in_memory)
    try:
        return ir.to_proto(made)
    except ir.serde.SerdeError as error:
        raise AdapterError(f"this ONNX model cannot be written: {_innermost(error)}") from error


def model_to_bytes(model: ir.Model) -> bytes:
    """Return the model as one protobuf message, external data and all; AdapterError if it is more than 2 GB."""
    size = sum(tensor.nbytes for tensor in _tensors(model))
    if size > BIGGEST_MESSAGE:
        raise AdapterError(
            f"this ONNX model has {size:,} bytes of weights, and a protobuf message can have {BIGGEST_MESSAGE:,}; "
            f"save it with save_model, which puts the weights in a file of their own"
        )
    data: bytes = model_proto(model).SerializeToString(deterministic=True)
    return data


def model_from_bytes(data: bytes) -> ir.Model:
    """Return the model that `data` holds; AdapterError if it is none."""
    return _model_of(data, "protobuf", "these bytes")


def load_model(path: str | os.PathLike[str]) -> ir.Model:
    """Return the model in a file; its format goes by the suffix, and is protobuf (`.onnx`) if that says nothing.

    External data is not read but mapped into memory when it is asked for.

    Raises:
        AdapterError: naming the file, if it holds no ONNX model, or one that onnx_ir would lose a part of, or if its
            external data is not there.
        OSError: if the file cannot be read.

    """
    path = Path(path)
    model = _model_of(path.read_bytes(), _format(path), str(path))
    for tensor in _tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            tensor.base_dir = path.parent
            _check_external(tensor, path)
    return model


def external_files(path: Path) -> list[Path]:
    """Return the files of weights that a model in a file has beside it; errors are those of `load_model`."""
    if b"location" not in path.read_bytes():
        return []  # the key that names such a file
    tensors = _tensors(load_model(path))
    return sorted({Path(tensor.path) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)})


def save_model(model: ir.Model, path: str | os.PathLike[str], prepared: Prepared | None = None) -> None:
    """Write the model to a file, in the format that its suffix says; it is written beside and renamed.

    A model with external data, or with more than a protobuf message can hold, gets a file of weights `NAME.data` next
    to it. A file of weights that `model` itself still reads is never overwritten: the new one is then `NAME.1.data`.
    Before anything is renamed, `prepared` is told.

    Raises:
        AdapterError: if the model cannot be written.
        OSError: if a file cannot be written; those that were there are then as they were.

    """
    path = Path(path)
    tensors = list(_tensors(model))
    external = any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)
    beside = _beside(path)
    weights: tuple[Path, Path] | None = None
    try:
        if external or sum(tensor.nbytes for tensor in tensors) > BIGGEST_MESSAGE - 2**24:
            target = _weights_path(path, tensors)
            weights = _beside(target), target
            proto = _proto_beside_weights(model, *weights)
            if not weights[0].stat().st_size:
                weights[0].unlink()
                weights = None  # all of them are small enough for the model file
        else:
            proto = model_proto(model)
        beside.write_bytes(_encoded(proto, path))
        if prepared is not None:
            prepared({path: beside} if weights is None else {path: beside, weights[1]: weights[0]})
        if weights is not None:
            weights[0].replace(weights[1])
        beside.replace(path)
    finally:
        for left in (beside, *(weights or ())[:1]):
            left.unlink(missing_ok=True)


def _clone(owner: OwnerT) -> OwnerT:
    try:
        return cast("OwnerT", owner.clone())
    except RuntimeError:
        # onnx_ir clones only what is in topological order.
        read: Any = ir.from_proto
        made = read(ir.to_proto(cast("Any", owner)))
        made.opset_imports.update(owner.opset_imports)
        for new, old in zip(_tensors_in(made), _tensors_in(owner), strict=True):
            if isinstance(new, ir.ExternalTensor):
                new.base_dir = cast("Any", old).base_dir
        return cast("OwnerT", made)


def _owners(model: ir.Model) -> Iterator[ir.Graph | ir.Function]:
    yield model.graph
    yield from model.functions.values()


def _graphs(owner: ir.Graph | ir.Function) -> Iterator[ir.Graph]:
    yield owner.graph if isinstance(owner, ir.Function) else owner
    yield from owner.subgraphs()


def _values(graphs: Iterable[ir.Graph]) -> Iterator[ir.Value]:
    """Go over all values, each once: of an input that has a default the initializer is the same value."""
    for graph in graphs:
        yield from dict.fromkeys([*graph.inputs, *graph.initializers.values()])
        for node in graph:
            yield from node.outputs


def _tensors(model: ir.Model) -> Iterator[Tensor]:
    for owner in _owners(model):
        yield from _tensors_in(owner)


def _tensors_in(owner: ir.Graph | ir.Function) -> Iterator[Tensor]:
    """Go over the tensors that a file would hold: of initializers and of attributes."""
    for graph in _graphs(owner):
        yield from (value.const_value for value in graph.initializers.values() if value.const_value is not None)
        for node in graph:
            for attr in node.attributes.values():
                yield from _attribute_tensors(attr)


def _attribute_tensors(attr: ir.Attr) -> tuple[Tensor, ...]:
    if attr.value is None or attr.type not in (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS):
        return ()
    return (attr.value,) if attr.type is ir.AttributeType.TENSOR else cast("tuple[Tensor, ...]", attr.value)


def _map_tensors(owner: ir.Graph | ir.Function, how: Callable[[Tensor], Tensor]) -> list[ir.Value]:
    """Put what `how` returns in the place of each tensor of a private copy; return the values of the copy."""
    graphs = list(_graphs(owner))
    values = list(_values(graphs))
    for value in values:
        if value.const_value is not None:
            value.const_value = how(value.const_value)
    for node in chain.from_iterable(graphs):
        for name, attr in list(node.attributes.items()):
            tensors = tuple(map(how, _attribute_tensors(attr)))
            if tensors:
                new: Any = tensors[0] if attr.type is ir.AttributeType.TENSOR else tensors
                node.attributes[name] = ir.Attr(name, attr.type, new, doc_string=attr.doc_string)
    return values


def _own_type(tp: ir.TypeProtocol | None) -> ir.TypeProtocol | None:
    # Nearly all are of this class, and a copy by hand is much faster.
    return ir.TensorType(tp.dtype, denotation=tp.denotation) if type(tp) is ir.TensorType else deepcopy(tp)


def _own(tensor: Tensor) -> Tensor:
    """Return a tensor of the same data with a name of its own."""
    if isinstance(tensor, ir.TensorProtoTensor):
        # Its name is in the message, which a copy would share.
        if _CONVERTED not in tensor.meta:
            tensor.meta[_CONVERTED] = _converted(tensor)
        tensor = cast("Tensor", tensor.meta[_CONVERTED])
    # Made here, so that the copy shares it: what is found out about the data is kept there.
    assert tensor.meta is not None
    return copy(tensor)


def _converted(tensor: ir.TensorProtocol) -> Tensor:
    array = tensor.numpy()
    if array.flags.owndata:
        array.flags.writeable = False
    own: dict[str, Any] = {"name": tensor.name, "doc_string": tensor.doc_string}
    return ir.Tensor(array, tensor.dtype, metadata_props=dict(tensor.metadata_props), **own)


def _in_memory(tensor: Tensor) -> Tensor:
    return _converted(tensor) if isinstance(tensor, ir.ExternalTensor) else tensor


def _model_of(data: bytes, form: str, what: str) -> ir.Model:
    try:
        proto = registry.get(form).deserialize_proto(data, onnx.ModelProto())
    except Exception as error:  # each format's decoder has errors of its own
        raise AdapterError(f"{what}: no ONNX model in the format {form!r}: {error}") from error
    if not proto.HasField("graph") or not proto.ir_version:
        raise AdapterError(f"{what}: no ONNX model in the format {form!r}: it has no graph or no IR version")
    for part in _lost_parts(proto):
        raise AdapterError(f"{what}: the model has {part}, which onnx_ir does not keep; it would be lost")
    try:
        model = ir.from_proto(proto)
    except (ir.serde.SerdeError, ValueError) as error:
        raise AdapterError(f"{what}: onnx_ir cannot read this ONNX model: {_innermost(error)}") from error
    for owner in _owners(model):
        _map_tensors(owner, _own)
    return model


def _lost_parts(proto: onnx.ModelProto) -> Iterator[str]:
    if proto.training_info:
        yield "training information"
    graphs = [proto.graph]
    while graphs:
        graph = graphs.pop()
        if graph.sparse_initializer:
            yield f"sparse initializers in graph {graph.name!r}"
        for node in graph.node:
            for attr in node.attribute:
                graphs += [*attr.graphs, *([attr.g] if attr.HasField("g") else ())]


def _check_external(tensor: ir.ExternalTensor, path: Path) -> None:
    file = Path(tensor.path)
    wanted = (tensor.offset or 0) + (tensor.length or tensor.nbytes)
    size = file.stat().st_size if file.is_file() else -1
    if size < wanted:
        state = "is not there" if size < 0 else f"has {size:,} bytes"
        raise AdapterError(f"{path}: tensor {tensor.name!r} is {wanted:,} bytes into {file}, which {state}")


def _weights_path(path: Path, tensors: Iterable[Tensor]) -> Path:
    read = {Path(tensor.path).resolve() for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
    candidate, count = path.with_name(f"{path.name}.data"), 0
    while candidate.resolve() in read:
        count += 1
        candidate = path.with_name(f"{path.name}.{count}.data")
    return candidate


def _proto_beside_weights(model: ir.Model, beside: Path, target: Path) -> onnx.ModelProto:
    """Write the big tensors to `beside`, and return the model with places in `target` in their stead."""
    with beside.open("xb") as file:

        def put(tensor: Tensor) -> Tensor:
            if tensor.nbytes < SMALLEST_EXTERNAL or isinstance(tensor, ir.StringTensor):
                return _in_memory(tensor)
            offset = file.tell()
            file.write(tensor.tobytes())
            place: Any = {"shape": tensor.shape, "name": tensor.name}
            return ir.ExternalTensor(target.name, offset, file.tell() - offset, tensor.dtype, **place)

        return model_proto(model, put)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def _format(path: Path) -> str:
    return registry.get_format_from_file_extension(path.suffix) or "protobuf"


def _encoded(proto: onnx.ModelProto, path: Path) -> bytes:
    data: bytes | str = registry.get(_format(path)).serialize_proto(proto)
    return data.encode() if isinstance(data, str) else data


def _innermost(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
