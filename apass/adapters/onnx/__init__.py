"""The adapter for ONNX models, `onnx_ir.Model`; its main graph and its model-local functions are its functions."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from apass.core.adapter import FunctionKind
from apass.errors import AdapterError, MissingExtraError, VerifyError

try:
    import onnx
    import onnx_ir as ir
except ImportError as _error:
    raise MissingExtraError(f"ONNX models need onnx and onnx-ir ({_error}): pip install apass[onnx]") from _error

from apass.adapters.onnx.fingerprint import fingerprint, tensor_digest
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
from apass.util.delta_debugging import Shrinking

__all__ = [
    "ADAPTER",
    "MAIN",
    "OnnxAdapter",
    "OnnxFunction",
    "external_files",
    "load_model",
    "private_copy",
    "save_model",
]

OnnxFunction = ir.Graph | ir.Function
"""A function of a model: the main graph, or a model-local function. Both are sequences of nodes with `clone()`."""

MAIN: Final = "main"
"""The name of the main graph; model-local functions are named `domain::name` or `domain::name:overload`."""

SKIP: Final = "SkipOptimization"
"""The key of `metadata_props` that marks a graph or a function to be skipped."""

FALSE_TEXTS: Final = frozenset({"", "0", "false", "no", "off"})
"""Values of the mark, which are text in ONNX, that say no."""

BIG_TENSOR: Final = 2**20
"""Initializers of more bytes than this are not given to the checker."""

LONG_TENSOR: Final = 512
"""The data of tensors of more bytes than this is not printed."""

NEWEST_IR: Final = 10
"""The IR version that a single function is printed in."""


class OnnxAdapter:
    """An IRAdapter for `onnx_ir.Model`.

    Models are values: a pass returns a new model, and may share with the old one every graph and function that it did
    not change. A function pass is given the main graph or a function as it is, an `ir.Graph` or an `ir.Function`, and
    returns it, or a changed copy of it, made with `private_copy`. A foreign pass that works in place on a model is
    given one that `isolate` made.

    The mark `SkipOptimization` is an entry of `metadata_props`, so it survives saving and loading.
    """

    thread_safe: bool = True
    """The adapter touches nothing but the model it is given."""
    suffix: str = ".onnx"
    """The ending of a file that has what `dumps` returns: a protobuf."""

    def functions(self, mod: ir.Model) -> Iterator[tuple[str, OnnxFunction]]:
        """Go over the main graph, then the model-local functions; the objects are those of the model."""
        yield MAIN, mod.graph
        for function in mod.functions.values():
            yield function_name(function), function

    def get(self, mod: ir.Model, name: str) -> OnnxFunction:
        """Return the main graph or a function by its name."""
        return dict(self.functions(mod))[name]

    def kind(self, func: OnnxFunction) -> FunctionKind:
        """Return `"function"`: ONNX has no others."""
        return "function"

    def replace(self, mod: ir.Model, updates: Mapping[str, OnnxFunction]) -> ir.Model:
        """Return a model with `updates` in their places, which shares all other graphs with `mod`.

        Raises:
            AdapterError: if a function would get another name, or another sort of function its place.

        """
        for name, func in updates.items():
            _check_place(name, func)
        graph = updates.get(MAIN, mod.graph)
        functions = [updates.get(function_name(one), one) for one in mod.functions.values()]
        assert isinstance(graph, ir.Graph)
        return with_parts(mod, graph, [one for one in functions if isinstance(one, ir.Function)])

    def skips(self, func: OnnxFunction) -> bool:
        """Tell whether the function's `metadata_props["SkipOptimization"]` says yes; `"0"` and `"false"` say no."""
        return func.metadata_props.get(SKIP, "").strip().casefold() not in FALSE_TEXTS

    def fingerprint(self, x: ir.Model | OnnxFunction) -> str:
        """Return the fingerprint of the contents; how the data of tensors is stored makes no difference."""
        return fingerprint(x)

    def equal(self, a: ir.Model | OnnxFunction, b: ir.Model | OnnxFunction) -> bool:
        """Compare the contents, names included."""
        return a is b or (type(a) is type(b) and fingerprint(a) == fingerprint(b))

    def to_text(self, x: ir.Model | OnnxFunction) -> str:
        """Return the text of ONNX's own syntax, with a digest in the place of the data of big tensors.

        Long lists, as of the inputs of a graph, have a line for each entry.
        """
        proto = model_proto(x if isinstance(x, ir.Model) else _model_of(x), _without_data)
        if isinstance(x, ir.Model):
            return break_long_lines(onnx.printer.to_text(proto))
        return break_long_lines(onnx.printer.to_text(proto.functions[0] if isinstance(x, ir.Function) else proto.graph))

    def verify(self, mod: ir.Model) -> None:
        """Check the model with `onnx.checker`, the data of big initializers left out; VerifyError if it is wrong."""
        for value in mod.graph.initializers.values():
            if value.const_value is None:
                raise VerifyError(f"initializer {value.name!r} of the ONNX model has no data")
            if value.dtype is not None and value.dtype != value.const_value.dtype:
                raise VerifyError(f"initializer {value.name!r} is a {value.const_value.dtype}, declared {value.dtype}")
        proto = model_proto(_without_big_initializers(mod))
        try:
            onnx.checker.check_model(proto)  # pyright: ignore[reportUnknownMemberType]  a bare PathLike
        except (onnx.checker.ValidationError, ValueError) as error:
            raise VerifyError(f"not a valid ONNX model: {error}") from error

    def dumps(self, mod: ir.Model) -> bytes:
        """Return the model as a protobuf message, external data and all; AdapterError if it is more than 2 GB."""
        return model_to_bytes(mod)

    def loads(self, data: bytes) -> ir.Model:
        """Return the model that `dumps` wrote; AdapterError if `data` holds none."""
        return model_from_bytes(data)

    def shrinkings(self, mod: ir.Model) -> Iterator[Shrinking[ir.Model]]:
        """Go over what can be left out: nodes, outputs and the like of the main graph; functions; inner nodes."""
        for what, count, change in shrinkable(mod.graph, _with_types(mod).graph):
            yield Shrinking(what, count, partial(_changed, mod, change))
        functions = list(mod.functions.values())

        def without(numbers: frozenset[int]) -> ir.Model:
            return with_parts(mod, mod.graph, [one for number, one in enumerate(functions) if number not in numbers])

        yield Shrinking("functions", len(functions), without)
        inner = len(inner_nodes(mod.graph, functions))
        yield Shrinking("nodes of functions and subgraphs", inner, partial(_without_inner_nodes, mod))

    def isolate(self, mod: ir.Model, names: Iterable[str]) -> ir.Model:
        """Return a private model with copies of the named functions; an empty main graph, if that is not named."""
        known = dict(self.functions(mod))
        chosen = [known[name] for name in dict.fromkeys(names)]
        copies = [private_copy(one) for one in chosen if isinstance(one, ir.Function)]
        graph = private_copy(mod.graph) if mod.graph in chosen else _empty(mod.graph)
        return with_parts(mod, graph, copies)

    def extract(self, sub: ir.Model, names: Iterable[str]) -> Mapping[str, OnnxFunction]:
        """Return the named functions of a model that `isolate` made."""
        known = dict(self.functions(sub))
        return {name: known[name] for name in names}


