"""The part of a `ForeignPass` that runs in the worker process."""

import logging
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from typing import Any, Final

import numpy as np
import onnx
import onnx_ir as ir

from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.calls import MAX_EXPANDED, expanded_nodes
from apass.adapters.onnx.memory_limit import memory_limit
from apass.adapters.onnx.outputs.evaluation import runtime_session
from apass.adapters.onnx.storage import model_proto, private_copy, with_parts
from apass.errors import AdapterError, ApassError, MissingExtraError, VerifyError
from apass.util.text import short_reason

__all__ = ["Optimizer", "Request", "is_same_computation", "optimize_bytes", "restore"]

_HUGE: Final = 2**62
"""The number of nodes above which messages have a power of two."""

_PLAIN_INITIALIZERS: Final = 4
"""The IR version since which initializers need not be inputs."""


@dataclass(frozen=True, slots=True)
class Optimizer:
    """A function of another library that optimizes a model.

    The function receives a private model, which it may change, and options. It returns the optimized model.
    """

    library: str
    """The name of the library in messages."""
    version: str
    """The version of the library."""
    module: str
    """The module with the function."""
    function: str
    """The name of the function in the module."""
    caution: str = ""
    """What the library may do wrong; part of the message about an invalid result."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments of the function that are not options."""

    def __call__(self, model: ir.Model, options: Mapping[str, Any]) -> ir.Model:
        """Call the function."""
        function: Callable[..., ir.Model] = getattr(import_module(self.module), self.function)
        return function(model, **self.fixed, **options)


@dataclass(frozen=True, slots=True)
class Request:
    """One run of an optimizer."""

    optimizer: Optimizer
    """The optimizer."""
    options: Mapping[str, Any]
    """Its options."""
    memory: int
    """Bytes that the process may allocate."""
    nodes: int
    """Maximum number of nodes in the bodies of functions, counted once for each call."""
    name: str
    """The quoted name of the model, for messages."""


def optimize_bytes(data: bytes, request: Request) -> bytes | None:
    """Return the optimized model, or None if nothing changed.

    Runs in a worker process.

    Raises:
        AdapterError: if the optimizer fails or exceeds a limit.
        VerifyError: if the result is invalid or has other inputs or outputs.

    """
    library = request.optimizer.library
    model = ADAPTER.loads(data)
    # All optimizers expand the calls, or infer the shapes of each call.
    count = expanded_nodes(model)
    if count > request.nodes:
        shown = f"{count:,}" if count < _HUGE else f"about 2^{count.bit_length() - 1}"
        raise AdapterError(
            f"the calls of functions in model {request.name} expand to {shown} nodes, expected at most "
            f"{request.nodes:,}; raise the option max_nodes"
        )
    # The import may need more memory than the model.
    import_module(request.optimizer.module)
    try:
        with memory_limit(request.memory), _quiet():
            result = request.optimizer(_with_hidden_defaults(model), request.options)
    except MemoryError as error:
        raise AdapterError(
            f"{library} needs more than {request.memory:,} bytes of memory for model {request.name}; "
            f"raise the option max_memory ({short_reason(error)})"
        ) from None
    except ApassError:
        raise
    except Exception as error:
        # Optimizers raise errors of many types for models that they do not support.
        raise AdapterError(f"{library} failed on model {request.name}: {short_reason(_innermost(error))}") from None
    restore(model, result)
    if is_same_computation(model, result):
        return None
    _verify(model, result, request.optimizer)
    return ADAPTER.dumps(result)


