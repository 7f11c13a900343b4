"""TVM's passes in apass, compared with TVM's own loop.

    python -m benchmarks.tvm_passes [--backend asyncio|trio|both] [--rounds 5]

The large module is DenseNet-121, imported from ONNX's test data. The small ones are the models of single operators and
layers there, as far as TVM imports them: modules of 1 to 10 bindings.
"""

import sys
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from time import process_time
from typing import Any

import onnx

import apass
from apass.adapters.tvm import IRModule
from apass.adapters.tvm.library import tvm
from benchmarks.area import Benchmark, main
from benchmarks.measure import Job, compare

MODELS = Path(onnx.__file__).parent / "backend/test/data"

MODULES = 8


def imported(path: Path) -> IRModule:
    frontend: Any = import_module("tvm.relax.frontend.onnx")
    return frontend.from_onnx(onnx.load_model_from_string(path.read_bytes()))


def densenet() -> IRModule:
    return imported(MODELS / "light/light_densenet121.onnx")


def small_modules() -> dict[str, IRModule]:
    """Return the small modules by the names of their files."""
    found: dict[str, IRModule] = {}
    for path in sorted(MODELS.glob("*/**/*.onnx")):
        if path.parent.name == "light":
            continue
        # TVM raises errors of many types for what it does not support.
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            found[str(path.relative_to(MODELS))] = imported(path)
    return found


def sequence_of(*names: str) -> Any:
    """Return a Sequential of TVM with passes of Relax."""
    return tvm.transform.Sequential([getattr(tvm.relax.transform, name)() for name in names])


SIMPLIFY = ("CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination")


async def simplify(rounds: int) -> None:
    """Compare canonicalization, common subexpressions and dead code."""
    mod = densenet()
    sequence = sequence_of(*SIMPLIFY)
    pipeline = apass.from_tvm(sequence)
    modules = {str(index): mod for index in range(MODULES)}

    async def at_once() -> object:
        return await apass.optimize_all(modules, pipeline)

    async def one() -> object:
        return await pipeline(mod)

    def in_turn() -> object:
        return [sequence(mod) for _ in range(MODULES)]

    await compare(f"{MODULES} modules, three passes", at_once, in_turn, 1 / 1.5, "TVM, one after the other", rounds)
    await compare("1 module, three passes", one, lambda: sequence(mod), 1.0, "TVM", rounds)


async def small(rounds: int) -> None:
    """Compare passes over many small modules with TVM's own loop."""
    modules = small_modules()
    for sequence, name, bound in (
        (sequence_of(*SIMPLIFY), "three passes", 3.0),
        # A call of TVM takes 35 us here. The runner, and the comparison that finds unchanged modules, take more.
        (sequence_of("DeadCodeElimination"), "one pass", None),
    ):
        pipeline = apass.from_tvm(sequence)
        jobs: dict[str, Job] = {
            "at once": partial(apass.optimize_all, modules, pipeline),
            "in turn": partial(one_by_one, pipeline, modules.values()),
        }
        for how, job in jobs.items():
            title = f"{len(modules)} small modules {how}, {name}"
            in_tvm = partial(all_in_tvm, sequence, modules.values())
            await compare(title, job, in_tvm, bound, "TVM", rounds, clock=process_time)


async def observed(rounds: int) -> None:
    """Compare three passes over many small modules, with what looks at each pass."""
    modules, sequence = small_modules(), sequence_of(*SIMPLIFY)
    pipeline = apass.from_tvm(sequence)
    in_tvm = partial(all_in_tvm, sequence, modules.values())
    for name, context in (
        ("a hook before each pass", apass.PassContext(instruments=[BeforePass()])),
        ("a hook before each function", apass.PassContext(instruments=[BeforeFunction()])),
        ("a deadline", apass.PassContext(deadline=3600.0)),
    ):
        async with context:
            title = f"{len(modules)} small modules, three passes, {name}"
            job = partial(apass.optimize_all, modules, pipeline)
            await compare(title, job, in_tvm, 8.0, "TVM", rounds, clock=process_time)


class BeforePass(apass.PassInstrument):
    """A hook that does nothing before each pass."""

    def run_before_pass(self, mod: IRModule, info: apass.PassInfo) -> None:
        """Do nothing."""


class BeforeFunction(apass.PassInstrument):
    """A hook that does nothing before each function."""

    def run_before_function(self, func: Any, run: apass.Run) -> None:
        """Do nothing."""


async def one_by_one(pipeline: apass.Pass[IRModule], modules: Iterable[IRModule]) -> None:
    for mod in modules:
        await pipeline(mod)


def all_in_tvm(sequence: Any, modules: Iterable[IRModule]) -> None:
    for mod in modules:
        sequence(mod)


async def lowered(rounds: int) -> None:
    """Compare a pass over the TIR functions of one module."""
    mod = tvm.relax.transform.LegalizeOps()(densenet())
    target = tvm.tirx.transform.StmtSimplify()
    pass_ = apass.from_tvm(target)

    async def ours() -> object:
        return await pass_(mod)

    await compare("StmtSimplify on 1 module of 427 functions", ours, lambda: target(mod), 1.0, "TVM", rounds)


BENCHMARKS = (Benchmark(simplify, rounds=5), Benchmark(small), Benchmark(observed), Benchmark(lowered, rounds=5))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
