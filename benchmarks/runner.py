"""Cost of the runner, compared with bare task groups and loops.

python -m benchmarks.runner [--backend asyncio|trio|both] [--rounds 15]
"""

import asyncio
import sys
import tracemalloc
from functools import partial
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

import apass
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare, record, session


@apass.module_pass(opt_level=0)
async def Nothing(mod: Any, ctx: apass.PassContext) -> Any:
    return mod


@apass.function_pass(opt_level=0)
async def Keep(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    return func


@apass.function_pass(opt_level=0)
async def Sleep(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    await anyio.sleep(0.01)
    return func


@apass.function_pass(opt_level=0)
async def TwoSteps(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    await checkpoint()
    return func


Code = tuple[str, ...]


def without_nops(func: Code, mod: Any, ctx: Any) -> Code:
    """Return the function without its nops; the work of a small pass."""
    return tuple(instruction for instruction in func if instruction != "nop")


DropNops = apass.function_pass(without_nops, opt_level=0)


def add_one(func: int, mod: Any, ctx: Any) -> int:
    """Return the function plus 1.

    The work is so small that the measured time is the cost of the runner.
    """
    return func + 1


Increment = apass.function_pass(add_one, opt_level=0, name="Increment")


@apass.pass_instrument
class ThreeHooks:
    """Instrument with three hooks that do nothing."""

    def should_run(self, mod: Any, info: apass.PassInfo) -> bool:
        """Return true for every pass."""
        return True

    def run_before_pass(self, mod: Any, info: apass.PassInfo) -> None:
        """Do nothing."""

    def run_after_pass(self, mod: Any, info: apass.PassInfo) -> None:
        """Do nothing."""


def module_of(size: int) -> dict[str, int]:
    return {f"f{index}": index for index in range(size)}


def native_sleep() -> Any:
    """Return the sleep of the event loop itself."""
    return asyncio.sleep if session().backend == "asyncio" else trio_module().sleep


def trio_module() -> Any:
    """Return trio, which is not installed for every run."""
    return import_module("trio")


async def in_bare_group(size: int, body: Any) -> None:
    """Run a task for each body in a native task group of the event loop."""
    if session().backend == "asyncio":
        async with asyncio.TaskGroup() as group:
            for index in range(size):
                group.create_task(body(index))
        return
    async with trio_module().open_nursery() as nursery:
        for index in range(size):
            nursery.start_soon(body, index)


async def keep(index: int) -> int:
    return index


async def nap(index: int) -> int:
    await (asyncio.sleep(0.01) if session().backend == "asyncio" else anyio.sleep(0.01))
    return index


async def fan_outs(rounds: int) -> None:
    """Compare function passes with a task for each function in a bare task group."""
    thousand, ten = module_of(1000), module_of(10)
    sleep = native_sleep()

    @apass.function_pass(opt_level=0)
    async def SuspendOnce(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
        await sleep(0)
        return func

    async def let_loop_run(index: int) -> int:
        await sleep(0)
        return index

    bare = "bare task group"

    def group(size: int, body: Any) -> Any:
        return lambda: in_bare_group(size, body)

    never = "function pass that never suspends"
    await compare(f"{never}, 1000", lambda: Keep(thousand), group(1000, keep), 0.22, bare, rounds, clock=process_time)
    await compare(f"{never}, 10", lambda: Keep(ten), group(10, keep), 1.3, bare, rounds, clock=process_time)
    name = "function pass that suspends once, 1000"
    await compare(name, lambda: SuspendOnce(thousand), group(1000, let_loop_run), 0.6, bare, rounds, clock=process_time)

    for size in (5, 20):
        code = {f"f{index}": ("load", "add", "mul", "store", "nop") * (size // 5) for index in range(1000)}
        job = partial(DropNops, code)
        name = f"plain function pass, {size} instructions, drops nops, 1000"
        await compare(name, job, loop(code, without_nops), 1.5, "a for-loop", rounds, clock=process_time)
    name = "plain function pass that only adds 1, 1000"
    await compare(
        name, lambda: Increment(thousand), loop(thousand, add_one), 1.5, "a for-loop", rounds, clock=process_time
    )


def loop(mod: dict[str, Any], body: Any) -> Any:
    """Return a job that runs the body on all functions in a for-loop."""

    def job() -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, func in mod.items():
            result[name] = body(func, mod, None)
        return result

    return job


async def sleepers(rounds: int) -> None:
    """Compare sleeping bodies with the ideal time and with a bare task group."""
    thousand = module_of(1000)

    async def ten_naps(index: int) -> None:
        for _ in range(10):
            await nap(index)

    async with apass.PassContext(max_concurrency=99):
        name = "1000 functions sleeping 10 ms, limit 100"
        result = await compare(
            name,
            lambda: Sleep(thousand),
            lambda: in_bare_group(100, ten_naps),
            1.15,
            "100 bare tasks",
            rounds,
        )
    record(name, result.ours, 0.1, 1.15, "ideal time")
    modules = {str(index): module_of(100) for index in range(100)}
    async with apass.PassContext(max_concurrency=None):
        await compare(
            "100 modules of 100 functions sleeping 10 ms",
            lambda: apass.optimize_all(modules, Sleep),
            lambda: in_bare_group(10_000, nap),
            1.7,
            "bare task group",
            rounds,
        )

        async def one_by_one() -> None:
            for mod in modules.values():
                await Sleep(mod)

        await compare(
            "the same, against module after module",
            lambda: apass.optimize_all(modules, Sleep),
            one_by_one,
            1 / 6,
            "one module at a time",
            max(rounds // 2, 1),
        )


async def interleaving(rounds: int) -> None:
    """Run 1,000 bodies of two steps in an order drawn from a seed, one by one."""
    mod = module_of(1000)

    async def in_order() -> None:
        async with apass.PassContext():
            await TwoSteps(mod)

    async def drawn() -> None:
        async with apass.PassContext(instruments=[apass.testing.scheduled(1)]):
            await TwoSteps(mod)

    await compare("1,000 bodies of two steps with scheduled(1)", drawn, in_order, 100.0, "without scheduled", rounds)


async def memory(rounds: int) -> None:
    """Record the memory for each function that has not started, without its result."""
    size = 100_000
    mod = module_of(size)
    sizes: list[int] = []

    @apass.function_pass(opt_level=0)
    async def Measure(func: int, mod: Any, ctx: apass.PassContext) -> int:
        if func == 1:
            sizes.append(tracemalloc.get_traced_memory()[0])
        await checkpoint()
        return func

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await Measure(mod)
    tracemalloc.stop()
    mean = (sizes[0] - before) / size
    record("memory for each function not yet started", mean, 100, 1.0, "limit", unit="bytes")


async def longest_hold(rounds: int) -> None:
    """Record the longest pause of the event loop while 10,000 bodies of 50 us run.

    The row has the smallest of the rounds, because other processes only add to a pause.
    """

    @apass.function_pass(opt_level=0)
    async def Spin(func: int, mod: Any, ctx: apass.PassContext) -> int:
        end = perf_counter() + 50e-6
        while perf_counter() < end:
            pass
        return func

    async def heartbeat(pauses: list[float]) -> None:
        last = perf_counter()
        while True:
            await checkpoint()
            now = perf_counter()
            pauses.append(now - last)
            last = now

    longest: list[float] = []
    for _ in range(rounds):
        pauses: list[float] = []
        async with anyio.create_task_group() as group:
            group.start_soon(heartbeat, pauses)
            await Spin(module_of(10_000))
            group.cancel_scope.cancel()
        longest.append(max(pauses))
    record("longest hold of the loop", min(longest), 0.01, 1.0, "limit")


BENCHMARKS = (
    Benchmark(fan_outs, quick=True),
    Benchmark(sleepers, rounds=5),
    Benchmark(interleaving, rounds=7),
    Benchmark(memory, rounds=1, quick=True),
    Benchmark(longest_hold, rounds=5, quick=True),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
