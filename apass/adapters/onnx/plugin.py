"""The `IRPlugin` of ONNX."""

from collections.abc import Collection, Sequence
from typing import Final

from apass.core.ir_plugin import Comparison, GivenInputs, IRPlugin, Measures
from apass.errors import AdapterError, InputError, MissingExtraError
from apass.util.paired_times import PairedTimes

# Import the adapter before onnx_ir: its error message names the extra to install.
from apass.adapters.onnx import ADAPTER, count_nodes, external_files, load_model, model_from_bytes, save_model  # isort: skip
import onnx_ir as ir

__all__ = ["PLUGIN", "measure"]

_RANDOM: Final = GivenInputs()


async def _compare_outputs(before: ir.Model, after: ir.Model, given: GivenInputs = _RANDOM) -> Comparison:
    """Run both models on the same inputs in worker processes, and compare."""
    # The evaluators take longer to import than all of onnx_ir.
    from apass.adapters.onnx.outputs import compare_outputs

    names = [value.name for value in before.graph.inputs if value.name not in before.graph.initializers]
    _check_names(given.values or given.shapes, names, complete=given.values is not None)
    try:
        verdict = await compare_outputs(before, after, given.values, shapes=given.shapes)
    except ValueError as error:  # the given shapes do not fit
        raise InputError(str(error)) from None
    return verdict.comparison


def _check_names(given: Collection[str], names: Sequence[str | None], *, complete: bool) -> None:
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given] if complete else []
    if unknown or missing:
        found = f"no input {unknown[0]!r}" if unknown else f"an input {missing[0]!r}, which is not given"
        raise InputError(f"the model has {found}; its inputs are {', '.join(map(repr, names)) or 'none'}")


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


async def _compare_times(before: ir.Model, after: ir.Model) -> PairedTimes:
    # Few runs measure costs.
    from apass.adapters.onnx.costs import compare_latency

    return await compare_latency(before, after)


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
    compare_outputs_on=_compare_outputs,
    measure=measure,
    compare_times=_compare_times,
    companions=external_files,
    text_suffix=".onnxtxt",
)
"""The plug-in: models of onnx_ir, in files with their external weights."""
