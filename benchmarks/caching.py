"""Savings of caches: shared analyses, hits in memory and on disk, an ONNX corpus.

python -m benchmarks.caching
"""

import statistics
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import onnx

import apass
from apass.adapters.onnx import load_model
from apass.stores import SqliteStore
from benchmarks.area import Benchmark, main
from benchmarks.measure import record, record_rounds

TEST_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@apass.analysis
async def Slow(func: str) -> int:
    await anyio.sleep(0.01)
    return len(func)


@apass.analysis(persistent=True)
def StoredLength(func: str) -> int:
    return len(func)


@apass.function_pass(opt_level=0)
async def RequestSlow(func: str, mod: Any, ctx: apass.PassContext) -> str:
    await ctx.get(Slow, func)
    return func


async def seconds(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long a job takes."""
    start = perf_counter()
    await work()
    return perf_counter() - start


async def shared_analyses(rounds: int) -> None:
    """Request 100 distinct analyses of 10 ms from 10,000 bodies."""
    mod = {f"f{index}": f"body {index % 100:03d}" for index in range(10_000)}
    # The ideal is 10 ms plus the time of the same 10,000 bodies with cached results.
    measured: list[float] = []
    ideal: list[float] = []
    for _ in range(rounds):
        async with apass.PassContext(max_concurrency=None) as ctx:
            first = await seconds(lambda: RequestSlow(mod))
            cached = await seconds(lambda: RequestSlow(mod))
            assert ctx.analyses.counts["computed"] == 100
        measured.append(first)
        ideal.append(cached + 0.01)
    record_rounds("10,000 requests for 100 analyses of 10 ms", measured, ideal, 1.3, "10 ms and cached results")


async def hits(rounds: int) -> None:
    """Request a cached result: in memory, and from a file in a new context."""
    with tempfile.TemporaryDirectory() as folder:
        await hits_in(Path(folder))


async def median_of_gets(ctx: apass.PassContext, funcs: list[str]) -> float:
    """Return the seconds of a request; the median of ten samples."""
    size = len(funcs) // 10
    means: list[float] = []
    for start in range(0, len(funcs), size):
        begin = perf_counter()
        for func in funcs[start : start + size]:
            await ctx.get(StoredLength, func)
        means.append((perf_counter() - begin) / size)
    return statistics.median(means)


async def hits_in(folder: Path) -> None:
    store = SqliteStore(folder / "hits.db")
    async with store, apass.PassContext(store=store) as ctx:
        await ctx.get(StoredLength, "abc")
        mean = await median_of_gets(ctx, ["abc"] * 10_000)
        record("cached analysis in memory", mean, 5e-6, 1.0, "limit")
        funcs = [f"func {index}" for index in range(1000)]
        for func in funcs:
            await ctx.get(StoredLength, func)
    async with store, apass.PassContext(store=store) as ctx:
        await ctx.get(StoredLength, "abc")
        mean = await median_of_gets(ctx, funcs)
        assert ctx.analyses.counts["stored"] == 1001
        record("cached analysis on disk", mean, 100e-6, 1.0, "limit")


async def corpus(rounds: int) -> None:
    """Optimize the models of onnx's test data twice with one result file."""
    durations: list[tuple[float, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            durations.append(await optimize_twice(Path(folder)))
    first, second = zip(*durations, strict=True)
    record_rounds("ONNX models optimized a second time", list(second), list(first), 1 / 5, "the first time")


async def optimize_twice(folder: Path) -> tuple[float, float]:
    """Return the seconds of both times."""
    paths = sorted(TEST_DATA.rglob("*.onnx"))
    pipeline: apass.Pass[Any] = apass.parse_pipeline("onnx.Default")
    store = SqliteStore(folder / "corpus.db")
    durations: list[float] = []
    async with store:
        for _ in range(2):
            models = {str(path): load_model(path) for path in paths}
            async with apass.PassContext(store=store):
                durations.append(await seconds(partial(apass.optimize_all, models, pipeline)))
    return durations[0], durations[1]


BENCHMARKS = (
    Benchmark(shared_analyses, rounds=7, quick=True),
    Benchmark(hits, rounds=1, quick=True),
    Benchmark(corpus, rounds=1),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
