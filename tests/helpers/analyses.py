"""An analysis that counts what it is computed for, and a pass that asks it."""

from typing import Any

import anyio
import anyio.lowlevel

import apass
from apass import PassContext

Module = dict[str, Any]


def counted(**options: Any) -> tuple[apass.Analysis[int], list[str]]:
    """Return an analysis that waits, and what it was computed for."""
    seen: list[str] = []

    async def Length(func: str, *, factor: int = 1) -> int:
        seen.append(func)
        await anyio.lowlevel.checkpoint()
        return len(func) * factor

    made: apass.Analysis[int] = apass.analysis(**options)(Length)
    return made, seen


def asking(asked: apass.Analysis[int], **promises: Any) -> apass.Pass[Module]:
    """Return a function pass that asks, and adds what it learned to the function."""

    async def ask(func: str, mod: Module, ctx: PassContext) -> str:
        return f"{func}:{await ctx.get(asked, func)}"

    make: Any = apass.function_pass
    pass_: apass.Pass[Module] = make(ask, opt_level=0, name="Ask", **promises)
    return pass_
