"""An analysis that records its computations, and a pass that requests it."""

from typing import Any

import anyio
import anyio.lowlevel

import apass
from apass import PassContext

Module = dict[str, Any]


def length_analysis(**options: Any) -> tuple[apass.Analysis[int], list[str]]:
    """Return an async analysis, and the list of the functions it was computed for."""
    computed: list[str] = []

    async def Length(func: str, *, factor: int = 1) -> int:
        computed.append(func)
        await anyio.lowlevel.checkpoint()
        return len(func) * factor

    result: apass.Analysis[int] = apass.analysis(**options)(Length)
    return result, computed


def requesting_pass(required: apass.Analysis[int], **options: Any) -> apass.Pass[Module]:
    """Return a function pass that appends an analysis result to each function."""

    async def append_result(func: str, mod: Module, ctx: PassContext) -> str:
        return f"{func}:{await ctx.get(required, func)}"

    declare: Any = apass.function_pass
    result: apass.Pass[Module] = declare(append_result, opt_level=0, name="Ask", **options)
    return result
