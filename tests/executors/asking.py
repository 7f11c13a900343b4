"""Analyses, and passes that require them; importable in workers without pytest."""

import threading
from typing import Any

from apass import PassContext, analysis, function_pass, get_pass, register_pass

Module = dict[str, str]


@analysis
def Words(func: str) -> list[str]:
    return [*func.split(), threading.current_thread().name]


@analysis
async def Letters(func: str, ctx: PassContext) -> int:
    return len("".join((await ctx.get(Words, func))[:-1]))


@analysis
def Unsendable(func: str) -> object:
    return lambda: func


@analysis
def Unrequired(func: str) -> int:
    return len(func)


@analysis
def Broken(_func: str) -> int:
    return 1 // 0


@function_pass(opt_level=0, required=[Words, Letters])
def DescribeFunction(func: str, mod: Module, ctx: PassContext) -> str:
    return f"{ctx.got(Words, func)} {ctx.got(Letters, func)}"


@function_pass(opt_level=0, required=[Unsendable])
def UseUnsendable(func: str, mod: Module, ctx: PassContext) -> str:
    return str(ctx.got(Unsendable, func))


@function_pass(opt_level=0, required=[Words])
def UseUnrequired(func: str, mod: Module, ctx: PassContext) -> str:
    return str(ctx.got(Unrequired, func))


@register_pass("tests.Joined")
def joined(by: str) -> Any:
    """Return a pass that workers find by its registered name and option."""

    def join(func: str, mod: Module, ctx: PassContext) -> str:
        return by.join(ctx.got(Words, func)[:-1])

    return function_pass(join, opt_level=0, name="Joined", required=[Words])


JOINED = get_pass("tests.Joined", by="-")
