"""The pass `onnxoptimizer.Optimize`."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import Parameter
from typing import Any, Final

import onnx_ir as ir

from apass.adapters.onnx.optimizers.foreign_pass import provide
from apass.adapters.onnx.optimizers.isolation import Optimizer
from apass.adapters.onnx.storage import model_proto
from apass.errors import MissingExtraError

try:
    VERSION: Final = version("onnxoptimizer")
    """The installed version of onnxoptimizer. The library itself is imported in the worker process only."""
except PackageNotFoundError as _error:
    raise MissingExtraError(
        f"the passes onnxoptimizer.* need onnxoptimizer ({_error}): pip install 'apass[onnxoptimizer]'"
    ) from _error

__all__ = ["optimize"]

CAUTION: Final = (
    "Takes a Softmax before an ArgMax for one that changes nothing, also where rounding makes two numbers equal."
)
"""What may be wrong, found on deployed models."""


def optimize(model: ir.Model, *, passes: tuple[str, ...] = (), fixed_point: bool = False) -> ir.Model:
    """Run `onnxoptimizer.optimize`, with its fusions and eliminations by default."""
    library: Any = import_module("onnxoptimizer")
    from_proto: Any = ir.from_proto
    optimized: ir.Model = from_proto(library.optimize(model_proto(model), list(passes) or None, fixed_point))
    return optimized


provide(
    "onnxoptimizer.Optimize",
    Optimizer("onnxoptimizer", VERSION, __name__, "optimize", CAUTION),
    f"Eliminate and fuse nodes with onnxoptimizer.\n\n{CAUTION}",
    [
        Parameter("passes", Parameter.KEYWORD_ONLY, default=(), annotation=tuple[str, ...]),
        Parameter("fixed_point", Parameter.KEYWORD_ONLY, default=False, annotation=bool),
    ],
)