def restore(before: ir.Model, after: ir.Model) -> None:
    """Change `after` so that it has the inputs, outputs and metadata of `before`.

    - Inputs keep their order, types and default values. Inputs that the optimizer removed are added again.
    - Outputs keep their types.
    - Metadata, documentation and producer of the model, and metadata of graphs, functions, nodes and values are kept.
    - Imports of operator sets that the optimizer added without use are removed.
    """
    for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        setattr(after, name, getattr(before, name))
    after.metadata_props.update(before.metadata_props)
    after.graph.name = before.graph.name
    _restore_inputs(before.graph, after.graph)
    for old, new in zip(before.graph.outputs, after.graph.outputs, strict=False):
        if old.name == new.name and old.type is not None and (new.type is None or old.dtype == new.dtype):
            new.type, new.shape = old.type, old.shape
    functions = dict(ADAPTER.functions(before))
    for name, function in ADAPTER.functions(after):
        if name in functions:
            _restore_texts(functions[name], function)
    used = {node.domain for _, function in ADAPTER.functions(after) for node in function.all_nodes()}
    for domain in list(after.opset_imports):
        if domain not in before.opset_imports and domain not in used:
            del after.opset_imports[domain]
    for domain, version in before.opset_imports.items():
        if domain in used:
            # A pinned node hides its domain, so that the import seems to be unused.
            after.opset_imports.setdefault(domain, version)


def _restore_inputs(before: ir.Graph, after: ir.Graph) -> None:
    by_name = {value.name: value for value in after.inputs}
    taken = {value.name for value in _values(after)}
    inputs: list[ir.Value] = []
    for old in before.inputs:
        if old.name not in by_name and old.name in taken:
            # The optimizer made the input a constant: `_verify` reports the missing input.
            continue
        new = by_name.get(old.name) or ir.Value(name=old.name)
        new.type, new.shape = old.type, old.shape
        new.doc_string = old.doc_string
        inputs.append(new)
        if old.const_value is not None:
            new.const_value = old.const_value
    after.inputs[:] = inputs
    for new in inputs:
        assert new.name is not None
        if new.const_value is not None and new.name not in after.initializers:
            after.initializers[new.name] = new


def _restore_texts(before: Any, after: Any) -> None:
    """Copy the texts of a graph or a function, its nodes and its values."""
    _add_texts(before, after)
    values = {value.name: value for value in _values(before)}
    nodes = {node.outputs[0].name: node for node in before if node.outputs}
    for value in _values(after):
        if value.name in values:
            _add_texts(values[value.name], value)
            meta: Any = value.meta
            meta.update(values[value.name].meta)
    for node in after:
        old = nodes.get(node.outputs[0].name) if node.outputs else None
        if old is not None and old.op_identifier() == node.op_identifier():
            _add_texts(old, node)
            _add_default_attributes(old, node, after.opset_imports.get(node.domain))


def _add_default_attributes(before: ir.Node, after: ir.Node, version: int | None) -> None:
    """Add the attributes that were removed because they have the default value."""
    # Without them, ONNX's reference evaluator uses the default of the newest version of Softmax for older ones, too.
    removed = [attr for name, attr in before.attributes.items() if name not in after.attributes]
    if not removed or version is None or not onnx.defs.has(before.op_type, domain=before.domain):
        return
    schema = onnx.defs.get_schema(before.op_type, version, before.domain)
    for attr in removed:
        known = schema.attributes.get(attr.name)
        if known is not None and not attr.is_ref() and ir.serde.serialize_attribute(attr) == known.default_value:
            after.attributes[attr.name] = attr


def _add_texts(before: Any, after: Any) -> None:
    after.metadata_props.update(before.metadata_props)
    after.doc_string = after.doc_string or before.doc_string


def _values(owner: Any) -> Iterable[ir.Value]:
    yield from owner.inputs
    yield from getattr(owner, "initializers", {}).values()
    for node in owner:
        yield from node.outputs


def _with_hidden_defaults(model: ir.Model) -> ir.Model:
    """Return a private copy whose inputs have no default values.

    Optimizers take the default of an input for a constant, but callers can override it. The copy has an IR version in
    which initializers need not be inputs.
    """
    graph = private_copy(model.graph)
    for value in graph.inputs:
        if value.is_initializer():
            graph.initializers.pop(str(value.name))
            value.const_value = None
    result = with_parts(model, graph, map(private_copy, model.functions.values()))
    result.ir_version = max(result.ir_version or 0, _PLAIN_INITIALIZERS)
    return result


