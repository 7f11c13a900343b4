"""Passes for the tests of `PassTimingInstrument`, and checks of profiles."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.core.run import enter_module
from apass.instruments import PassTiming

Module = dict[str, int]
Shape = tuple[Any, ...]


@apass.module_pass(opt_level=0)
def Plain(mod: Module, ctx: apass.PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
async def Suspend(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    return mod


@apass.module_pass(opt_level=0)
def Fail(mod: Module, ctx: apass.PassContext) -> Module:
    raise ValueError("no")


@apass.function_pass(opt_level=0)
async def CallPlain(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await Suspend(mod)
    await Plain(mod)
    return func


def shapes(timings: Iterable[PassTiming]) -> list[Shape]:
    """Return a profile without times, sorted by module."""
    # trio starts tasks in any order, so modules are sorted.
    ordered = sorted(timings, key=lambda item: item.module or "")
    return [
        (item.name, item.module, item.calls, item.failed, item.unfinished, shapes(item.children)) for item in ordered
    ]


async def on_each(modules: dict[str, Module], pass_: apass.Pass[Module]) -> None:
    """Run a pass on all modules at once, each under its name, ignoring ValueErrors."""

    async def on_one(name: str, mod: Module) -> None:
        enter_module(name)
        with suppress(ValueError):
            await pass_(mod)

    async with anyio.create_task_group() as tasks:
        for name, mod in modules.items():
            tasks.start_soon(on_one, name, mod)


def leaf(name: str, module: str | None = None, calls: int = 1, failed: int = 0, unfinished: int = 0) -> Shape:
    return (name, module, calls, failed, unfinished, [])


def tree(
    name: str, children: list[Shape], module: str | None = None, calls: int = 1, failed: int = 0, unfinished: int = 0
) -> Shape:
    return (name, module, calls, failed, unfinished, children)


def check_times(timings: Iterable[PassTiming]) -> None:
    """Check the times of passes that have ended and started no tasks themselves."""
    for item in timings:
        assert item.unfinished == 0
        assert 0 <= item.failed <= item.calls > 0
        assert 0 <= item.busy <= item.wall
        assert item.busy + item.waiting == pytest.approx(item.wall)
        assert sum(child.busy for child in item.children) <= item.busy * (1 + 1e-9)
        check_times(item.children)
