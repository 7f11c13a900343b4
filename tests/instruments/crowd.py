"""Two hundred modules with random failures, all at once or one after the other: what is seen must be the same."""

from collections.abc import Iterable
from random import Random

import anyio
import anyio.lowlevel

import apass

Module = dict[str, int]

SIZE = 200
WRONG = 5
"""Functions whose number this divides, and that are not 0, fail in `Tune`."""


@apass.function_pass(opt_level=0)
def Halve(func: int, mod: Module, ctx: apass.PassContext) -> int:
    ctx.statistic("halved", func % 2)
    return func // 2


@apass.function_pass(opt_level=0)
async def Tune(func: int, mod: Module, ctx: apass.PassContext) -> int:
    for _ in range(func % 4):
        await anyio.lowlevel.checkpoint()
    if func and func % WRONG == 0:
        raise ValueError(f"no tuning of {func}")
    await Inner({"inner": func})
    return func + 1


@apass.module_pass(opt_level=0)
async def Inner(mod: Module, ctx: apass.PassContext) -> Module:
    ctx.statistic("inner")
    await anyio.lowlevel.checkpoint()
    return mod


PIPELINE = apass.Sequential([Halve, apass.Sequential([Inner, Tune], name="tuning"), Halve])


def crowd(seed: int = 7) -> dict[str, Module]:
    """Return modules of one to three functions; about a third of them fail."""
    random = Random(seed)
    return {
        f"m{place:03}": {f"f{number}": random.randrange(40) for number in range(random.randrange(1, 4))}
        for place in range(SIZE)
    }


async def run_crowd(instruments: Iterable[object], *, limit: int | None) -> dict[str, apass.Outcome[Module]]:
    """Run the pipeline on all modules, so many at once; one function of a module at a time, so all of them begin."""
    async with apass.PassContext(instruments=instruments, max_concurrency=None if limit is None else 1):
        return await apass.optimize_all(crowd(), PIPELINE, limit=limit, errors="collect")


def failing(outcomes: dict[str, apass.Outcome[Module]]) -> set[str]:
    """Return the names of the modules that failed."""
    return {name for name, outcome in outcomes.items() if outcome.error is not None}
