"""Failing passes with registered names, for reproducers, reducing and bisecting."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import anyio.lowlevel

import apass

__all__ = ["FailOn", "Inner", "Nest", "Strict", "add_one", "failing_passes"]

Module = dict[str, Any]


@apass.function_pass(opt_level=0, name="FailOn")
class _FailOn:
    def __init__(self, value: int) -> None:
        self.value = value

    async def transform_function(self, func: Any, mod: Any, ctx: apass.PassContext) -> Any:
        await anyio.lowlevel.checkpoint()
        if func == self.value:
            raise ValueError(f"cannot do {func}")
        return func


def FailOn(value: int) -> apass.Pass[Any]:
    """Return a pass that raises ValueError for a function equal to `value`."""
    pass_: Any = _FailOn(value)
    return cast("apass.Pass[Any]", pass_)


async def _add_one(mod: Module, ctx: apass.PassContext) -> Module:
    return {name: value + 1 for name, value in mod.items()}


add_one: apass.Pass[Any] = apass.module_pass(_add_one, opt_level=0, name="add_one")
"""Adds 1 to each function."""


async def _inner(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    if "bad" in mod:
        raise KeyError("bad")
    return mod


Inner: apass.Pass[Any] = apass.module_pass(_inner, opt_level=0, name="Inner")
"""Fails on a module that has an entry `bad`."""


async def _nest(func: Any, mod: Module, ctx: apass.PassContext) -> Any:
    await Inner({"bad": func} if func == 13 else {"good": func})
    return func


Nest: apass.Pass[Any] = apass.function_pass(_nest, opt_level=0, name="Nest")
"""Runs `Inner` on a new module for each function; for function 13, on a module that makes it fail."""


async def _strict(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError(f"level {ctx.opt_level}, disabled {sorted(ctx.disabled_pass)}")


Strict: apass.Pass[Any] = apass.module_pass(_strict, opt_level=3, name="Strict")
"""Fails with the options of its context in the message."""


@contextmanager
def failing_passes() -> Generator[None]:
    """Register the passes by name within the block."""
    table: dict[str, Any] = {"FailOn": _FailOn, "add_one": add_one, "Inner": Inner, "Nest": Nest, "Strict": Strict}
    for name, factory in table.items():
        apass.register_pass(name, factory)
    try:
        yield
    finally:
        for name in table:
            apass.unregister_pass(name)
