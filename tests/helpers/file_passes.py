"""Passes for tests of `apass opt` in worker processes, registered by the import."""

import os
import sys
import time
from typing import Any

import anyio

from apass.core.context import PassContext
from apass.core.diagnostics import Diagnostic
from apass.core.run import current_module_name
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass


@register_pass
@module_pass(opt_level=0, name="DieOnBad")
def DieOnBad(mod: Any, ctx: PassContext) -> Any:
    if current_module_name() == "bad.onnx":
        print("the end is near")
        os._exit(3)
    return mod


@register_pass
@module_pass(opt_level=0, name="FailOnBad")
def FailOnBad(mod: Any, ctx: PassContext) -> Any:
    ctx.diag_ctx.emit(Diagnostic.warning(f"saw {current_module_name()}"))
    if current_module_name() == "bad.onnx":
        raise ValueError("no good")
    return mod


@register_pass
@module_pass(opt_level=0, name="HoldBad")
def HoldBad(mod: Any, ctx: PassContext) -> Any:
    while current_module_name() == "bad.onnx":
        time.sleep(0.01)
    return mod


@register_pass
@module_pass(opt_level=0, name="PrintTwice")
def PrintTwice(mod: Any, ctx: PassContext) -> Any:
    print("out", flush=True)
    sys.stderr.buffer.write(b"err\n")
    return mod


@register_pass
@module_pass(opt_level=0, name="WaitForWorker")
async def WaitForWorker(mod: Any, ctx: PassContext) -> Any:
    """Return when another process than that of the command has run this pass."""
    flag = anyio.Path(os.environ["WORKER_FLAG"])
    if os.environ["COMMAND_PROCESS"] != str(os.getpid()):
        await flag.touch()
    while not await flag.exists():  # noqa: ASYNC110  another process creates it
        await anyio.sleep(0.01)
    return mod


@register_pass
@module_pass(opt_level=0, name="SetEntry")
def SetEntry(mod: Any, ctx: PassContext) -> Any:
    """Set the entry `a` of the function `f`."""
    return {**mod, "f": {**mod["f"], "a": -1}}
