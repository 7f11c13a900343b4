"""The `IRPlugin` of TVM."""

from pathlib import Path
from typing import Any, Final

from apass.adapters.file_reader import read_in_process
from apass.adapters.tvm.adapter import ADAPTER
from apass.adapters.tvm.library import IRModule, tvm
from apass.core.ir_plugin import Comparison, IRPlugin
from apass.util.paired_times import PairedTimes

__all__ = ["PLUGIN"]


def _count_nodes(mod: IRModule) -> int:
    """Return the number of bindings of Relax functions, and of TIR functions."""
    return sum(
        sum(len(block.bindings) for block in getattr(func.body, "blocks", ()))
        if isinstance(func, tvm.relax.Function)
        else 1
        for _, func in ADAPTER.functions(mod)
    )


async def _compare_outputs(before: IRModule, after: IRModule) -> Comparison:
    # Most runs do not compare.
    from apass.adapters.tvm.outputs import compare_outputs

    comparison: Comparison = await compare_outputs(before, after)
    return comparison


async def _compare_times(before: IRModule, after: IRModule) -> PairedTimes:
    # Few runs measure costs.
    from apass.adapters.tvm.costs import compare_times

    return await compare_times(before, after)


_READER: Final = """
import ctypes, sys
import tvm_ffi
data = sys.stdin.buffer.read()
runtime, *others = sys.argv[1:]
ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)
libraries = [ctypes.CDLL(path) for path in others]
def attempt(name, *arguments):
    try:
        return tvm_ffi.get_global_func(name)(*arguments)
    except Exception:
        return None

mod = attempt("ffi.FromJSONGraphString", data.decode(errors="replace"))
if mod is not None:
    attempt("relax.analysis.well_formed", mod, True)
    attempt("s_tir.analysis.VerifyWellFormed", mod, False)
    attempt("tirx.analysis.VerifyWellFormed", mod, False)
sys.stdout.write("read")
"""
"""The program that reads a file, and checks the module. It loads the libraries of TVM alone, in a third of the time."""


def _load(path: Path) -> IRModule:
    """Read a file with TVM's JSON.

    For some damaged files, TVM crashes when it reads or checks the module. So a process of its own tries this first.

    Raises:
        AdapterError: if TVM cannot read the file, or crashes.

    """
    data = path.read_bytes()
    libraries = [library._name for library in tvm.base._LOADED_LIBS.values()]
    read_in_process(_READER, libraries, data, library="TVM", path=path)
    return ADAPTER.loads(data)


PLUGIN: Final[IRPlugin[Any]] = IRPlugin(
    adapter=ADAPTER,
    module_type=tvm.IRModule,
    suffixes=(".relax",),
    load=_load,
    default_pipeline="tvm.Default",
    size=_count_nodes,
    compare_outputs=_compare_outputs,
    compare_times=_compare_times,
)
"""The plug-in: modules in files with TVM's JSON."""
