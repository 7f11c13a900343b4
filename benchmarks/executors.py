"""What executors cost, beside processes that do the same work without them.

    PYTHONPATH=. python benchmarks/executors.py [asyncio | trio]

Workers are started, and have imported what they need, before anything is measured.
"""

import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import anyio
from measure import compare

from apass import PassContext, function_pass
from apass.executors import ProcessExecutor
from apass.executors.dask import DaskExecutor

CORES = 2
ROUNDS = 5

Module = dict[str, Any]


def burn(seconds: float) -> float:
    """Hold a processor for so long of its own time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


@function_pass(opt_level=0)
def Burn(func: float, mod: Module, ctx: PassContext) -> float:
    """Burn 20 ms for each function."""
    return -burn(func)


@function_pass(opt_level=0)
def Negate(func: float, mod: Module, ctx: PassContext) -> float:
    """Do next to nothing."""
    return -func


def burn_all(times: list[float]) -> None:
    for one in times:
        burn(one)


def forked(times: list[float]) -> None:
    """Burn in as many forked processes as there are cores, half of the work each."""
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=burn_all, args=(times[start::CORES],)) for start in range(CORES)]
    for one in started:
        one.start()
    for one in started:
        one.join()


async def functions(executor: ProcessExecutor) -> None:
    mod = {f"f{place}": 0.02 for place in range(64)}

    async def ours() -> object:
        async with PassContext(executor=executor):
            return await Burn(mod)

    await compare("64 functions of 20 ms", ours, lambda: forked([0.02] * 64), 1.1, "2 forked processes", ROUNDS)
    await compare("the same", ours, lambda: burn_all([0.02] * 64), 0.55, "inline", ROUNDS)


async def batches(executor: ProcessExecutor) -> None:
    times = [0.001] * 1000
    with ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("fork")) as pool:
        await compare(
            "1000 calls of 1 ms",
            lambda: executor.map(burn, times),
            lambda: list(pool.map(burn, times, chunksize=25)),
            1.3,
            "ProcessPoolExecutor, in chunks of 25 ms",
            ROUNDS,
        )


async def responsiveness(executor: ProcessExecutor) -> None:
    """Print the longest time between two beats of the loop while all cores are busy."""
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            gaps.append(time.perf_counter() - start)

    async with anyio.create_task_group() as group, PassContext(executor=executor):
        group.start_soon(beat)
        await Burn({f"f{place}": 0.02 for place in range(64)})
        group.cancel_scope.cancel()
    longest = max(gaps)
    print(f"{'ok  ' if longest < 0.02 else 'OVER'} longest gap between two beats of the loop: {longest * 1000:.1f} ms")


async def cluster() -> None:
    """Print what one function costs on a Dask cluster, sent in batches."""
    mod = {f"f{place}": 1.0 for place in range(2000)}
    async with DaskExecutor(workers=CORES) as executor, PassContext(executor=executor):
        await Negate(mod)
        start = time.perf_counter()
        await Negate(mod)
        each = (time.perf_counter() - start) / len(mod)
    print(f"{'ok  ' if each < 0.002 else 'OVER'} one of 2000 functions on a Dask cluster: {each * 1000:.2f} ms")


async def main() -> None:
    executor = ProcessExecutor(workers=CORES)
    await executor.map(burn, [0.05] * 8)
    await functions(executor)
    await batches(executor)
    await responsiveness(executor)
    await cluster()


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1] if len(sys.argv) > 1 else "asyncio")
