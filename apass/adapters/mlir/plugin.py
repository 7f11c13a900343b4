"""The `IRPlugin` of MLIR: text files, and files of bytecode."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from apass.adapters.mlir.adapter import ADAPTER, module_from_bytes, module_to_bytecode, module_to_text
from apass.adapters.mlir.equivalence import prove_equal
from apass.adapters.mlir.module import MLIRModule
from apass.adapters.mlir.outputs import compare_outputs
from apass.core.ir_plugin import IRPlugin

__all__ = ["BYTECODE", "PLUGIN", "count_operations"]

_OPERATION: Final = re.compile(
    r'^[ \t]*(?:%[\w$.:, \t%-]+=[ \t]*)?(?:"[\w$.]+"|[A-Za-z_][\w$]*(?:\.[\w$.]+)?)', re.MULTILINE
)
"""An operation, at the beginning of a line. Aliases, blocks and closing braces begin with other characters."""


def load(path: Path) -> MLIRModule:
    """Read a file of MLIR text or bytecode."""
    return module_from_bytes(path.read_bytes(), str(path))


def count_operations(mod: MLIRModule) -> int:
    """Return the number of lines that begin with an operation, except modules."""
    return sum(1 for match in _OPERATION.finditer(mod.text) if not match.group().strip().endswith("module"))


def _save_text(mod: MLIRModule, path: Path) -> None:
    path.write_bytes(module_to_text(mod))


def _save_bytecode(mod: MLIRModule, path: Path) -> None:
    path.write_bytes(module_to_bytecode(mod))


PLUGIN: Final = IRPlugin(
    adapter=ADAPTER,
    module_type=MLIRModule,
    suffixes=(".mlir",),
    load=load,
    save=_save_text,
    default_pipeline="mlir.canonicalize,mlir.cse",
    size=count_operations,
    compare_outputs=compare_outputs,
    prove_equal=prove_equal,
    separator="// -----",
    copies_unchanged=False,
)
"""The plug-in of text files."""

BYTECODE: Final = replace(PLUGIN, suffixes=(".mlirbc",), save=_save_bytecode, separator="", copies_unchanged=True)
"""The plug-in of files with bytecode."""
