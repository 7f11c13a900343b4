"""ONNX models for tests, and their evaluation by Relay and by ONNX's reference."""

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

__all__ = ["Numbers", "evaluate_model", "evaluate_module", "import_function", "model", "reference", "result_type"]

Numbers: TypeAlias = npt.NDArray[Any]
"""An array of any element type."""


def model(graph: str, *functions: str, opset: int = 18, ir_version: int = 8) -> onnx.ModelProto:
    """Return a model parsed from ONNX's text syntax; functions are of domain `local`."""
    opsets = f'"": {opset}, "local": 1'
    bodies = [f'<domain: "local", opset_import: [{opsets}]>\n{function}' for function in functions]
    return onnx.parser.parse_model("\n".join([f"<ir_version: {ir_version}, opset_import: [{opsets}]>", graph, *bodies]))


def import_function(proto: onnx.ModelProto) -> Function:
    """Return an imported model as a function with constant weights."""
    mod, _ = from_onnx(proto, freeze_params=True)
    return mod["main"]


def result_type(mod: IRModule) -> str:
    """Return the type of the result of `main`."""
    ty = infer_module(mod)["main"].checked_type
    assert isinstance(ty, FuncType)
    return str(ty.ret_type)


def evaluate_module(mod: IRModule, *inputs: npt.ArrayLike) -> list[Numbers]:
    """Return the results of `main` as a list of arrays."""
    result = evaluate(mod, *map(np.asarray, inputs))
    return [np.asarray(array) for array in (result if isinstance(result, tuple) else (result,))]


def evaluate_model(proto: onnx.ModelProto, *inputs: npt.ArrayLike) -> list[Numbers]:
    """Return the outputs of a model, computed by Relay."""
    mod, params = from_onnx(proto)
    return evaluate_module(mod, *inputs, *params.values())


def reference(proto: onnx.ModelProto, *inputs: npt.ArrayLike) -> list[Numbers]:
    """Return the outputs of a model, computed by ONNX's reference evaluator."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    names = [info.name for info in proto.graph.input if info.name not in weights]
    feeds = dict(zip(names, map(np.asarray, inputs), strict=True))
    results = cast("Any", ReferenceEvaluator(proto)).run(None, feeds)
    return [np.asarray(array) for array in cast("Sequence[Any]", results)]
