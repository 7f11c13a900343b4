"""The adapter for ONNX models (`onnx_ir.Model`).

The functions of a model are its main graph and its model-local functions.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias

from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, MissingExtraError, VerifyError
from apass.util.late_modules import imported_late

try:
    # onnx_ir uses sympy for the arithmetic of symbolic dimensions only. It takes as long to import as all the rest.
    with imported_late("sympy", "onnx_ir._symbolic_shapes"):
        import onnx
        import onnx_ir as ir
except ImportError as _error:
    raise MissingExtraError(f"ONNX models need onnx and onnx-ir ({_error}): pip install 'apass[onnx]'") from _error

from apass.adapters.nodes import Node
from apass.adapters.onnx.calls import MAX_EXPANDED, expanded_nodes, function_name
from apass.adapters.onnx.model_fingerprint import fingerprint, tensor_digest
from apass.adapters.onnx.nodes import function_nodes, with_metadata
from apass.adapters.onnx.reductions import Change, inner_nodes, leave_out, shrinkable
from apass.adapters.onnx.storage import (
    external_files,
    load_model,
    model_from_bytes,
    model_proto,
    model_to_bytes,
    private_copy,
    save_model,
    with_parts,
)
from apass.adapters.onnx.text_layout import break_long_lines
from apass.adapters.onnx.traversal import count_nodes, is_small
from apass.util.delta_debugging import Shrinking

__all__ = [
    "ADAPTER",
    "MAIN",
    "OnnxAdapter",
    "OnnxFunction",
    "OnnxModel",
    "count_nodes",
    "external_files",
    "load_model",
    "model_from_bytes",
    "model_proto",
    "model_to_bytes",
    "private_copy",
    "save_model",
]

OnnxModel: TypeAlias = ir.Model
"""The class of modules."""

OnnxFunction = ir.Graph | ir.Function
"""The main graph or a model-local function. Both are sequences of nodes and have `clone()`."""

MAIN: Final = "main"
"""The name of the main graph. Model-local functions are named `domain::name` or `domain::name:overload`."""

SKIP: Final = "SkipOptimization"
"""The key of `metadata_props` that marks a graph or a function as skipped."""

FALSE_TEXTS: Final = frozenset({"", "0", "false", "no", "off"})
"""Values of the mark that mean false. Metadata values of ONNX are strings."""

BIG_TENSOR: Final = 2**20
"""Maximum size in bytes of initializers that `onnx.checker` receives."""

LONG_TENSOR: Final = 512
"""Maximum size in bytes of tensors whose data is printed."""

NEWEST_IR: Final = 10
"""The IR version of the model in which a single function is printed."""


class OnnxAdapter:
    """An IRAdapter for `onnx_ir.Model`.

    Models are treated as immutable.

    - A pass returns a new model, which may share unchanged graphs and functions with the old one.
    - A function pass receives an `ir.Graph` (the main graph) or an `ir.Function`. It returns the same object, or a
      changed copy made with `private_copy`.
    - A foreign pass that changes a model in place receives the result of `isolate`.

    The mark `SkipOptimization` is an entry of `metadata_props`, so it is kept when a model is saved and loaded.
    """

    thread_safe: bool = True
    """True: the methods access only their arguments."""
    suffix: str = ".onnx"
    """The suffix of a file with the bytes that `dumps` returns: a protobuf message."""

    def is_small(self, mod: ir.Model) -> bool:
        """Return whether it has at most 64 nodes, 64 initializers and 4 MiB of tensors."""
        return is_small(mod)

    def functions(self, mod: ir.Model) -> Iterator[tuple[str, OnnxFunction]]:
        """Iterate over the main graph and the functions, without copying them."""
        yield MAIN, mod.graph
        for function in mod.functions.values():
            yield function_name(function.identifier()), function

    def get(self, mod: ir.Model, name: str) -> OnnxFunction:
        """Return the main graph or the function of that name."""
        return dict(self.functions(mod))[name]

    def kind(self, func: OnnxFunction) -> FunctionKind:
        """Return `"function"`, the only kind in ONNX."""
        return "function"

    def replace(self, mod: ir.Model, updates: Mapping[str, OnnxFunction]) -> ir.Model:
        """Return a model with `updates`, which shares all other graphs with `mod`.

        Raises:
            AdapterError: if an update has another name or another type than the function it replaces.

        """
        for name, func in updates.items():
            _check_update(name, func)
        graph = updates.get(MAIN, mod.graph)
        functions = [updates.get(function_name(func.identifier()), func) for func in mod.functions.values()]
        assert isinstance(graph, ir.Graph)
        return with_parts(mod, graph, [func for func in functions if isinstance(func, ir.Function)])

    def skips(self, func: OnnxFunction) -> bool:
        """Return whether `metadata_props["SkipOptimization"]` of the function is true.

        It is false if it is missing, empty, `"0"`, `"false"`, `"no"` or `"off"`.
        """
        return func.metadata_props.get(SKIP, "").strip().casefold() not in FALSE_TEXTS

    def fingerprint(self, x: ir.Model | OnnxFunction) -> str:
        """Return the fingerprint of the contents.

        It does not depend on how the data of tensors is stored.
        """
        return fingerprint(x)

    def equal(self, a: ir.Model | OnnxFunction, b: ir.Model | OnnxFunction) -> bool:
        """Return whether the contents, including names, are equal."""
        return a is b or (type(a) is type(b) and fingerprint(a) == fingerprint(b))

    def to_text(self, x: ir.Model | OnnxFunction) -> str:
        """Return the text in ONNX syntax.

        Digests replace the data of large tensors. Long lists, such as the inputs of a graph, have one line for each
        entry.
        """
        proto = model_proto(x if isinstance(x, ir.Model) else _model_of(x), _without_data)
        if isinstance(x, ir.Model):
            return break_long_lines(onnx.printer.to_text(proto))
        return break_long_lines(onnx.printer.to_text(proto.functions[0] if isinstance(x, ir.Function) else proto.graph))

    def verify(self, mod: ir.Model) -> None:
        """Check the model with `onnx.checker`, without the data of large initializers.

        Raises:
            VerifyError: if the model is invalid.

        """
        for value in mod.graph.initializers.values():
            if value.const_value is None:
                message = f"initializer {value.name!r} of the ONNX model has no data; set its const_value"
                raise VerifyError(message)
            if value.dtype is not None and value.dtype != value.const_value.dtype:
                actual = value.const_value.dtype
                raise VerifyError(f"initializer {value.name!r} has data of type {actual}, expected {value.dtype}")
        proto = model_proto(_without_big_initializers(mod))
        try:
            onnx.checker.check_model(proto)  # pyright: ignore[reportUnknownMemberType]  a bare PathLike
        except (onnx.checker.ValidationError, ValueError) as error:
            raise VerifyError(f"not a valid ONNX model: {error}") from error

    def dumps(self, mod: ir.Model) -> bytes:
        """Return the model as a protobuf message that includes external data.

        Raises:
            AdapterError: if the message would exceed 2 GB.

        """
        return model_to_bytes(mod)

    def loads(self, data: bytes) -> ir.Model:
        """Return the model that `dumps` wrote.

        Raises:
            AdapterError: if `data` is not an ONNX model.

        """
        return model_from_bytes(data)

    def shrinkings(self, mod: ir.Model) -> Iterator[Shrinking[ir.Model]]:
        """Iterate over the parts that can be removed.

        - Nodes, outputs, initializers and unused inputs of the main graph.
        - Model-local functions.
        - Nodes in functions and subgraphs.
        """
        for parts, count, change in shrinkable(mod.graph, _with_types(mod).graph):
            yield Shrinking(parts, count, partial(_changed, mod, change))
        functions = list(mod.functions.values())

        def without(removed: frozenset[int]) -> ir.Model:
            return with_parts(mod, mod.graph, [func for index, func in enumerate(functions) if index not in removed])

        yield Shrinking("functions", len(functions), without)
        inner = len(inner_nodes(mod.graph, functions))
        yield Shrinking("nodes of functions and subgraphs", inner, partial(_without_inner_nodes, mod))

    def nodes(self, func: OnnxFunction) -> Iterator[Node]:
        """Iterate over the initializers and the nodes, with those of subgraphs.

        A node without a name of its own is named after its first output. A location is an entry of `metadata_props`,
        such as the `pkg.torch.onnx.stack_trace` of PyTorch's exporter.
        """
        return function_nodes(func)

    def with_locations(self, mod: ir.Model) -> ir.Model:
        """Return a model in which each node has a location.

        A node without one gets an entry `apass.location` in its `metadata_props`.
        """
        return with_metadata(mod)

    def isolate(self, mod: ir.Model, names: Iterable[str]) -> ir.Model:
        """Return a private model with copies of the named functions.

        If the main graph is not named, the model has an empty one.
        """
        by_name = dict(self.functions(mod))
        chosen = [by_name[name] for name in dict.fromkeys(names)]
        copies = [private_copy(func) for func in chosen if isinstance(func, ir.Function)]
        graph = private_copy(mod.graph) if mod.graph in chosen else _empty(mod.graph)
        return with_parts(mod, graph, copies)

    def commit(self, sub: ir.Model) -> ir.Model:
        """Return a model with the graph and the functions of `sub`."""
        return with_parts(sub, sub.graph, sub.functions.values())

    def extract(self, sub: ir.Model, names: Iterable[str]) -> Mapping[str, OnnxFunction]:
        """Return the named functions of a model that `isolate` returned."""
        by_name = dict(self.functions(sub))
        return {name: by_name[name] for name in names}


def _with_types(mod: ir.Model) -> ir.Model:
    """Return a model with inferred types, or `mod` if the inference fails."""
    try:
        if expanded_nodes(mod) > MAX_EXPANDED:
            return mod
        proto = onnx.shape_inference.infer_shapes(model_proto(_without_big_initializers(mod)))
    except (AdapterError, ValueError, RuntimeError, onnx.shape_inference.InferenceError):
        return mod
    return ir.from_proto(proto)


def _changed(mod: ir.Model, change: Change, indices: frozenset[int]) -> ir.Model:
    graph = private_copy(mod.graph)
    change(graph, indices)
    return with_parts(mod, graph, mod.functions.values())


def _without_inner_nodes(mod: ir.Model, indices: frozenset[int]) -> ir.Model:
    graph, functions = private_copy(mod.graph), [private_copy(func) for func in mod.functions.values()]
    leave_out(entry for index, entry in enumerate(inner_nodes(graph, functions)) if index in indices)
    return with_parts(mod, graph, functions)


def _check_update(name: str, func: OnnxFunction) -> None:
    if name == MAIN:
        if not isinstance(func, ir.Graph):
            raise AdapterError(f"the main graph must be an ir.Graph, got {type(func).__name__}")
    elif not isinstance(func, ir.Function):
        raise AdapterError(f"function {name!r} must be an ir.Function, got {type(func).__name__}")
    else:
        actual = function_name(func.identifier())
        if actual != name:
            raise AdapterError(f"the update of function {name!r} is named {actual!r}; keep the name")


def _empty(graph: ir.Graph) -> ir.Graph:
    return ir.Graph([], [], nodes=[], name=graph.name, opset_imports=dict(graph.opset_imports))


def _model_of(func: OnnxFunction) -> ir.Model:
    if isinstance(func, ir.Graph):
        return ir.Model(func, ir_version=NEWEST_IR)
    return ir.Model(_empty(func.graph), functions=[func], ir_version=NEWEST_IR)


def _without_data(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return the tensor, or if it is large, one that is printed as a digest."""
    if isinstance(tensor, ir.StringTensor) or tensor.nbytes <= LONG_TENSOR:
        return tensor
    shape = ir.Shape(tensor.shape.numpy())
    # ONNX prints the location of an external tensor, never its data.
    return ir.ExternalTensor(tensor_digest(tensor), None, None, tensor.dtype, shape=shape, name=tensor.name or "")


def _without_big_initializers(mod: ir.Model) -> ir.Model:
    """Return a model with inputs instead of large initializers, if there are any."""
    # The checker and shape inference take one protobuf message, which cannot exceed 2 GB.
    big = [
        n for n, v in mod.graph.initializers.items() if v.const_value is not None and v.const_value.nbytes > BIG_TENSOR
    ]
    if not big:
        return mod
    graph = private_copy(mod.graph)
    for name in big:
        value = graph.initializers.pop(name)
        tensor = value.const_value
        assert tensor is not None
        value.type = value.type or ir.TensorType(tensor.dtype)
        value.shape = value.shape or ir.Shape(tensor.shape.numpy())
        if value not in graph.inputs:
            graph.inputs.append(value)
    return with_parts(mod, graph, mod.functions.values())


ADAPTER: Final = OnnxAdapter()
"""The shared adapter; it has no state."""
