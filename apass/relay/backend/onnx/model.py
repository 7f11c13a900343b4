"""`export_model`: the implementation of `to_onnx`."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, defs, helper, numpy_helper

from apass.errors import did_you_mean
from apass.relay.backend.onnx import onnx
from apass.relay.backend.onnx.biases import with_biases
from apass.relay.backend.onnx.graph import GraphBuilder, NewerOpsetError, Tensor
from apass.relay.backend.onnx.program import ProgramExporter, packed, tensor_types, used_names, value_info
from apass.relay.backend.onnx.site import Operand
from apass.relay.errors import OpNotImplementedError
from apass.relay.ir.expr import Constant, Expr, If
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import Array
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.dims import dims_differ
from apass.relay.rewrite.let_binding import LetBinder, convert_bodies
from apass.relay.type_inference.infer import infer_module

__all__ = [
    "DEFAULT_OPSET",
    "DIMS",
    "EXTERNAL",
    "IR_VERSION",
    "METADATA",
    "NAME",
    "OPSET",
    "OUTPUTS",
    "export_model",
    "tensor_bytes",
]

DEFAULT_OPSET: Final = 17
"""The version of the operators if nothing else chooses one."""

OLDEST_OPSET: Final = 7
"""The oldest version that is written: before, attributes broadcast operands."""

OPSET: Final = "OnnxOpset"
"""The attribute of `main` with the version of the operators of the model that it is from."""

DIMS: Final = "OnnxDims"
"""The attribute of `main` with the names of dimensions of that model: lines of axis, dimension and tensor."""

EXTERNAL: Final = "OnnxExternal"
"""The attribute of `main` that is set if the weights of that model are in a file of their own."""

METADATA: Final = "OnnxMetadata"
"""The attribute of `main` with the description and the properties of that model, as JSON."""

NAME: Final = "OnnxName"
"""The attribute of `main` with the name of the graph of that model."""

IR_VERSION: Final = "OnnxIrVersion"
"""The attribute of `main` with the IR version of that model."""

OUTPUTS: Final = "OnnxOutputs"
"""The attribute of `main` with the names of the outputs of that model, joined by line breaks."""

_SAVE: Final = cast("Any", onnx).save_model
"""Writes a model; its declaration has unknown types."""

_LARGEST_FILE: Final = 1 << 31
"""The size in bytes that a file of ONNX cannot reach."""


def export_model(
    program: IRModule | Function,
    params: Mapping[str, npt.ArrayLike | Constant],
    name: str,
    opset: int | None,
    path: str | Path | None,
    output_names: Sequence[str] | None,
) -> ModelProto:
    """Return a program as an ONNX model, as `apass.relay.to_onnx` does."""
    newest = defs.onnx_opset_version()
    if opset is not None and (type(opset) is not int or not OLDEST_OPSET <= opset <= newest):
        raise ValueError(f"opset_version must be from {OLDEST_OPSET} to {newest}, got {opset!r}")
    if not name:
        raise ValueError(f"name must be that of a graph, which is not empty, got {name!r}")
    if not isinstance(cast("object", program), IRModule | Function):
        raise TypeError(f"to_onnx requires an IRModule or a Function, got {program!r:.100}")
    mod = _prepared(IRModule.from_expr(program) if isinstance(program, Function) else program)
    known = Counter(param.name_hint for param in mod["main"].params)
    for key in params:
        if key not in known:
            hint = did_you_mean(str(key), known, listing="its parameters are ")
            raise ValueError(f"params has the name {key!r}, which main does not have{hint}")
        if known[key] > 1:
            raise ValueError(f"params has the name {key!r}, which {known[key]} parameters of main have; rename them")
    model = _exported(mod, params, name, opset, output_names)
    if path is not None:
        _SAVE(model, str(path), save_as_external_data=tensor_bytes(model) >= _LARGEST_FILE)
    return model


def _exported(
    mod: IRModule,
    params: Mapping[str, npt.ArrayLike | Constant],
    name: str,
    opset: int | None,
    output_names: Sequence[str] | None,
) -> ModelProto:
    chosen = opset if opset is not None else _source_opset(mod["main"])
    while True:
        try:
            return _Export(mod, params, name, chosen, output_names).model()
        except NewerOpsetError as error:
            if opset is not None:
                raise
            # Each attempt has a higher version, so that the loop ends.
            chosen = error.version


def tensor_bytes(model: ModelProto) -> int:
    """Return the size of the weights of a model."""
    # A model of more than 2 GB cannot be serialized to measure it.
    return sum(len(tensor.raw_data) for tensor in model.graph.initializer)


def _source_opset(main: Function) -> int:
    value = main.attrs.get(OPSET)
    return min(max(value, OLDEST_OPSET), defs.onnx_opset_version()) if isinstance(value, int) else DEFAULT_OPSET


def _prepared(mod: IRModule) -> IRModule:
    """Return a module with types, in which no value is shared by two branches."""
    has_branches = any(isinstance(node, If) for func in mod.functions.values() for node in post_order(func))
    return infer_module(convert_bodies(mod, _with_shared_values) if has_branches else mod)


def _with_shared_values(expr: Expr) -> Expr:
    binder = LetBinder(expr, has_let_scopes=True)
    return binder.bind(binder.lifted().__contains__)


def _dim_names(main: Function) -> Mapping[str, Mapping[int, str]]:
    """Return the names of dimensions of the source model, by tensor and axis."""
    text = main.attrs.get(DIMS)
    names: dict[str, dict[int, str]] = {}
    for line in text.split("\n") if isinstance(text, str) else ():
        axis, dim, name = line.split(" ", 2)
        names.setdefault(name, {})[int(axis)] = dim
    return names


class _Export:
    """One attempt to export a module with a version of the operators."""

    def __init__(
        self,
        mod: IRModule,
        params: Mapping[str, npt.ArrayLike | Constant],
        name: str,
        opset: int,
        output_names: Sequence[str] | None,
    ) -> None:
        self._main = mod["main"]
        self._params = params
        self._name = name
        self._output_names = output_names
        self._builder = GraphBuilder(opset)
        self._exporter = ProgramExporter(mod, self._builder)
        self._inputs: list[tuple[str, TensorType]] = []

    def model(self) -> ModelProto:
        """Return the model."""
        builder = self._builder
        types = tensor_types(self._main.body.checked_type)
        if not types:
            raise OpNotImplementedError("main returns no tensor, but an ONNX model needs an output; return one")
        arguments = [self._argument(param.name_hint, param.checked_type) for param in self._main.params]
        wanted = self._outputs(len(types))
        inputs = {name for name, _ in self._inputs}
        reserved = {name: builder.unique_name(name) for name in wanted if name not in inputs}
        outputs = self._exporter.export(self._main, arguments)
        # An output may be an input itself.
        names = [
            name if tensor.name == name else reserved.get(name) or builder.unique_name(name)
            for tensor, name in zip(outputs, wanted, strict=True)
        ]
        if self._output_names is not None and names != list(wanted):
            raise ValueError(f"output_names must not be names of other parameters, got {list(wanted)}")
        nodes = self._named(outputs, names)
        dims = _dim_names(self._main)
        graph = helper.make_graph(
            nodes,
            self._name,
            [value_info(name, ty, dims.get(name, {})) for name, ty in self._inputs],
            [value_info(name, ty, dims.get(name, {})) for name, ty in zip(names, types, strict=True)],
        )
        opsets = [helper.make_opsetid("", builder.opset)]
        least = max(4, helper.find_min_ir_version_for(opsets))
        source = self._main.attrs.get(IR_VERSION)
        model = helper.make_model(
            graph,
            producer_name="apass",
            producer_version=version("apass"),
            opset_imports=opsets,
            ir_version=max(least, source) if isinstance(source, int) else max(least, 8),
        )
        # Here, because `make_graph` and `make_model` copy what they receive, and weights may be large.
        used = set(used_names(nodes))
        for key, value in builder.initializers.items():
            if key in used:
                model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), key))
        return model

    def _argument(self, name: str, ty: Type) -> Operand:
        """Return a parameter of `main`: inputs, or initializers if its value is given."""
        types = tensor_types(ty)
        if name in self._params:
            return self._weight(name, ty)
        names = [name] if isinstance(ty, TensorType) else [f"{name}_{index}" for index in range(len(types))]
        inputs = [(self._builder.unique_name(hint), field) for hint, field in zip(names, types, strict=True)]
        self._inputs += inputs
        return packed(ty, iter([Tensor(unique, field.dtype) for unique, field in inputs]))

    def _weight(self, name: str, ty: Type) -> Tensor:
        value = self._params[name]
        array: Array = value.data.numpy() if isinstance(value, Constant) else np.asarray(value)
        dims = ty.shape if isinstance(ty, TensorType) else ()
        fits = len(dims) == array.ndim and not any(map(dims_differ, dims, array.shape))
        if not isinstance(ty, TensorType) or str(array.dtype) != ty.dtype or not fits:
            raise ValueError(f"the value of parameter {name!r} must be {ty}, got {array.dtype}{list(array.shape)}")
        # Without its value: the tensor keeps its name, and is not folded into other constants.
        return Tensor(self._builder.initializer(name, array).name, ty.dtype)

    def _outputs(self, count: int) -> Sequence[str]:
        given = self._output_names
        if given is None:
            text = self._main.attrs.get(OUTPUTS)
            names = text.split("\n") if isinstance(text, str) else []
            defaults = ["output"] if count == 1 else [f"output_{index}" for index in range(count)]
            return names if len(names) == count else defaults
        if isinstance(given, str) or len(given) != count or len({*given} - {""}) != count:
            raise ValueError(f"output_names must be {count} different names, got {given!r}")
        return given

    def _named(self, outputs: Iterable[Tensor], names: Sequence[str]) -> list[NodeProto]:
        """Return the nodes that are needed, with the names of the outputs."""
        builder = self._builder
        produced = {name for node in builder.nodes for name in node.output}
        renamed: dict[str, str] = {}
        for tensor, name in zip(outputs, names, strict=True):
            if tensor.name in produced and tensor.name not in renamed:
                renamed[tensor.name] = name
            elif tensor.name != name:
                builder.node("Identity", [tensor.name], [name])
        _rename(builder.nodes, renamed)
        needed = set(names)
        nodes: list[NodeProto] = []
        for node in reversed(builder.nodes):
            if not needed.isdisjoint(node.output):
                nodes.append(node)
                needed.update(used_names([node]))
        return with_biases(builder, nodes[::-1], names)


def _rename(nodes: Iterable[NodeProto], renamed: Mapping[str, str]) -> None:
    """Rename tensors in nodes and their subgraphs."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                if name in renamed:
                    names[index] = renamed[name]
        for attribute in node.attribute:
            stack += attribute.g.node
