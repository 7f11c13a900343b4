"""Passes of `mlir-opt` on modules and on the functions of one module.

python -m benchmarks.mlir [--backend asyncio|trio|both] [--rounds 7]

The peer starts `mlir-opt` for one module after the other, with the same pipeline.
"""

import subprocess
import sys
from functools import partial

import apass
from apass.adapters.mlir import MLIRModule
from apass.adapters.programs import MLIR_OPT
from apass.concurrency.limits import usable_cores
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare

PIPELINE = "mlir.canonicalize{anchor=func.func},mlir.cse{anchor=func.func},mlir.sccp{anchor=func.func}"
PEER = "--pass-pipeline=builtin.module(func.func(canonicalize,cse,sccp))"
BOUND = 1 / 1.7
"""The bound on two cores."""

SMALL_BOUND = 0.6 if usable_cores() > 1 else 1.2
"""The bound for modules for which `mlir-opt` takes hardly longer than its start."""


def module_of(functions: int, operations: int) -> MLIRModule:
    """Return a module of functions that add and multiply."""
    lines: list[str] = []
    for index in range(functions):
        lines.append(f"func.func @f{index}(%a: i32, %b: i32) -> i32 {{")
        last = "%a"
        for number in range(operations):
            operation = "addi" if number % 3 else "muli"
            lines.append(f"  %v{number} = arith.{operation} {last}, %b : i32")
            last = f"%v{number}"
        lines.append(f"  return {last} : i32\n}}")
    return MLIRModule("\n".join(lines) + "\n")


def one_after_the_other(modules: list[MLIRModule]) -> list[bytes]:
    """Run `mlir-opt` on each module."""
    command = [str(MLIR_OPT.find()), PEER]
    return [subprocess.run(command, input=mod.text.encode(), capture_output=True, check=True).stdout for mod in modules]


async def many_modules(rounds: int) -> None:
    """Run three passes on 16 modules of 300 kB each."""
    modules = [module_of(20 + index, 350) for index in range(16)]
    pipeline = apass.parse_pipeline(PIPELINE)
    job = partial(apass.optimize_all, modules, pipeline)
    await compare("16 modules", job, partial(one_after_the_other, modules), BOUND, "mlir-opt in turn", rounds)


async def one_module(rounds: int) -> None:
    """Run three passes on one module of 300 functions and 4 MB."""
    mod = module_of(300, 350)
    pipeline = apass.parse_pipeline(PIPELINE)
    await compare(
        # mlir-opt itself uses all cores for the functions of a module.
        "300 functions",
        partial(pipeline, mod),
        partial(one_after_the_other, [mod]),
        BOUND,
        "mlir-opt",
        rounds,
    )


async def small_modules(rounds: int) -> None:
    """Run three passes on 40 modules of three functions each."""
    modules = [module_of(2 + index % 3, 10) for index in range(40)]
    pipeline = apass.parse_pipeline(PIPELINE)
    job = partial(apass.optimize_all, modules, pipeline)
    peer = partial(one_after_the_other, modules)
    await compare("40 small modules", job, peer, SMALL_BOUND, "mlir-opt in turn", rounds)


def _needs() -> tuple[str, ...]:
    """Return what is missing, under its usual name."""
    try:
        MLIR_OPT.find()
    except apass.errors.MissingExtraError:
        return ("mlir-opt",)
    return ()


BENCHMARKS = (
    Benchmark(many_modules, rounds=7, needs=_needs()),
    Benchmark(one_module, rounds=7, needs=_needs()),
    Benchmark(small_modules, rounds=7, needs=_needs()),
)

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
