"""Cost of the runner, compared with apache-tvm and with bare task groups.

    python benchmarks/runner.py [--backend asyncio|trio] [--rounds 15]

All jobs run in one process. The rows that compare with apache-tvm need `pip install 'apass[bench]'`, and are left out
without.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tracemalloc
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import anyio
from anyio.lowlevel import checkpoint
from measure import compare

import apass

if find_spec("tvm"):
    from against_tvm import calls_in_tvm, function_pass_in_tvm, sequential_in_tvm

HAS_TVM = find_spec("tvm") is not None


@apass.module_pass(opt_level=0)
async def Nothing(mod: Any, ctx: apass.PassContext) -> Any:
    return mod


@apass.function_pass(opt_level=0)
async def Keep(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    return func


@apass.function_pass(opt_level=0)
async def SuspendOnce(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    await suspend(0)
    return func


@apass.function_pass(opt_level=0)
async def Sleep(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    await anyio.sleep(0.01)
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


def report(holds: bool, text: str) -> None:
    """Print a result, marked OVER if its bound does not hold."""
    print("ok  " if holds else "OVER", text, flush=True)


def module_of(size: int) -> dict[str, int]:
    return {f"f{index}": index for index in range(size)}


async def sequences(rounds: int) -> None:
    """Compare a Sequential of 1000 no-op passes with the same in apache-tvm."""
    mod: dict[str, int] = {}
    pipeline = apass.Sequential([Nothing] * 1000)
    for instruments, bound in ((0, 0.5), (1, 0.6), (4, 0.5)):
        async with apass.PassContext(instruments=[ThreeHooks() for _ in range(instruments)]):
            tvm_job = sequential_in_tvm(1000, instruments)
            name = f"1000 no-op module passes, {instruments} instruments of three hooks"
            await compare(name, lambda: pipeline(mod), tvm_job, bound, "apache-tvm", rounds)


async def single_calls(rounds: int) -> None:
    """Compare calls of a no-op pass, from outside of a pass, with apache-tvm."""
    mod: dict[str, int] = {}

    async def ours() -> None:
        for _ in range(1000):
            await Nothing(mod)

    await compare("1000 calls of a no-op module pass", ours, calls_in_tvm(1000), 1.2, "apache-tvm", rounds)


async def in_bare_group(size: int, body: Any, backend: str) -> None:
    """Run a task for each body in a native task group of the event loop."""
    if backend == "asyncio":
        async with asyncio.TaskGroup() as group:
            for index in range(size):
                group.create_task(body(index))
        return
    import trio

    async with trio.open_nursery() as nursery:
        for index in range(size):
            nursery.start_soon(body, index)


async def keep(index: int) -> int:
    return index


async def let_loop_run(index: int) -> int:
    await suspend(0)
    return index


async def nap(index: int) -> int:
    await (asyncio.sleep(0.01) if BACKEND == "asyncio" else anyio.sleep(0.01))
    return index


BACKEND = "asyncio"
suspend: Any = asyncio.sleep


async def fan_outs(rounds: int, backend: str) -> None:
    """Compare function passes with a task for each function in a bare task group."""
    thousand, ten = module_of(1000), module_of(10)
    bare = "bare task group"

    def group(size: int, body: Any) -> Any:
        return lambda: in_bare_group(size, body, backend)

    never = "function pass that never suspends"
    await compare(f"{never}, 1000", lambda: Keep(thousand), group(1000, keep), 0.22, bare, rounds)
    if HAS_TVM:
        tvm_job = function_pass_in_tvm(1000)
        await compare(f"{never}, 1000", lambda: Keep(thousand), tvm_job, 1.0, "apache-tvm", rounds)
    await compare(f"{never}, 10", lambda: Keep(ten), group(10, keep), 1.3, bare, rounds)
    name = "function pass that suspends once, 1000"
    await compare(name, lambda: SuspendOnce(thousand), group(1000, let_loop_run), 0.6, bare, rounds)

    for size in (5, 20):
        code = {f"f{index}": ("load", "add", "mul", "store", "nop") * (size // 5) for index in range(1000)}
        job = lambda code=code: DropNops(code)  # noqa: E731  binds the code of this iteration
        name = f"plain function pass, {size} instructions, drops nops, 1000"
        await compare(name, job, loop(code, without_nops), 1.5, "a for-loop", rounds)
    name = "plain function pass that only adds 1, 1000"
    await compare(name, lambda: Increment(thousand), loop(thousand, add_one), 1.5, "a for-loop", rounds)


def loop(mod: dict[str, Any], body: Any) -> Any:
    """Return a job that runs the body on all functions in a for-loop."""

    def job() -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, func in mod.items():
            result[name] = body(func, mod, None)
        return result

    return job


async def sleepers(rounds: int, backend: str) -> None:
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
            lambda: in_bare_group(100, ten_naps, backend),
            1.15,
            "100 bare tasks",
            rounds // 3,
        )
    report(result.ours <= 0.115, f"that is {result.ours * 1e3:.1f} ms, of at most 115, where the ideal is 100")
    modules = {str(index): module_of(100) for index in range(100)}
    async with apass.PassContext(max_concurrency=None):
        await compare(
            "100 modules of 100 functions sleeping 10 ms",
            lambda: apass.optimize_all(modules, Sleep),
            lambda: in_bare_group(10_000, nap, backend),
            1.7,
            "bare task group",
            rounds // 3,
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
            3,
        )


async def memory() -> None:
    """Print the memory for each function that has not started, without its result."""
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
    report(mean <= 100, f"memory for each function not yet started: {mean:.0f} bytes of at most 100")


async def longest_hold() -> None:
    """Print the longest pause of the event loop while 10,000 bodies of 50 us run."""

    @apass.function_pass(opt_level=0)
    async def Spin(func: int, mod: Any, ctx: apass.PassContext) -> int:
        end = perf_counter() + 50e-6
        while perf_counter() < end:
            pass
        return func

    pauses: list[float] = []

    async def heartbeat() -> None:
        last = perf_counter()
        while True:
            await checkpoint()
            now = perf_counter()
            pauses.append(now - last)
            last = now

    async with anyio.create_task_group() as group:
        group.start_soon(heartbeat)
        await Spin(module_of(10_000))
        group.cancel_scope.cancel()
    longest = max(pauses) * 1e3
    report(longest <= 10, f"longest hold of the loop: {longest:.1f} ms of at most 10")


def imports(rounds: int) -> None:
    """Print the time of `import apass` in a new process, beside `import anyio`."""

    def seconds(module: str) -> float:
        code = f"from time import perf_counter; start = perf_counter(); import {module}; print(perf_counter() - start)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return float(done.stdout)

    pairs = [(seconds("apass"), seconds("anyio")) for _ in range(rounds)]
    ours, other = (statistics.median(column) * 1e3 for column in zip(*pairs, strict=True))
    print(f"     import apass: {ours:.0f} ms, import anyio: {other:.0f} ms", flush=True)


async def main(rounds: int, backend: str) -> None:
    if HAS_TVM:
        await single_calls(rounds)
        await sequences(rounds)
    await fan_outs(rounds, backend)
    await sleepers(rounds, backend)
    await memory()
    await longest_hold()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    imports(args.rounds)
    BACKEND = args.backend
    if BACKEND == "trio":
        import trio

        suspend = trio.sleep
    anyio.run(main, args.rounds, args.backend, backend=args.backend)
