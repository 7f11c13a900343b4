"""Passes for jobs that run in other processes."""

import os
from pathlib import Path
from typing import Any

import apass

Module = dict[str, Any]


@apass.register_pass("jobs.Increment")
@apass.function_pass(opt_level=0)
def Increment(func: Any, mod: Module, ctx: apass.PassContext) -> Any:
    """Add 1 to numbers."""
    return func + 1 if isinstance(func, int) else func


@apass.register_pass("jobs.WaitOnce")
@apass.module_pass(opt_level=0)
def WaitOnce(mod: Module, ctx: apass.PassContext) -> Module:
    """Write the process id to the file `mod["wait"]`, and never end; once only."""
    if "wait" in mod and not Path(mod["wait"]).exists():
        part = Path(f"{mod['wait']}.part")
        part.write_text(str(os.getpid()))
        part.rename(mod["wait"])
        while True:
            pass
    return mod
