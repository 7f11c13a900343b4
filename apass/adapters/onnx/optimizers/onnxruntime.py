"""The passes `ort.*`: the graph optimizer of onnxruntime, by level."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import onnx_ir as ir

from apass.adapters.onnx import ADAPTER
from apass.adapters.onnx.optimizers.foreign_pass import provide
from apass.adapters.onnx.optimizers.isolation import Optimizer
from apass.adapters.onnx.passes.workarounds import is_incomparable
from apass.adapters.onnx.storage import load_model
from apass.errors import AdapterError, MissingExtraError

try:
    VERSION: Final = version("onnxruntime")
    """The installed version of onnxruntime. The library itself is imported in the worker process only."""
except PackageNotFoundError as _error:
    raise MissingExtraError(f"the passes ort.* need onnxruntime ({_error}): pip install 'apass[runtime]'") from _error

__all__ = ["basic", "extended"]

CAUTION: Final = (
    "Fails on models with operators or types that onnxruntime does not support on the CPU. "
    "Merges no equal nodes if a model has random ones."
)
"""Limits of both levels."""

_WRONG_RANGES: Final = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""The types of Range that onnxruntime 1.32 expands wrongly."""

CUSTOM: Final = "The result may have operators of com.microsoft, which only onnxruntime can run."
"""What level extended changes."""


def basic(model: ir.Model) -> ir.Model:
    """Return the model after the optimizations of level basic."""
    return _optimized(model, "ORT_ENABLE_BASIC")


def extended(model: ir.Model) -> ir.Model:
    """Return the model after the optimizations of the levels basic and extended."""
    return _optimized(model, "ORT_ENABLE_EXTENDED")


def _optimized(model: ir.Model, level: str) -> ir.Model:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    nodes = [node for _, function in ADAPTER.functions(model) for node in function.all_nodes()]
    for node in nodes:
        if node.op_type == "Range" and any(
            value.dtype in _WRONG_RANGES for value in (*node.inputs, *node.outputs) if value
        ):
            raise AdapterError("onnxruntime replaces Range of float16 and bfloat16 by nodes that compute another shape")
    # Equal nodes of Bernoulli, which are different random numbers, are merged.
    disabled = ["CommonSubexpressionElimination"] if any(map(is_incomparable, nodes)) else []
    with TemporaryDirectory(prefix="apass-ort-") as folder:
        path = Path(folder, "optimized.onnx")
        options.optimized_model_filepath = str(path)
        data = ADAPTER.dumps(model)
        runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled)
        return ADAPTER.loads(ADAPTER.dumps(load_model(path)))


for _name, _function, _doc in (
    ("Basic", "basic", f"Run the graph optimizer of onnxruntime at level basic.\n\n{CAUTION}"),
    ("Extended", "extended", f"Run the graph optimizer of onnxruntime at level extended.\n\n{CUSTOM} {CAUTION}"),
):
    provide(f"ort.{_name}", Optimizer("onnxruntime", VERSION, __name__, _function, CAUTION), _doc)
