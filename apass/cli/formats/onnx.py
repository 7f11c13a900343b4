"""What the command line does with ONNX files; a `ModelFormat`."""

from pathlib import Path
from typing import Final

from anyio import CapacityLimiter

# The adapter comes before onnx_ir: it says which extra to install.
from apass.adapters.onnx import ADAPTER, external_files, load_model, save_model  # isort: skip
import onnx_ir as ir

from apass.adapters.onnx import outputs as onnx_outputs
from apass.cli.formats import Comparison
from apass.util.files import Prepared

__all__ = ["DEFAULT_PIPELINE", "companions", "compare_outputs", "load", "save", "size"]

DEFAULT_PIPELINE: Final = "onnx.Default"
"""What runs where no pipeline is given."""


def load(path: Path) -> ir.Model:
    """Read a model; an ApassError that names the file if it is none."""
    return load_model(path)


def companions(path: Path) -> list[Path]:
    """Return the model's files of weights."""
    return external_files(path)


def save(mod: ir.Model, path: Path, prepared: Prepared | None = None) -> None:
    """Write a model beside `path`, tell `prepared`, and rename it."""
    save_model(mod, path, prepared)


def size(mod: ir.Model) -> int:
    """Return how many nodes the model has, in all its functions and their subgraphs."""
    functions = (func for _, func in ADAPTER.functions(mod))
    return sum(1 for func in functions for _ in func.all_nodes())


async def compare_outputs(before: ir.Model, after: ir.Model, workers: CapacityLimiter) -> Comparison:
    """Run both on the same random inputs in a worker process and say whether they agree."""
    verdict = await onnx_outputs.compare_outputs(before, after, limiter=workers)
    text = f"outputs {verdict.status.value}" + (f": {verdict.reason}" if verdict.reason else "")
    return Comparison(verdict.changed, text)
