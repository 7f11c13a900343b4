"""Sample runs for reports: passes that wait, nest, fail and make remarks."""

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.lowlevel

import apass
from apass import Remark
from apass.instruments import ReportInstrument

Module = dict[str, int]


@apass.function_pass(opt_level=0)
async def Halve(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    if func % 2:
        return func
    ctx.statistic("halved")
    ctx.remark(Remark.passed("Halved", f"{func} is even", value=func))
    return func // 2


@apass.module_pass(opt_level=0)
async def Nothing(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    return mod


@apass.module_pass(opt_level=0)
def Rebuild(mod: Module, ctx: apass.PassContext) -> Module:
    return dict(mod)


@apass.module_pass(opt_level=0)
async def RefuseNines(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    if -9 in mod.values():
        error = ValueError("minus nine <script>alert(1)</script>")
        error.add_note("nines are bad luck")
        raise error
    return mod


@apass.module_pass(opt_level=0)
def Extend(mod: Module, ctx: apass.PassContext) -> Module:
    return {**mod, **{f"more{n}": n for n in range(3)}}


PIPELINE = apass.Sequential(
    [Nothing, apass.Sequential([Halve, Rebuild], name="Inner"), RefuseNines, Extend, Halve], name="Main"
)


def modules(count: int, size: int = 12) -> dict[str, Module]:
    """Return `count` modules named m0 onwards; every fifth contains a minus nine."""
    return {
        f"m{n}": {f"f{k}": 8 * n + 2 * k for k in range(size)} | {"g": -9 if n % 5 == 4 else 1} for n in range(count)
    }


async def recorded(count: int, *, size: int = 12, limit: int | None = None, **options: Any) -> ReportInstrument:
    """Return the report of a run of the pipeline on `count` modules."""
    report = ReportInstrument("a report", **options)
    async with apass.PassContext(instruments=[report]):
        await apass.optimize_all(modules(count, size), PIPELINE, limit=limit, errors="collect")
    return report


async def rendered(count: int, size: int) -> str:
    """Return the page of a report."""
    return (await recorded(count, size=size)).render()


def in_a_thread(make: Callable[[], Awaitable[str]]) -> str:
    """Return the result of `make`, run in another thread.

    The browser's event loop may already run in the current thread.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, make).result()


def page_of(count: int, *, size: int = 12) -> str:
    """Return the page of a report; callable from any thread."""
    return in_a_thread(lambda: rendered(count, size))
