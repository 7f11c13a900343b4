"""The pass `onnxsim.Simplify`."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import onnx_ir as ir

from apass.adapters.onnx.optimizers.foreign_pass import provide
from apass.adapters.onnx.optimizers.isolation import Optimizer
from apass.adapters.onnx.storage import model_proto
from apass.errors import MissingExtraError

try:
    VERSION: Final = version("onnxsim")
    """The installed version of onnxsim. The library itself is imported in the worker process only."""
except PackageNotFoundError as _error:
    raise MissingExtraError(f"the passes onnxsim.* need onnxsim ({_error}): pip install 'apass[onnxsim]'") from _error

__all__ = ["simplify"]

CAUTION: Final = (
    "Takes the names of dimensions for sizes, and initializers that are inputs for constants. "
    "Fails on models whose nodes are not sorted."
)
"""What may be wrong, found on deployed models."""


def simplify(model: ir.Model) -> ir.Model:
    """Run `onnxsim.simplify`."""
    library: Any = import_module("onnxsim")
    from_proto: Any = ir.from_proto
    simplified: ir.Model = from_proto(library.simplify(model_proto(model))[0])
    return simplified


provide(
    "onnxsim.Simplify",
    Optimizer("onnxsim", VERSION, __name__, "simplify", CAUTION),
    f"Fold constants, infer shapes and fuse nodes with onnxsim.\n\n{CAUTION}",
)
