"""Passes for jobs that run in other processes."""

import os
import signal
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

import apass

Module = dict[str, Any]


@apass.register_pass("jobs.Increment")
@apass.function_pass(opt_level=0)
def Increment(func: Any, mod: Module, ctx: apass.PassContext) -> Any:
    """Add 1 to numbers."""
    return func + 1 if isinstance(func, int) else func


class Panic(BaseException):
    """An error that is no Exception, such as those of foreign libraries."""


_ERRORS = {error.__name__: error for error in (KeyboardInterrupt, GeneratorExit, SystemExit, Panic)}


@apass.register_pass("jobs.Raise")
@apass.module_pass(opt_level=0)
async def Raise(mod: Module, ctx: apass.PassContext) -> Module:
    """Raise the error that the module names, perhaps in a task."""

    async def fail() -> None:
        await checkpoint()
        raise _ERRORS[mod["error"]]

    if mod.get("task"):
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
    elif "error" in mod:
        await fail()
    return mod


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


@apass.register_pass("jobs.Fail")
@apass.function_pass(opt_level=0)
def Fail(func: Any, mod: Module, ctx: apass.PassContext) -> Any:
    """Raise an error for functions that are texts."""
    if isinstance(func, str):
        raise ValueError(f"{func} is no number")
    return func


@apass.register_pass("jobs.Die")
@apass.module_pass(opt_level=0)
def Die(mod: Module, ctx: apass.PassContext) -> Module:
    """Add a character to `mod["log"]`; kill the process until there are `mod["die"]`."""
    if "die" in mod:
        with Path(mod["log"]).open("a") as file:
            file.write("x")
        if Path(mod["log"]).stat().st_size <= mod["die"]:
            os.kill(os.getpid(), signal.SIGKILL)
    return mod


@apass.register_pass("jobs.Spin")
@apass.module_pass(opt_level=0)
def Spin(mod: Module, ctx: apass.PassContext) -> Module:
    """Never end, if the module says so."""
    while "spin" in mod:
        pass
    return mod


@apass.register_pass("jobs.Allocate")
@apass.module_pass(opt_level=0)
def Allocate(mod: Module, ctx: apass.PassContext) -> Module:
    """Use as many megabytes as the module says, and keep them forever if it says so."""
    data = b"x" * (mod.get("megabytes", 0) * 2**20)
    while "hold" in mod:
        pass
    return {**mod, "allocated": len(data)}
