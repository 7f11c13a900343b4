"""Tune TIR functions of TVM: search the options of a pass, keep the fastest.

    pip install "apass[tvm]"
    python examples/tune_tir.py                          # three matrix products
    python examples/tune_tir.py --sizes 64 96 --evaluations 30 --backend trio

Worker processes build the candidates. Those that do not compute the product are rejected, however fast they are. The
others run alternately with the original function, one after the other on a core that the workers do not use.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, Literal

import anyio
import numpy as np

import apass
from apass.adapters.tvm import ADAPTER, IRModule, from_script
from apass.executors import ProcessExecutor
from apass.search import Attempt, Candidate, SearchResult, search
from apass.search.named_objectives import find_objective

tvm: Any = import_module("tvm")

SPACE: Final = "tir.Tile{tile=?(0|4|8|16|32),inner=?}"


@apass.register_pass("tir.Tile")
def tile_pass(tile: int = 0, inner: Literal["serial", "vectorize", "unroll"] = "serial") -> apass.Pass[Any]:
    """Compute a product by tiles of a size; 0 leaves it as it is."""

    @apass.prim_func_pass(opt_level=0, name="tir.Tile")
    def Tile(func: Any, _mod: IRModule, _ctx: apass.PassContext) -> Any:
        if not tile:
            return func
        schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": func}))
        block = schedule.get_sblock("C")
        i, j, k = schedule.get_loops(block)
        (outer_i, inner_i), (outer_j, inner_j) = (schedule.split(loop, [None, tile]) for loop in (i, j))
        schedule.reorder(outer_i, outer_j, k, inner_i, inner_j)
        if inner != "serial":
            getattr(schedule, inner)(inner_j)
        schedule.decompose_reduction(block, k)
        return schedule.mod["main"]

    return Tile


def product(n: int) -> IRModule:
    """Return a module that computes the product of two matrices."""
    matrix = f'T.Buffer(({n}, {n}), "float32")'
    return from_script(f"""
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def main(A: {matrix}, B: {matrix}, C: {matrix}):
        for i, j, k in T.grid({n}, {n}, {n}):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""")


def is_product(data: bytes, n: int) -> bool:
    """Return whether a module computes the product of NumPy; in a worker process."""
    left, right = np.random.default_rng(0).standard_normal((2, n, n)).astype("float32")
    arguments = [tvm.runtime.tensor(array) for array in (left, right, np.zeros((n, n), "float32"))]
    tvm.compile(ADAPTER.loads(data), target="llvm")["main"](*arguments)
    return bool(np.allclose(arguments[2].numpy(), left @ right, rtol=1e-3, atol=1e-3))


async def tune(sizes: Sequence[int], evaluations: int) -> SearchResult[IRModule]:
    """Return the best schedule for the product of each size."""
    measured: Any = find_objective(["latency"])
    with apass.MeasurementLane().reserved():
        async with ProcessExecutor() as executor:

            async def latency(candidate: Candidate[IRModule], attempt: Attempt) -> Any:
                if not await executor.call(is_product, ADAPTER.dumps(candidate.module), int(candidate.name)):
                    raise ValueError("the candidate does not compute the product")
                return await measured(candidate, attempt)

            modules = {str(n): product(n) for n in sizes}
            budget = evaluations * len(modules)
            return await search(modules, SPACE, latency, strategy="random", budget=budget, executor=executor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune matrix products."""
    parser = argparse.ArgumentParser(description="Tune matrix products in TIR.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 192], help="multiples of 32")
    parser.add_argument("--evaluations", type=int, default=15, help="candidates for each product")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args(arguments)
    result = anyio.run(tune, options.sizes, options.evaluations, backend=options.backend)
    for n, found in result.modules.items():
        print(f"product of {n}: {found.pipeline or 'as it is'}, {1 / found.values['latency']:.1f} times as fast")


if __name__ == "__main__":
    main()
