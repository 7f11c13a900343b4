"""The `ModelFormat` of ONNX files that are converted to Relay."""

from pathlib import Path

from apass.cli.formats.onnx import companions
from apass.cli.formats.relay import DEFAULT_PIPELINE, compare_outputs, save, size
from apass.relay.frontend import from_onnx
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.infer import infer_module

__all__ = ["DEFAULT_PIPELINE", "companions", "compare_outputs", "load", "save", "size"]


def load(path: Path) -> IRModule:
    """Read an ONNX model as a Relay module, with its weights as constants.

    Raises:
        OpNotImplementedError: if the model has operators that Relay does not support.

    """
    mod, _ = from_onnx(path, freeze_params=True)
    return infer_module(mod)
