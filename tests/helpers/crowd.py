"""Eighty modules with random failures, run concurrently or one by one.

An instrument must observe the same in both cases.
"""

from collections.abc import Iterable
from random import Random

import anyio
import anyio.lowlevel

import apass

Module = dict[str, int]

SIZE = 80
WRONG = 5
"""`Tune` fails for functions that are multiples of this number, except 0."""


@apass.function_pass(opt_level=0)
def Halve(func: int, mod: Module, ctx: apass.PassContext) -> int:
    ctx.statistic("halved", func % 2)
    ctx.remark(apass.Remark.passed("Halved", f"half of it is {func // 2}", value=func))
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
    """Return modules of one to three functions each. About a tenth of them fail.

    Only modules of one function fail. With more, the time at which a failure cancels the other bodies would vary.
    """
    random = Random(seed)
    modules: dict[str, Module] = {}
    for index in range(SIZE):
        values = [random.randrange(40) for _ in range(random.choice((1, 1, 1, 2, 3)))]
        if len(values) > 1:
            values = [value + 2 if value // 2 % WRONG == 0 else value for value in values]
        modules[f"m{index:03}"] = {f"f{number}": value for number, value in enumerate(values)}
    return modules


async def run_crowd(instruments: Iterable[object], *, limit: int | None) -> dict[str, apass.batch.Outcome[Module]]:
    """Run the pipeline on all modules, at most `limit` of them at once.

    With a limit, the functions of a module run one by one, too.
    """
    async with apass.PassContext(instruments=instruments, max_concurrency=None if limit is None else 1):
        return await apass.optimize_all(crowd(), PIPELINE, limit=limit, errors="collect")


def failing(outcomes: dict[str, apass.batch.Outcome[Module]]) -> set[str]:
    """Return the names of the modules that failed."""
    return {name for name, outcome in outcomes.items() if outcome.error is not None}
