"""The `IRPlugin` of ONNX."""

from collections.abc import Sequence
from typing import Final

from apass.core.ir_plugin import Comparison, IRPlugin, Measures
from apass.errors import AdapterError, MissingExtraError

# Import the adapter before onnx_ir: its error message names the extra to install.
from apass.adapters.onnx import ADAPTER, count_nodes, external_files, load_model, model_from_bytes, save_model  # isort: skip
import onnx_ir as ir

__all__ = ["PLUGIN", "measure"]


async def _compare_outputs(before: ir.Model, after: ir.Model) -> Comparison:
    """Run both models on the same random inputs in worker processes, and compare."""
    # The evaluators take longer to import than all of onnx_ir.
    from apass.adapters.onnx.outputs import compare_outputs

    verdict = await compare_outputs(before, after, engines=("reference", "onnxruntime"))
    text = f"outputs {verdict.status.value}" + (f": {verdict.reason}" if verdict.reason else "")
    return Comparison(verdict.changed, text)


async def measure(mods: Sequence[ir.Model]) -> list[Measures]:
    """Return the sizes of models, and their latencies if onnxruntime runs them."""
    # Few runs measure costs.
    from apass.adapters.onnx.costs import count_bytes, measure_latencies

    sizes = [await count_bytes(mod) for mod in mods]
    try:
        measured = await measure_latencies(mods)
    except (AdapterError, MissingExtraError) as error:
        return [Measures(size, None, str(error)) for size in sizes]
    return [
        Measures(size, None, value) if isinstance(value, str) else Measures(size, value)
        for size, value in zip(sizes, measured, strict=True)
    ]


PLUGIN: Final = IRPlugin(
    adapter=ADAPTER,
    module_type=ir.Model,
    suffixes=(".onnx",),
    load=load_model,
    load_bytes=model_from_bytes,
    save_files=save_model,
    default_pipeline="onnx.Default",
    size=count_nodes,
    compare_outputs=_compare_outputs,
    measure=measure,
    companions=external_files,
    text_suffix=".onnxtxt",
)
"""The plug-in: models of onnx_ir, in files with their external weights."""
