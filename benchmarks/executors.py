"""Cost of executors, compared with plain processes that do the same work.

    PYTHONPATH=. python benchmarks/executors.py [asyncio | trio]

Workers are started and have imported their modules before anything is measured.
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


async def functions(executor: ProcessExecutor) -> None:
    mod = {f"f{index}": 0.02 for index in range(64)}

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
    """Print the longest pause of the event loop while all cores are busy."""
    pauses: list[float] = []

    async def measure_pauses() -> None:
        while True:
            start = time.perf_counter()
            await anyio.sleep(0.001)
            pauses.append(time.perf_counter() - start)

    async with anyio.create_task_group() as group, PassContext(executor=executor):
        group.start_soon(measure_pauses)
        await Burn({f"f{index}": 0.02 for index in range(64)})
        group.cancel_scope.cancel()
    longest = max(pauses)
    print(f"{'ok  ' if longest < 0.02 else 'OVER'} longest gap between two beats of the loop: {longest * 1000:.1f} ms")


async def cluster() -> None:
    """Print the cost per function on a Dask cluster, with functions sent in batches."""
    mod = {f"f{index}": 1.0 for index in range(2000)}
    async with DaskExecutor(workers=CORES) as executor, PassContext(executor=executor):
        await Negate(mod)
        start = time.perf_counter()
        await Negate(mod)
        mean = (time.perf_counter() - start) / len(mod)
    print(f"{'ok  ' if mean < 0.002 else 'OVER'} one of 2000 functions on a Dask cluster: {mean * 1000:.2f} ms")


async def main() -> None:
    executor = ProcessExecutor(workers=CORES)
    await executor.map(burn, [0.05] * 8)
    await functions(executor)
    await batches(executor)
    await responsiveness(executor)
    await cluster()


if __name__ == "__main__":
    anyio.run(main, backend=sys.argv[1] if len(sys.argv) > 1 else "asyncio")
