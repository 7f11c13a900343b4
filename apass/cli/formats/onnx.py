"""The `ModelFormat` of ONNX files."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from anyio import CapacityLimiter

# Import the adapter before onnx_ir: its error message names the extra to install.
from apass.adapters.onnx import count_nodes, external_files, load_model, save_model  # isort: skip
import onnx_ir as ir

from apass.cli.formats import Comparison, Measures
from apass.errors import AdapterError, MissingExtraError
from apass.util.files import Prepared

__all__ = ["DEFAULT_PIPELINE", "companions", "compare_outputs", "load", "measure", "save", "size"]

DEFAULT_PIPELINE: Final = "onnx.Default"
"""The pipeline that runs if none is given."""


def load(path: Path) -> ir.Model:
    """Read a model.

    Raises:
        AdapterError: if the file is not an ONNX model. The message contains the path.

    """
    return load_model(path)


def companions(path: Path) -> list[Path]:
    """Return the files with the external weights of the model."""
    return external_files(path)


def save(mod: ir.Model, path: Path, prepared: Prepared | None = None) -> None:
    """Write a model to temporary files beside `path`, and rename them.

    `prepared` is called before the files are renamed.
    """
    save_model(mod, path, prepared)


def size(mod: ir.Model) -> int:
    """Return the number of nodes in all functions of the model and their subgraphs."""
    return count_nodes(mod)


async def compare_outputs(before: ir.Model, after: ir.Model, workers: CapacityLimiter) -> Comparison:
    """Run both models on the same random inputs, and compare their outputs.

    The models run in worker processes.
    """
    # The evaluators take longer to import than all of onnx_ir.
    outputs: Any = import_module("apass.adapters.onnx.outputs")
    verdict = await outputs.compare_outputs(before, after, limiter=workers, engines=("reference", "onnxruntime"))
    text = f"outputs {verdict.status.value}" + (f": {verdict.reason}" if verdict.reason else "")
    return Comparison(verdict.changed, text)


async def measure(mods: Sequence[ir.Model]) -> list[Measures]:
    """Return the sizes of models, and their latencies if onnxruntime runs them."""
    costs: Any = import_module("apass.adapters.onnx.costs")
    sizes = [await costs.count_bytes(mod) for mod in mods]
    try:
        measured = await costs.measure_latencies(mods)
    except (AdapterError, MissingExtraError) as error:
        return [Measures(size, None, str(error)) for size in sizes]
    return [
        Measures(size, None, value) if isinstance(value, str) else Measures(size, value)
        for size, value in zip(sizes, measured, strict=True)
    ]
