"""The `IRPlugin` of TVM."""

from typing import Any, Final

from apass.adapters.tvm import ADAPTER, IRModule, tvm
from apass.core.ir_plugin import IRPlugin

__all__ = ["PLUGIN"]


def _count_nodes(mod: IRModule) -> int:
    """Return the number of bindings of Relax functions, and of TIR functions."""
    count = 0
    for _, func in ADAPTER.functions(mod):
        if isinstance(func, tvm.relax.Function):
            count += sum(len(block.bindings) for block in getattr(func.body, "blocks", ()))
        else:
            count += 1
    return count


PLUGIN: Final[IRPlugin[Any]] = IRPlugin(
    adapter=ADAPTER,
    module_type=tvm.IRModule,
    suffixes=(".relax",),
    default_pipeline="tvm.Default",
    size=_count_nodes,
)
"""The plug-in: modules in files with TVM's JSON."""
