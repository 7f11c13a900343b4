"""`import_model`: an ONNX model as a Relay module; the front end's `from_onnx`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import onnx

from apass.errors import did_you_mean
from apass.relay.errors import OpNotImplementedError
from apass.relay.expr import Constant, Expr, Tuple, Var
from apass.relay.frontend.onnx.coverage import refuse_unknown
from apass.relay.frontend.onnx.facts import Facts
from apass.relay.frontend.onnx.graph import GraphImporter
from apass.relay.frontend.onnx.protos import dense_value, load_model, normal_domain, tensor_type, tensor_value
from apass.relay.frontend.onnx.scope import Scope
from apass.relay.function import Function
from apass.relay.ir.module import IRModule
from apass.relay.ir.ndarray import NDArray
from apass.relay.ir.variables import free_vars
from apass.relay.ty import Dim, TensorType

__all__ = ["import_model"]

DEFAULT_CONFIG: Final[Mapping[str, object]] = {"use_nt_batch_matmul": True}
"""The `convert_config` that is in force where nothing else is given."""

Shapes = Mapping[str, Sequence[Dim]]
Dtypes = str | Mapping[str, str]


def import_model(
    model: object, shape: Shapes, dtype: Dtypes, opset: int | None, freeze_params: bool, config: Mapping[str, object]
) -> tuple[IRModule, dict[str, NDArray]]:
    """Return the module and the weights; see `apass.relay.frontend.from_onnx`."""
    _check_names("convert_config", config, DEFAULT_CONFIG)
    proto = load_model(model)
    graph = proto.graph
    scope = Scope(_opsets(proto, opset))
    importer = GraphImporter(Facts(), proto.functions, {**DEFAULT_CONFIG, **config})
    refuse_unknown(graph.node, scope.opsets, importer.functions)
    weights = _add_weights(graph, scope, importer.facts, freeze_params)
    inputs = _inputs(graph, shape, dtype)
    scope.values.update(inputs)
    results = [one.name for one in graph.output]
    importer.run(graph.node, results, scope)
    body = _result([scope[name] for name in results])
    used = set(free_vars(body))
    needed = {name: var for name, var in weights.items() if var in used}
    func = Function([*inputs.values(), *needed.values()], body)
    return IRModule.from_expr(func), {name: importer.facts.weights[var] for name, var in needed.items()}


def _opsets(proto: onnx.ModelProto, opset: int | None) -> dict[str, int]:
    """Return the versions of the operators by domain; a model without any is of the first version."""
    stated = {normal_domain(one.domain): one.version for one in proto.opset_import}
    return {"": 1} | stated | ({} if opset is None else {"": opset})


def _add_weights(graph: onnx.GraphProto, scope: Scope, facts: Facts, freeze: bool) -> dict[str, Var]:
    """Put the initializers into the scope; return the variables that stand for them, none if they are constants."""
    named = {one.name: tensor_value(one) for one in graph.initializer}
    named |= {one.values.name: dense_value(one) for one in graph.sparse_initializer}
    if freeze:
        scope.values.update((name, Constant(value)) for name, value in named.items())
        return {}
    made = {name: Var(name, TensorType(value.shape, str(value.dtype))) for name, value in named.items()}
    scope.values.update(made)
    facts.weights.update((var, named[name]) for name, var in made.items())
    return made


def _inputs(graph: onnx.GraphProto, shape: Shapes, dtype: Dtypes) -> dict[str, Var]:
    """Return variables for the inputs of the graph; initializers, which old models list as well, are none."""
    weights = {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}
    infos = [one for one in graph.input if one.name not in weights]
    names = [one.name for one in infos]
    _check_names("shape", shape, names)
    dtypes: Mapping[str, str] = {} if isinstance(dtype, str) else dtype
    _check_names("dtype", dtypes, names)
    return {one.name: Var(one.name, _input_type(one, shape, dtypes)) for one in infos}


def _input_type(info: onnx.ValueInfoProto, shape: Shapes, dtypes: Mapping[str, str]) -> TensorType:
    if not info.type.HasField("tensor_type"):
        raise OpNotImplementedError(f"the input {info.name!r} of the ONNX model is no tensor; Relay has no type for it")
    stated = tensor_type(info.type, shape.get(info.name))
    if stated is None:
        raise ValueError(
            f"the ONNX model does not state how many dimensions its input {info.name!r} has; give its shape: "
            f"from_onnx(..., shape={{{info.name!r}: (...)}})"
        )
    return TensorType(stated.shape, dtypes.get(info.name, stated.dtype))


def _check_names(what: str, given: Iterable[str], known: Iterable[str]) -> None:
    candidates = set(known)
    for name in given:
        if name not in candidates:
            hint = did_you_mean(name, candidates, listing="there are: ")
            raise ValueError(f"from_onnx was given a {what} for {name!r}, which is unknown{hint}")


def _result(outputs: Sequence[Expr | None]) -> Expr:
    made = [one for one in outputs if one is not None]
    return made[0] if len(made) == 1 else Tuple(made)
