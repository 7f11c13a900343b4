"""Cost of `optimize_all` and `optimize_stream`, of journals and of stores.

    python benchmarks/many_modules.py [--backend asyncio|trio] [--rounds 15]

A peer runs the same pass in a bare task group of the event loop: a task for each module, and a semaphore. The peer of
journals and stores is the same run without one. The times of these are CPU times of the process, because most of the
work is that of one core, and threads of other programs count less.
"""

import argparse
import asyncio
import gc
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import process_time
from typing import Any

import anyio
import onnx
from measure import Ratio, compare, seconds

import apass
from apass.adapters.onnx import load_model
from apass.stores import SqliteStore

LIMIT = 256
CORPUS = Path(onnx.__file__).parent / "backend" / "test" / "data"
backend = "asyncio"
suspend: Any = asyncio.sleep

Module = dict[str, int]


@apass.module_pass(opt_level=0)
async def Nothing(mod: Module, ctx: apass.PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
async def SuspendOnce(mod: Module, ctx: apass.PassContext) -> Module:
    await suspend(0)
    return mod


@apass.module_pass(opt_level=0)
async def Increment(mod: Module, ctx: apass.PassContext) -> Module:
    return {name: func + 1 for name, func in mod.items()}


Increment.cacheable = True


def modules_of(size: int) -> list[Module]:
    return [{"f": index} for index in range(size)]


async def in_bare_group(modules: Sequence[Module], pass_: apass.Pass[Module]) -> list[Module]:
    """Run the pass in a task for each module, at most `LIMIT` at once."""
    results: list[Any] = [None] * len(modules)
    if backend == "asyncio":
        slots: Any = asyncio.Semaphore(LIMIT)
    else:
        import trio

        slots = trio.Semaphore(LIMIT)

    async def run(index: int, mod: Module) -> None:
        async with slots:
            results[index] = await pass_(mod)

    if backend == "asyncio":
        async with asyncio.TaskGroup() as group:
            for index, mod in enumerate(modules):
                group.create_task(run(index, mod))
    else:
        import trio

        async with trio.open_nursery() as nursery:
            for index, mod in enumerate(modules):
                nursery.start_soon(run, index, mod)
    return results


async def streamed(modules: Sequence[Module], pass_: apass.Pass[Module]) -> list[Any]:
    """Return all outcomes of a stream."""
    async with apass.optimize_stream(modules, pass_, limit=LIMIT) as outcomes:
        return [outcome async for outcome in outcomes]


async def small_modules(rounds: int) -> None:
    """Compare passes that hardly do anything with a bare task group."""
    modules = modules_of(1000)
    for pass_, text, bound in ((Nothing, "never suspends", 0.5), (SuspendOnce, "suspends once", 0.8)):
        bare = lambda pass_=pass_: in_bare_group(modules, pass_)  # noqa: E731  binds the pass of this iteration
        ours: dict[str, Any] = {
            "optimize_all": lambda pass_=pass_: apass.optimize_all(modules, pass_, limit=LIMIT),
            "optimize_stream": lambda pass_=pass_: streamed(modules, pass_),
        }
        for name, job in ours.items():
            await compare(f"{name}, 1000 modules, pass {text}", job, bare, bound, "bare task group", rounds)


async def linearity(rounds: int) -> None:
    """Compare the time for each of 50,000 modules with that for each of 1,000."""
    few, many = modules_of(1000), modules_of(50_000)
    jobs: dict[str, Callable[[Sequence[Module]], Awaitable[Any]]] = {
        "optimize_all": lambda modules: apass.optimize_all(modules, Nothing, limit=LIMIT),
        "optimize_stream": lambda modules: streamed(modules, Nothing),
    }
    for name, job in jobs.items():
        times: list[tuple[float, float]] = []
        await seconds(lambda job=job: job(many))
        for _ in range(max(5, rounds // 3)):
            of_many = await seconds(lambda job=job: job(many)) / 50_000
            of_few = await seconds(lambda job=job: job(few), 50) / 1000
            times.append((of_many, of_few))
        ours, other = (statistics.median(column) for column in zip(*times, strict=True))
        print(Ratio(f"{name}, each of 50,000 modules", ours, other, 1.15, "each of 1,000 modules"), flush=True)


async def cpu_seconds(modules: Any, pass_: apass.Pass[Any], store: SqliteStore | None, journal: Any) -> float:
    """Return the CPU time of a run."""
    async with AsyncExitStack() as stack:
        if store is not None:
            await stack.enter_async_context(store)
        await stack.enter_async_context(apass.PassContext(store=store))
        gc.collect()
        start = process_time()
        await apass.optimize_all(modules, pass_, limit=LIMIT, journal=journal)
        return process_time() - start


async def with_results(name: str, modules: Callable[[], Any], pass_: apass.Pass[Any], bounds: Any, rounds: int) -> None:
    """Compare first runs with a journal or a store with runs without."""
    times: dict[str, list[float]] = {"none": [], **{kind: [] for kind in bounds}}
    await cpu_seconds(modules(), pass_, None, None)
    with tempfile.TemporaryDirectory() as folder:
        for index in range(rounds):
            for kind, column in times.items():
                path = Path(folder) / f"{kind}{index}"
                journals = {"journal": path, "journal with fsync": apass.Journal(path, fsync=True)}
                store = SqliteStore(path) if kind == "store" else None
                column.append(await cpu_seconds(modules(), pass_, store, journals.get(kind)))
    medians = {kind: statistics.median(column) for kind, column in times.items()}
    for kind, bound in bounds.items():
        print(Ratio(f"{name}, {kind}", medians[kind], medians["none"], bound, "the same without"), flush=True)


def corpus() -> dict[str, Any]:
    """Return the models of onnx's test data."""
    return {str(path): load_model(path) for path in sorted(CORPUS.rglob("*.onnx"))}


async def journals_and_stores(rounds: int) -> None:
    """Compare first runs with a journal or a store with runs that have none."""
    rounds = max(5, rounds // 3)
    default: apass.Pass[Any] = apass.parse_pipeline("onnx.Default")
    await with_results("149 ONNX models, onnx.Default", corpus, default, {"journal": 1.05, "store": 1.15}, rounds)
    none = float("inf")
    bounds = {"journal": none, "journal with fsync": none, "store": none}
    await with_results("1000 tiny modules", lambda: modules_of(1000), Increment, bounds, rounds)


async def main(rounds: int) -> None:
    """Run all comparisons."""
    await small_modules(rounds)
    await linearity(rounds)
    await journals_and_stores(rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    backend = options.backend
    if backend == "trio":
        suspend = anyio.sleep
    anyio.run(main, options.rounds, backend=backend)
