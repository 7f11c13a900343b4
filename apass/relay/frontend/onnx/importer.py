"""`import_model`: the implementation of `from_onnx`."""

from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Final, SupportsIndex, cast

import onnx

from apass.errors import did_you_mean
from apass.relay.errors import OpNotImplementedError
from apass.relay.frontend.onnx.coverage import check_supported
from apass.relay.frontend.onnx.facts import Facts
from apass.relay.frontend.onnx.graph import MOST_INLINED_NODES, GraphImporter
from apass.relay.frontend.onnx.protos import dense_value, load_model, normal_domain, tensor_type, tensor_value
from apass.relay.frontend.onnx.scope import ValueScope
from apass.relay.ir.expr import Constant, Expr, Tuple, Var
from apass.relay.ir.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.ty import Dim, TensorType
from apass.relay.ir.variables import free_vars

__all__ = ["import_model"]

DEFAULT_CONFIG: Final[Mapping[str, object]] = {"use_nt_batch_matmul": True, MOST_INLINED_NODES: 100_000}
"""The default values of `convert_config`."""

Shapes = Mapping[str, Sequence[Dim]]
Dtypes = str | Mapping[str, str]


def import_model(
    model: object, shape: Shapes, dtype: Dtypes, opset: int | None, freeze_params: bool, config: Mapping[str, object]
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module and the weights, as `apass.relay.frontend.from_onnx` does."""
    _check_names("convert_config", config, DEFAULT_CONFIG)
    proto = load_model(model)
    graph = proto.graph
    scope = ValueScope(_opsets(proto, opset))
    importer = GraphImporter(Facts(), proto.functions, {**DEFAULT_CONFIG, **config})
    check_supported(graph.node, scope.opsets, importer.functions)
    weights = _add_weights(graph, scope, importer.facts, freeze_params)
    inputs = _inputs(graph, shape, dtype)
    scope.values.update(inputs)
    results = [info.name for info in graph.output]
    importer.run(graph.node, results, scope)
    body = _result([scope[name] for name in results])
    used = set(free_vars(body))
    used_weights = {name: var for name, var in weights.items() if var in used}
    func = Function([*inputs.values(), *used_weights.values()], body)
    return IRModule.from_expr(func), {name: importer.facts.weights[var] for name, var in used_weights.items()}


def _opsets(proto: onnx.ModelProto, opset: int | None) -> dict[str, int]:
    """Return the operator set versions by domain, by default 1 as ONNX specifies."""
    imports = {normal_domain(entry.domain): entry.version for entry in proto.opset_import}
    return {"": 1} | imports | ({} if opset is None else {"": opset})


def _add_weights(graph: onnx.GraphProto, scope: ValueScope, facts: Facts, freeze: bool) -> dict[str, Var]:
    """Add the initializers to the scope and return their variables.

    If `freeze` is true, they are constants and have no variables.
    """
    values = {tensor.name: tensor_value(tensor) for tensor in graph.initializer}
    values |= {tensor.values.name: dense_value(tensor) for tensor in graph.sparse_initializer}
    if freeze:
        scope.values.update((name, Constant(value)) for name, value in values.items())
        return {}
    variables = {name: Var(name, TensorType(value.shape, str(value.dtype))) for name, value in values.items()}
    scope.values.update(variables)
    facts.weights.update((var, values[name]) for name, var in variables.items())
    return variables


def _inputs(graph: onnx.GraphProto, shape: Shapes, dtype: Dtypes) -> dict[str, Var]:
    """Return variables for the inputs of the graph."""
    # Before IR version 4, models list initializers among the inputs too.
    weights = {tensor.name for tensor in graph.initializer}
    weights |= {tensor.values.name for tensor in graph.sparse_initializer}
    infos = [info for info in graph.input if info.name not in weights]
    names = [info.name for info in infos]
    _check_names("shape", shape, names)
    for name, dims in shape.items():
        _check_dims(name, dims)
    dtypes: Mapping[str, str] = {} if isinstance(dtype, str) else dtype
    _check_names("dtype", dtypes, names)
    return {info.name: Var(info.name, _input_type(info, shape, dtypes)) for info in infos}


def _input_type(info: onnx.ValueInfoProto, shape: Shapes, dtypes: Mapping[str, str]) -> TensorType:
    if not info.type.HasField("tensor_type"):
        raise OpNotImplementedError(f"input {info.name!r} of the ONNX model must be a tensor, got another type")
    ty = tensor_type(info.type, shape.get(info.name))
    if ty is None:
        raise ValueError(
            f"input {info.name!r} of the ONNX model has no rank; give its shape: "
            f"from_onnx(..., shape={{{info.name!r}: (...)}})"
        )
    return TensorType(ty.shape, dtypes.get(info.name, ty.dtype))


def _check_dims(name: str, dims: object) -> None:
    known = cast("Sequence[object]", dims) if isinstance(dims, Sequence) and not isinstance(dims, str) else (-1,)
    if any(isinstance(dim, SupportsIndex) and index(dim) < 0 for dim in known):
        raise ValueError(
            f"the shape of input {name!r} must be a sequence of dimensions from 0, or Any() for unknown ones, got "
            f"{dims!r}"
        )


def _check_names(argument: str, names: Iterable[str], known: Iterable[str]) -> None:
    candidates = set(known)
    for name in names:
        if name not in candidates:
            hint = did_you_mean(str(name), candidates, listing="known names are ")
            raise ValueError(f"{argument} of from_onnx has the unknown name {name!r}{hint}")


def _result(outputs: Sequence[Expr | None]) -> Expr:
    results = [output for output in outputs if output is not None]
    return results[0] if len(results) == 1 else Tuple(results)
