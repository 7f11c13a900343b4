"""Savings of caches: shared analyses, stored results, an ONNX corpus, snapshots.

python -m benchmarks.caching
"""

import random
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
import onnx
import onnx_ir

import apass
from apass.adapters.onnx import load_model
from apass.batch.snapshot_folder import SnapshotFolder
from apass.core.adapter import adapter_for
from apass.stores import SqliteStore
from benchmarks.area import Benchmark, main
from benchmarks.measure import record, record_rounds, seconds

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


async def snapshots(rounds: int) -> None:
    """Write a snapshot of 100 MB of weights, and one with the same weights."""
    first: list[float] = []
    second: list[float] = []
    bare: list[float] = []
    model = weighted_model(100)
    dumps = partial(adapter_for(model).dumps, model)
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            write = partial(SnapshotFolder(Path(folder)).write, "model", ["0:Pass"], model)
            bare.append(await seconds(dumps))
            first.append(await seconds(write))
            model.metadata_props["round"] = str(number)
            second.append(await seconds(write))
    record_rounds("first snapshot of 100 MB of weights", first, bare, 6.0, "dumps of the adapter")
    record_rounds("snapshot with unchanged weights", second, bare, 3.0, "dumps of the adapter")


def weighted_model(megabytes: int) -> Any:
    """Return a model with one addition of random weights for each megabyte."""
    source = random.Random(0)
    names = [f"w{index}" for index in range(megabytes)]
    size = 250_000
    weights = [
        onnx.TensorProto(dims=[size], data_type=onnx.TensorProto.FLOAT, name=name, raw_data=source.randbytes(4 * size))
        for name in names
    ]
    nodes = [onnx.helper.make_node("Add", [f"x{index}", name], [f"x{index + 1}"]) for index, name in enumerate(names)]
    first, last = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [size]) for name in ("x0", f"x{megabytes}")
    )
    graph = onnx.helper.make_graph(nodes, "weighted", [first], [last], initializer=weights)
    return onnx_ir.from_proto(onnx.helper.make_model(graph))


BENCHMARKS = (
    Benchmark(shared_analyses, rounds=7, quick=True),
    Benchmark(hits, rounds=1, quick=True),
    Benchmark(corpus, rounds=1),
    Benchmark(snapshots, rounds=5),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
