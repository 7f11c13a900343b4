"""Cost of `optimize_all` and `optimize_stream`, of journals and of stores.

python -m benchmarks.many_modules [--backend asyncio|trio|both] [--rounds 15]

A peer runs the same pass in a bare task group of the event loop: a task for each module, and a semaphore. The peer of
journals and stores is the same run without one.
"""

import asyncio
import gc
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import onnx

import apass
from apass.adapters.onnx import load_model
from apass.stores import SqliteStore
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare, record_rounds, seconds, session
from benchmarks.runner import native_sleep, trio_module

LIMIT = 256
CORPUS = Path(onnx.__file__).parent / "backend" / "test" / "data"

Module = dict[str, int]


@apass.module_pass(opt_level=0)
async def Nothing(mod: Module, ctx: apass.PassContext) -> Module:
    return mod


@apass.module_pass(opt_level=0)
async def SuspendOnce(mod: Module, ctx: apass.PassContext) -> Module:
    await native_sleep()(0)
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
    is_asyncio = session().backend == "asyncio"
    slots: Any = asyncio.Semaphore(LIMIT) if is_asyncio else trio_module().Semaphore(LIMIT)

    async def run(index: int, mod: Module) -> None:
        async with slots:
            results[index] = await pass_(mod)

    if is_asyncio:
        async with asyncio.TaskGroup() as group:
            for index, mod in enumerate(modules):
                group.create_task(run(index, mod))
    else:
        async with trio_module().open_nursery() as nursery:
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
        bare = partial(in_bare_group, modules, pass_)
        jobs: dict[str, Callable[[], Awaitable[Any]]] = {
            "optimize_all": partial(apass.optimize_all, modules, pass_, limit=LIMIT),
            "optimize_stream": partial(streamed, modules, pass_),
        }
        for name, job in jobs.items():
            label = f"{name}, 1000 modules, pass {text}"
            await compare(label, job, bare, bound, "bare task group", rounds, clock=process_time)


async def linearity(rounds: int) -> None:
    """Compare the time for each of 50,000 modules with that for each of 1,000."""
    few, many = modules_of(1000), modules_of(50_000)
    jobs: dict[str, Callable[[Sequence[Module]], Awaitable[Any]]] = {
        "optimize_all": lambda modules: apass.optimize_all(modules, Nothing, limit=LIMIT),
        "optimize_stream": lambda modules: streamed(modules, Nothing),
    }
    for name, job in jobs.items():
        of_many: list[float] = []
        of_few: list[float] = []
        await seconds(partial(job, many))
        for _ in range(rounds):
            of_many.append(await seconds(partial(job, many), clock=process_time) / 50_000)
            of_few.append(await seconds(partial(job, few), 50, process_time) / 1000)
        record_rounds(f"{name}, each of 50,000 modules", of_many, of_few, 1.15, "each of 1,000 modules")


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
                journals = {"journal": path, "journal with fsync": apass.batch.Journal(path, fsync=True)}
                store = SqliteStore(path) if kind == "store" else None
                column.append(await cpu_seconds(modules(), pass_, store, journals.get(kind)))
    for kind, bound in bounds.items():
        record_rounds(f"{name}, {kind}", times[kind], times["none"], bound, "the same without")


def corpus() -> dict[str, Any]:
    """Return the models of onnx's test data."""
    return {str(path): load_model(path) for path in sorted(CORPUS.rglob("*.onnx"))}


async def journals_and_stores(rounds: int) -> None:
    """Compare first runs with a journal or a store with runs that have none."""
    default: apass.Pass[Any] = apass.parse_pipeline("onnx.Default")
    await with_results("149 ONNX models, onnx.Default", corpus, default, {"journal": 1.05, "store": 1.15}, rounds)
    unbounded = dict.fromkeys(("journal", "journal with fsync", "store"))
    await with_results("1000 tiny modules", partial(modules_of, 1000), Increment, unbounded, rounds)


BENCHMARKS = (
    Benchmark(small_modules, quick=True),
    Benchmark(linearity, rounds=5),
    Benchmark(journals_and_stores, rounds=5),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