def is_same_computation(before: ir.Model, after: ir.Model) -> bool:
    """Return whether two models compute the same with the same nodes.

    Names of nodes, texts, inferred types and versions may differ.
    """
    return ADAPTER.equal(_core(before), _core(after))


def _core(model: ir.Model) -> ir.Model:
    """Return a copy without all that does not affect the computation."""
    graph = private_copy(model.graph)
    functions = [private_copy(function) for function in model.functions.values()]
    interface = {id(value) for value in (*graph.inputs, *graph.outputs)}
    owners: list[Any] = [graph, *functions]
    for owner in [*owners, *chain.from_iterable(owner.subgraphs() for owner in owners)]:
        owner.doc_string = None
        owner.metadata_props.clear()
        for value in _values(owner):
            value.doc_string = None
            value.metadata_props.clear()
            if id(value) not in interface:
                value.type = value.shape = None
        for node in owner:
            node.name = node.doc_string = None
            node.metadata_props.clear()
    used = {node.domain for owner in owners for node in owner.all_nodes()}
    imports = {domain: version for domain, version in model.opset_imports.items() if domain in used}
    graph.opset_imports.clear()
    graph.opset_imports.update(imports)
    return ir.Model(graph, ir_version=0, functions=functions)


def _verify(before: ir.Model, after: ir.Model, optimizer: Optimizer) -> None:
    expected, actual = _interface(before), _interface(after)
    if expected != actual:
        raise VerifyError(
            f"{optimizer.library} changed the inputs and outputs of the model from {expected} to {actual}"
        )
    for find_fault in (_fault, _wrong_type, _refusal):
        error = find_fault(after)
        # If the input had such a fault too, the optimizer is not the cause.
        if error is not None and find_fault(before) is None:
            hint = f" ({optimizer.caution[0].lower()}{optimizer.caution[1:]})" if optimizer.caution else ""
            raise VerifyError(f"{optimizer.library} returned an invalid model for a valid one{hint}: {error}")


def _fault(model: ir.Model) -> str | None:
    """Return why a model is invalid."""
    try:
        ADAPTER.verify(model)
    except VerifyError as error:
        return str(error)
    return None


def _wrong_type(model: ir.Model) -> str | None:
    """Return why the type of a value in a model is invalid."""
    try:
        if expanded_nodes(model) <= MAX_EXPANDED:
            onnx.shape_inference.infer_shapes(model_proto(model), check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        return short_reason(error)
    return None


def _refusal(model: ir.Model) -> str | None:
    """Return why onnxruntime, where it is installed, does not load a model."""
    data = ADAPTER.dumps(model)
    if len(data) > onnx.checker.MAXIMUM_PROTOBUF:
        return None
    try:
        session = runtime_session(data, "ORT_DISABLE_ALL")
    except MissingExtraError:
        return None
    except Exception as error:  # its errors are of types that only onnxruntime defines
        return f"onnxruntime does not load it: {short_reason(error)}"
    found = [value.name for value in session.get_outputs()]
    expected = [value.name for value in model.graph.outputs]
    return None if found == expected else f"its outputs in onnxruntime are {found}, expected {expected}"


def _interface(model: ir.Model) -> str:
    inputs, outputs = (
        [(value.name, str(value.type)) for value in values] for values in (model.graph.inputs, model.graph.outputs)
    )
    return f"{inputs} -> {outputs}"


def _innermost(error: Exception) -> Exception:
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


@contextmanager
def _quiet() -> Generator[None]:
    """Ignore logs, and the warnings of numpy about invalid values."""
    level = logging.root.manager.disable
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(level)
