"""Passes with `open` that run in executors, and write to a common log."""

import os
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
from anyio.lowlevel import checkpoint

from apass import FunctionPass, ModulePass, PassContext

Module = dict[str, int]


class Log:
    """Appends lines to a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_open = True

    def write(self, event: str) -> None:
        assert self.is_open
        with Path(self.path).open("a") as file:
            file.write(f"{os.getpid()} {event}\n")


def lines_of(path: Path) -> list[str]:
    """Return what all processes wrote."""
    return path.read_text().splitlines()


@asynccontextmanager
async def open_log(path: str) -> AsyncGenerator[Log]:
    # A task group is entered and left by one task, or it fails.
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        log = Log(path)
        log.write("open")
        yield log
        await checkpoint()
        log.write("close")
        log.is_open = False
        group.cancel_scope.cancel()


class LogFunctions(FunctionPass[Module, int], opt_level=0):
    """Writes a line for each function; fails for 13."""

    path: str

    def open(self, ctx: PassContext) -> AbstractAsyncContextManager[Log]:
        return open_log(self.path)

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        ctx.opened(self.open).write(f"body {func}")
        if func == 13:
            raise ValueError(func)
        return func + 1


class LogModule(ModulePass[Module], opt_level=0):
    """Writes a line for a module."""

    path: str

    @asynccontextmanager
    async def open(self, ctx: PassContext) -> AsyncGenerator[Log]:
        async with open_log(self.path) as log:
            yield log

    def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        ctx.opened(self.open).write("module")
        return {name: func + 1 for name, func in mod.items()}


class LogModuleLater(ModulePass[Module], opt_level=0):
    """The same, with an async body."""

    path: str

    @asynccontextmanager
    async def open(self, ctx: PassContext) -> AsyncGenerator[Log]:
        async with open_log(self.path) as log:
            yield log

    async def transform_module(self, mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        ctx.opened(self.open).write("module")
        return {name: func + 1 for name, func in mod.items()}


class InThread(LogModule, opt_level=0, executor="thread"):
    """Runs in a thread."""


class InProcess(LogModule, opt_level=0, executor="process"):
    """Runs in another process."""


class LaterInThread(LogModuleLater, opt_level=0, executor="thread"):
    """Runs in an event loop in a thread."""


class LaterInProcess(LogModuleLater, opt_level=0, executor="process"):
    """Runs in an event loop in another process."""
