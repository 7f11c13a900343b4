"""Cost of executors, compared with plain processes that do the same work.

    python -m benchmarks.executors [--backend asyncio|trio|both] [--rounds 5]

Workers are started and have imported their modules before anything is measured.
"""

import multiprocessing
import sys
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anyio

from apass import PassContext, function_pass
from apass.executors import ProcessExecutor
from apass.executors.dask import DaskExecutor
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare, record

CORES = 2

Module = dict[str, Any]


def burn(seconds: float) -> float:
    """Use `seconds` of processor time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return seconds


@function_pass(opt_level=0)
def Burn(func: float, mod: Module, ctx: PassContext) -> float:
    """Use the processor time that the function denotes."""
    return -burn(func)


@function_pass(opt_level=0)
def Negate(func: float, mod: Module, ctx: PassContext) -> float:
    """Return the negated function."""
    return -func


def burn_all(times: list[float]) -> None:
    for seconds in times:
        burn(seconds)


def forked(times: list[float]) -> None:
    """Do the work in one forked process per core, an equal share each."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=burn_all, args=(times[start::CORES],)) for start in range(CORES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


@asynccontextmanager
async def started_executor() -> AsyncGenerator[ProcessExecutor]:
    """Provide an executor whose workers have run something."""
    executor = ProcessExecutor(workers=CORES)
    await executor.map(burn, [0.05] * 8)
    yield executor


async def functions(rounds: int) -> None:
    """Compare a function pass in processes with forked processes and with none."""
    mod = {f"f{index}": 0.02 for index in range(64)}
    async with started_executor() as executor:

        async def ours() -> object:
            async with PassContext(executor=executor):
                return await Burn(mod)

        await compare("64 functions of 20 ms", ours, lambda: forked([0.02] * 64), 1.1, "2 forked processes", rounds)
        await compare("64 functions of 20 ms", ours, lambda: burn_all([0.02] * 64), 0.55, "inline", rounds)


async def batches(rounds: int) -> None:
    """Compare many short calls with those of a ProcessPoolExecutor."""
    times = [0.001] * 1000
    async with started_executor() as executor:
        with ProcessPoolExecutor(CORES, mp_context=multiprocessing.get_context("fork")) as pool:
            await compare(
                "1000 calls of 1 ms",
                lambda: executor.map(burn, times),
                lambda: list(pool.map(burn, times, chunksize=25)),
                1.3,
                "ProcessPoolExecutor, in chunks of 25 ms",
                rounds,
            )


async def responsiveness(rounds: int) -> None:
    """Record the longest pause of the event loop while all cores are busy.

    The row has the smallest of the rounds.
    """

    async def measure_pauses(pauses: list[float]) -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            pauses.append(time.perf_counter() - start)

    longest: list[float] = []
    async with started_executor() as executor, PassContext(executor=executor):
        for _ in range(rounds):
            pauses: list[float] = []
            async with anyio.create_task_group() as group:
                group.start_soon(measure_pauses, pauses)
                await Burn({f"f{index}": 0.02 for index in range(64)})
                group.cancel_scope.cancel()
            longest.append(max(pauses))
    record("longest gap between two beats of the loop", min(longest), 0.02, 1.0, "limit")


async def cluster(rounds: int) -> None:
    """Record the cost per function on a Dask cluster, with functions sent in batches."""
    mod = {f"f{index}": 1.0 for index in range(2000)}
    async with DaskExecutor(workers=CORES) as executor, PassContext(executor=executor):
        await Negate(mod)
        start = time.perf_counter()
        await Negate(mod)
        mean = (time.perf_counter() - start) / len(mod)
    record("one of 2000 functions on a Dask cluster", mean, 0.002, 1.0, "limit")


BENCHMARKS = (
    Benchmark(functions, rounds=5),
    Benchmark(batches, rounds=5),
    Benchmark(responsiveness, rounds=3),
    Benchmark(cluster, rounds=1),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
