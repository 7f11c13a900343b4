"""TVM itself, its functions and errors: what the modules of this adapter share."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, TypeAlias

from apass.errors import MissingExtraError
from apass.util import text

__all__ = [
    "FUNCTIONS",
    "BaseFunc",
    "IRModule",
    "functions_of",
    "relax",
    "s_tir",
    "short_reason",
    "tirx",
    "tvm",
    "tvm_ffi",
]

try:
    tvm: Any = import_module("tvm")
    tvm_ffi: Any = import_module("tvm_ffi")
    relax: Any = import_module("tvm.relax")
    tirx: Any = import_module("tvm.tirx")
    s_tir: Any = import_module("tvm.s_tir")
except ImportError as _error:
    raise MissingExtraError(f"modules of TVM need apache-tvm ({_error}): pip install 'apass[tvm]'") from _error

_TRACE: Final = re.compile(r"\s*(?:Traceback|File |\[|\d+: |\d*\s*\|[\s^]*$)")
"""A line of a C++ traceback, or one that only underlines the line of a source before it."""

IRModule: TypeAlias = Any
"""A `tvm.IRModule`. TVM has no types that a type checker could use."""
BaseFunc: TypeAlias = Any
"""A `tvm.relax.Function` or a `tvm.tirx.PrimFunc`."""
FUNCTIONS: Final = (relax.Function, tirx.PrimFunc)
"""The classes of functions."""


def functions_of(mod: IRModule) -> Iterator[tuple[str, BaseFunc]]:
    """Iterate over the Relax and TIR functions, by name.

    The order of a module's own mapping depends on how it was made.
    """
    for var, func in mod.functions_items():
        if isinstance(func, FUNCTIONS):
            yield var.name_hint, func


def short_reason(error: BaseException) -> str:
    """Return the message of an error of TVM in one line, without its C++ traceback."""
    return text.short_reason(error, "\n".join(line for line in str(error).splitlines() if not _TRACE.match(line)))
