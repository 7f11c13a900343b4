"""Passes of xDSL on modules in two processes, and on one module.

    python -m benchmarks.xdsl [--backend asyncio|trio|both] [--rounds 5]

The peer applies the same passes of xDSL to clones of the modules, one after the other, and verifies each result, as
`xdsl-opt` does.
"""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import apass
from apass.adapters.xdsl.text import new_context, parse_module
from apass.executors import ProcessExecutor
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare

MODULES = 8
SIMPLIFY = ("canonicalize", "cse")
LOWER = (
    "convert-linalg-to-loops",
    "scf-for-loop-unroll",
    "canonicalize",
    "cse",
    "convert-memref-to-riscv",
    "convert-arith-to-riscv",
    "convert-func-to-riscv-func",
    "reconcile-unrealized-casts",
    "canonicalize",
)
"""Passes that lower products of matrices to RISC-V."""


def sums(functions: int, operations: int) -> Any:
    """Return a module of sums, of which every second one is unnecessary."""
    lines: list[str] = []
    for index in range(functions):
        lines.append(f"func.func @f{index}(%a: i32, %b: i32) -> i32 {{")
        lines.append("  %zero = arith.constant 0 : i32")
        last = "%a"
        for number in range(operations):
            other = "%zero" if number % 2 else "%b"
            lines.append(f"  %v{number} = arith.addi {last}, {other} : i32")
            last = f"%v{number}"
        lines.append(f"  func.return {last} : i32\n}}")
    return parse_module("\n".join(lines) + "\n", "benchmark")


def product(rows: int, columns: int) -> Any:
    """Return a module with a product of two small matrices."""
    return parse_module(
        f"""
        func.func @product(%a: memref<{rows}x4xf64>, %b: memref<4x{columns}xf64>, %c: memref<{rows}x{columns}xf64>) {{
          linalg.generic {{
            indexing_maps = [
              affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>
            ],
            iterator_types = ["parallel", "parallel", "reduction"]
          }} ins(%a, %b: memref<{rows}x4xf64>, memref<4x{columns}xf64>) outs(%c : memref<{rows}x{columns}xf64>) {{
          ^bb0(%x: f64, %y: f64, %z: f64):
            %product = arith.mulf %x, %y : f64
            %sum = arith.addf %product, %z : f64
            linalg.yield %sum : f64
          }}
          func.return
        }}
        """,
        "benchmark",
    )


def one_after_the_other(modules: Iterable[Any], names: Sequence[str]) -> list[Any]:
    """Apply passes as xDSL does, which changes clones of the modules."""
    from xdsl.universe import Universe

    passes = Universe.get_multiverse().all_passes
    context, clones = new_context(), [mod.clone() for mod in modules]
    for clone in clones:
        for name in names:
            passes[name]()().apply(context, clone)
            clone.verify()
    return clones


def pipeline_of(names: Sequence[str]) -> apass.Pass[Any]:
    """Return the passes of apass with these names."""
    return apass.parse_pipeline(",".join(f"xdsl.{name}" for name in names))


async def many_modules(rounds: int) -> None:
    """Compare a lowering of eight modules in two processes."""
    modules = {str(index): product(4 + index % 2, 4) for index in range(MODULES)}
    executor, pipeline = ProcessExecutor(workers=2), pipeline_of(LOWER)
    await apass.optimize_all(modules, pipeline, executor=executor)

    async def at_once() -> object:
        return await apass.optimize_all(modules, pipeline, executor=executor)

    title, peer = f"{MODULES} modules lowered in two processes", "xDSL, one after the other"
    await compare(title, at_once, lambda: one_after_the_other(modules.values(), LOWER), 1 / 1.6, peer, rounds)


async def one_module(rounds: int) -> None:
    """Compare two passes on one module."""
    mod, pipeline = sums(30, 60), pipeline_of(SIMPLIFY)

    async def ours() -> object:
        return await pipeline(mod)

    await compare("1 module of 30 functions", ours, lambda: one_after_the_other([mod], SIMPLIFY), 1.25, "xDSL", rounds)


BENCHMARKS = (Benchmark(many_modules, rounds=3), Benchmark(one_module, rounds=15))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
