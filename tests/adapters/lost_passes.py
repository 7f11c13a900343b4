"""Passes that lose their worker process; the module imports no compiler."""

import ctypes
import time
from pathlib import Path
from typing import Any

import apass
from apass.core.run import current_module_name

__all__ = ["Crash", "Sleep"]


@apass.module_pass(opt_level=0, name="tests.adapters.Crash")
def Crash(mod: Any, ctx: apass.PassContext) -> Any:
    if current_module_name() == "bad":
        ctypes.string_at(0)
    return mod


@apass.module_pass(opt_level=0, name="tests.adapters.Sleep")
def Sleep(mod: Any, ctx: apass.PassContext) -> Any:
    Path(current_module_name() or "").touch()
    while True:
        time.sleep(0.1)
