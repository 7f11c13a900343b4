"""What the command line does with ONNX files that are to become Relay; a `ModelFormat`."""

from pathlib import Path

from apass.cli.formats.onnx import companions
from apass.cli.formats.relay import DEFAULT_PIPELINE, compare_outputs, save, size
from apass.relay.frontend import from_onnx
from apass.relay.ir.module import IRModule
from apass.relay.type_inference.infer import infer_module

__all__ = ["DEFAULT_PIPELINE", "companions", "compare_outputs", "load", "save", "size"]


def load(path: Path) -> IRModule:
    """Import a model, its weights as constants; OpNotImplementedError if it has operators that Relay lacks."""
    mod, _ = from_onnx(path, freeze_params=True)
    return infer_module(mod)
