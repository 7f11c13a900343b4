"""The `IRPlugin` of xDSL."""

from pathlib import Path
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from apass.adapters.xdsl import ADAPTER
from apass.adapters.xdsl.text import parse_module, print_module, verify_module
from apass.core.ir_plugin import Comparison, IRPlugin, Proof

__all__ = ["PLUGIN"]


def _load(path: Path) -> ModuleOp:
    """Return the module in a file, which must be valid."""
    mod = parse_module(path.read_text("utf-8"), str(path))
    verify_module(mod, f"{path} is not a valid module of xDSL")
    return mod


def _save(mod: ModuleOp, path: Path) -> None:
    # A pass that changes a module itself may leave one whose text cannot be parsed.
    verify_module(mod, "the result is not a valid module of xDSL")
    path.write_text(print_module(mod), "utf-8")


def _size(mod: ModuleOp) -> int:
    """Return the number of operations inside of the module."""
    return sum(1 for _ in mod.walk()) - 1


async def _compare_outputs(before: ModuleOp, after: ModuleOp) -> Comparison:
    """Call the functions of both modules in a worker process, and compare."""
    # The interpreters take half a second to import.
    from apass.adapters.xdsl.outputs import compare_outputs

    comparison: Comparison = await compare_outputs(before, after)
    return comparison


async def _prove_equal(before: ModuleOp, after: ModuleOp) -> Proof:
    """Search for a proof that the public functions compute the same."""
    # Few runs prove anything.
    from apass.external.solver import prove_in_worker

    data = ADAPTER.dumps(before), ADAPTER.dumps(after)
    return await prove_in_worker("apass.adapters.xdsl.equivalence", *data)


PLUGIN: Final = IRPlugin(
    adapter=ADAPTER,
    module_type=ModuleOp,
    suffixes=(".mlir",),
    load=_load,
    save=_save,
    default_pipeline="xdsl.Default",
    size=_size,
    compare_outputs=_compare_outputs,
    prove_equal=_prove_equal,
    separator="// -----",
    copies_unchanged=False,
)
"""The plug-in: MLIR in files of text."""
