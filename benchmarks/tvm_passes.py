"""TVM's passes in apass, compared with TVM's own loop.

    python -m benchmarks.tvm_passes [--backend asyncio|trio|both] [--rounds 5]

The module is DenseNet-121, imported from ONNX's test data.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

import apass
from apass.adapters.tvm import IRModule
from apass.adapters.tvm.library import tvm
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare

MODEL = Path(onnx.__file__).parent / "backend/test/data/light/light_densenet121.onnx"

MODULES = 8


def densenet() -> IRModule:
    frontend: Any = import_module("tvm.relax.frontend.onnx")
    return frontend.from_onnx(onnx.load_model_from_string(MODEL.read_bytes()))


async def simplify(rounds: int) -> None:
    """Compare canonicalization, common subexpressions and dead code."""
    mod = densenet()
    transform = tvm.relax.transform
    names = ("CanonicalizeBindings", "EliminateCommonSubexpr", "DeadCodeElimination")
    sequence = tvm.transform.Sequential([getattr(transform, name)() for name in names])
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


async def lowered(rounds: int) -> None:
    """Compare a pass over the TIR functions of one module."""
    mod = tvm.relax.transform.LegalizeOps()(densenet())
    target = tvm.tirx.transform.StmtSimplify()
    pass_ = apass.from_tvm(target)

    async def ours() -> object:
        return await pass_(mod)

    await compare("StmtSimplify on 1 module of 427 functions", ours, lambda: target(mod), 1.0, "TVM", rounds)


BENCHMARKS = (Benchmark(simplify, rounds=5), Benchmark(lowered, rounds=5))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
