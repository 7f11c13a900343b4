"""Two hundred modules with random failures, run concurrently or one by one.

An instrument must observe the same in both cases.
"""

from collections.abc import Iterable
from random import Random

import anyio
import anyio.lowlevel

import apass

Module = dict[str, int]

SIZE = 200
WRONG = 5
"""`Tune` fails for functions that are multiples of this number, except 0."""


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
    """Return modules of one to three functions each. About a third of them fail."""
    random = Random(seed)
    return {
        f"m{index:03}": {f"f{number}": random.randrange(40) for number in range(random.randrange(1, 4))}
        for index in range(SIZE)
    }


async def run_crowd(instruments: Iterable[object], *, limit: int | None) -> dict[str, apass.Outcome[Module]]:
    """Run the pipeline on all modules, at most `limit` of them at once.

    With a limit, the functions of a module run one by one, so that each of them starts.
    """
    async with apass.PassContext(instruments=instruments, max_concurrency=None if limit is None else 1):
        return await apass.optimize_all(crowd(), PIPELINE, limit=limit, errors="collect")


def failing(outcomes: dict[str, apass.Outcome[Module]]) -> set[str]:
    """Return the names of the modules that failed."""
    return {name for name, outcome in outcomes.items() if outcome.error is not None}
