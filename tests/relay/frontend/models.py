"""ONNX models for the tests of the front end, and what they compute: by Relay, and by ONNX's reference evaluator."""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from apass.relay.frontend import from_onnx
from apass.relay.function import Function
from apass.relay.interpreter.evaluate import evaluate
from apass.relay.ir.module import IRModule
from apass.relay.ty import FuncType
from apass.relay.type_inference.infer import infer_module

__all__ = ["Numbers", "computed", "evaluated", "imported", "model", "reference", "result_type"]

Numbers: TypeAlias = npt.NDArray[Any]
"""An array of any element type."""


def model(graph: str, *functions: str, opset: int = 18, ir_version: int = 8) -> onnx.ModelProto:
    """Return the model of a graph in ONNX's syntax, and of functions of the domain `local`."""
    opsets = f'"": {opset}, "local": 1'
    bodies = [f'<domain: "local", opset_import: [{opsets}]>\n{function}' for function in functions]
    return onnx.parser.parse_model("\n".join([f"<ir_version: {ir_version}, opset_import: [{opsets}]>", graph, *bodies]))


def imported(proto: onnx.ModelProto) -> Function:
    """Return the function that a model becomes, its weights constants."""
    mod, _ = from_onnx(proto, freeze_params=True)
    return mod["main"]


def result_type(mod: IRModule) -> str:
    """Return the type of the result of `main`."""
    ty = infer_module(mod)["main"].checked_type
    assert isinstance(ty, FuncType)
    return str(ty.ret_type)


def computed(mod: IRModule, *inputs: npt.ArrayLike) -> list[Numbers]:
    """Return what `main` computes, one array or several."""
    result = evaluate(mod, *map(np.asarray, inputs))
    return [np.asarray(one) for one in (result if isinstance(result, tuple) else (result,))]


def evaluated(proto: onnx.ModelProto, *inputs: npt.ArrayLike) -> list[Numbers]:
    """Return the outputs of a model by Relay."""
    mod, params = from_onnx(proto)
    return computed(mod, *inputs, *params.values())


def reference(proto: onnx.ModelProto, *inputs: npt.ArrayLike) -> list[Numbers]:
    """Return the outputs of a model by the reference evaluator."""
    weights = {one.name for one in proto.graph.initializer}
    names = [one.name for one in proto.graph.input if one.name not in weights]
    feeds = dict(zip(names, map(np.asarray, inputs), strict=True))
    results = cast("Any", ReferenceEvaluator(proto)).run(None, feeds)
    return [np.asarray(one) for one in cast("Sequence[Any]", results)]