def function_name(function: ir.Function) -> str:
    """Return the name of a model-local function: `domain::name`, and `:overload` if it has one."""
    domain, name, overload = function.identifier()
    return f"{domain}::{name}" + (f":{overload}" if overload else "")


def _with_types(mod: ir.Model) -> ir.Model:
    """Return a model like it with the types that ONNX infers, as far as it can; itself where it cannot."""
    try:
        proto = onnx.shape_inference.infer_shapes(model_proto(_without_big_initializers(mod)))
    except (AdapterError, ValueError, RuntimeError, onnx.shape_inference.InferenceError):
        return mod
    return ir.from_proto(proto)


def _changed(mod: ir.Model, change: Change, numbers: frozenset[int]) -> ir.Model:
    graph = private_copy(mod.graph)
    change(graph, numbers)
    return with_parts(mod, graph, mod.functions.values())


def _without_inner_nodes(mod: ir.Model, numbers: frozenset[int]) -> ir.Model:
    graph, functions = private_copy(mod.graph), [private_copy(one) for one in mod.functions.values()]
    leave_out(one for number, one in enumerate(inner_nodes(graph, functions)) if number in numbers)
    return with_parts(mod, graph, functions)


def _check_place(name: str, func: OnnxFunction) -> None:
    if name == MAIN:
        if not isinstance(func, ir.Graph):
            raise AdapterError(f"the main graph must be an ir.Graph, not {type(func).__name__}")
    elif not isinstance(func, ir.Function):
        raise AdapterError(f"function {name!r} must be an ir.Function, not {type(func).__name__}")
    elif function_name(func) != name:
        raise AdapterError(f"function {name!r} was given back as {function_name(func)!r}; replace cannot rename one")


def _empty(graph: ir.Graph) -> ir.Graph:
    return ir.Graph([], [], nodes=[], name=graph.name, opset_imports=dict(graph.opset_imports))


def _model_of(func: OnnxFunction) -> ir.Model:
    if isinstance(func, ir.Graph):
        return ir.Model(func, ir_version=NEWEST_IR)
    return ir.Model(_empty(func.graph), functions=[func], ir_version=NEWEST_IR)


def _without_data(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Return a tensor that is printed as a place named by the digest of the data, if it is big."""
    if isinstance(tensor, ir.StringTensor) or tensor.nbytes <= LONG_TENSOR:
        return tensor
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor(tensor_digest(tensor), None, None, tensor.dtype, shape=shape, name=tensor.name or "")


def _without_big_initializers(mod: ir.Model) -> ir.Model:
    """Return a model that has inputs in the place of its big initializers, itself if it has none."""
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
"""The adapter; it has no state."""
