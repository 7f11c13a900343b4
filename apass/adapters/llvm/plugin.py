"""The `IRPlugin` of LLVM IR: text (`.ll`) and bitcode (`.bc`)."""

from dataclasses import replace
from typing import Final

from apass.adapters.llvm import ADAPTER, Module, load_module, save_bitcode, save_text
from apass.adapters.llvm.reading import module_from_bytes
from apass.core.ir_plugin import Comparison, IRPlugin
from apass.util.paired_times import PairedTimes

__all__ = ["BITCODE", "PLUGIN"]


async def _compare_outputs(before: Module, after: Module) -> Comparison:
    """Run functions of both modules on the same inputs, and compare."""
    # Few runs compare outputs.
    from apass.adapters.llvm.outputs import compare_outputs

    comparison: Comparison = await compare_outputs(before, after)
    return comparison


async def _compare_times(before: Module, after: Module) -> PairedTimes:
    # Few runs measure costs.
    from apass.adapters.llvm.costs import compare_times

    return await compare_times(before, after)


def _size(mod: Module) -> int:
    """Return the number of instructions."""
    return mod.instructions


PLUGIN: Final = IRPlugin(
    adapter=ADAPTER,
    module_type=Module,
    suffixes=(".ll",),
    load=load_module,
    load_bytes=module_from_bytes,
    save=save_text,
    default_pipeline="llvm.default",
    size=_size,
    compare_outputs=_compare_outputs,
    compare_times=_compare_times,
    copies_unchanged=False,
)
"""The plug-in: modules in text files."""

BITCODE: Final = replace(PLUGIN, suffixes=(".bc",), load_bytes=None, save=save_bitcode, copies_unchanged=True)
"""The plug-in of files with bitcode."""
