"""Tune TIR functions of TVM: build candidates, run them, keep the fastest.

    pip install "apass[tvm]"
    python examples/tune_tir.py                          # three matrix products
    python examples/tune_tir.py --sizes 64 96 --backend trio

The measurements of a function are an async analysis, and all functions are tuned at once. Worker processes build the
candidates with LLVM, and reject those with other outputs, however fast they are. The others are timed one after the
other, so that timings do not disturb each other. The exit status is 1 if a tuned function computes something else.
"""

import argparse
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from importlib import import_module
from math import inf
from time import perf_counter
from typing import Any, Final

import anyio
import numpy as np

import apass
from apass.executors import ProcessExecutor

TILES: Final = (4, 8, 16, 32)
ROUNDS: Final = 5
ENTRY: Final = "tuned"
"""The name of a function in the library that is built for it."""

EXECUTOR: ContextVar[ProcessExecutor] = ContextVar("executor")
RUNNING: ContextVar[anyio.Lock] = ContextVar("running")

PRODUCT: Final = """
    @T.prim_func(s_tir=True)
    def product_{n}(A: T.Buffer(({n}, {n}), "float32"), B: T.Buffer(({n}, {n}), "float32"),
                    C: T.Buffer(({n}, {n}), "float32")):
        for i, j, k in T.grid({n}, {n}, {n}):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def products(sizes: Sequence[int]) -> Any:
    """Return a module with a matrix product of each size."""
    adapter: Any = import_module("apass.adapters.tvm")
    return adapter.from_script("@I.ir_module\nclass Module:\n" + "".join(PRODUCT.format(n=n) for n in sizes))


def tiled(func: Any, tile: int) -> Any:
    """Return a function with tiles of a size, or the function itself for 0."""
    if not tile:
        return func
    tvm: Any = import_module("tvm")
    schedule = tvm.s_tir.Schedule(tvm.IRModule({ENTRY: func}))
    schedule.work_on(ENTRY)
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    (outer_i, inner_i), (outer_j, inner_j) = (schedule.split(loop, [None, tile]) for loop in (i, j))
    schedule.reorder(outer_i, outer_j, k, inner_i, inner_j)
    schedule.vectorize(inner_j)
    schedule.decompose_reduction(block, k)
    return schedule.mod[ENTRY]


def build(text: str, tile: int) -> Any:
    """Return the compiled library of a candidate; in a worker process."""
    tvm: Any = import_module("tvm")
    candidate = tiled(tvm.ir.load_json(text)[ENTRY], tile).with_attr("global_symbol", ENTRY)
    return tvm.compile(tvm.IRModule({ENTRY: candidate}), target="llvm")[ENTRY]


def arguments_of(func: Any) -> tuple[Any, list[Any]]:
    """Return the product and the arguments: two random matrices, and its place."""
    tvm: Any = import_module("tvm")
    n = int(func.params[0].shape[0])
    random = np.random.default_rng(0)
    left, right = (random.standard_normal((n, n)).astype("float32") for _ in range(2))
    return left @ right, [tvm.runtime.tensor(array) for array in (left, right, np.zeros((n, n), "float32"))]


def is_right(text: str, tile: int) -> bool:
    """Return whether a candidate computes the product; in a worker process."""
    tvm: Any = import_module("tvm")
    expected, arguments = arguments_of(tvm.ir.load_json(text)[ENTRY])
    build(text, tile)(*arguments)
    return bool(np.allclose(arguments[2].numpy(), expected, rtol=1e-3, atol=1e-3))


def seconds_of(text: str, tile: int) -> float:
    """Return the shortest time of a run of a candidate; in a worker process."""
    tvm: Any = import_module("tvm")
    function, (_, arguments) = build(text, tile), arguments_of(tvm.ir.load_json(text)[ENTRY])
    seconds = inf
    for _ in range(ROUNDS):
        start = perf_counter()
        function(*arguments)
        seconds = min(seconds, perf_counter() - start)
    return seconds


def as_text(func: Any) -> str:
    """Return TVM's JSON of a function, for a worker process."""
    tvm: Any = import_module("tvm")
    text: str = tvm.ir.save_json(tvm.IRModule({ENTRY: func}))
    return text


@apass.analysis
async def Measurements(func: Any) -> dict[int, float]:
    """Return the seconds of each tile size that is right; 0 is the function itself."""
    text, results = as_text(func), dict[int, float]()

    async def attempt(tile: int) -> None:
        if await EXECUTOR.get().call(is_right, text, tile):
            async with RUNNING.get():
                results[tile] = await EXECUTOR.get().call(seconds_of, text, tile)

    async with anyio.create_task_group() as group:
        for tile in (0, *TILES):
            group.start_soon(attempt, tile)
    return results


@apass.prim_func_pass(opt_level=1)
async def Tune(func: Any, mod: Any, ctx: apass.PassContext) -> Any:
    """Use the fastest candidate of a function."""
    seconds = await ctx.get(Measurements, func)
    tile = min(seconds, key=seconds.__getitem__)
    print(f"{func.attrs['global_symbol']}: tiles of {tile or 'no'}, {seconds[0] / seconds[tile]:.1f} times as fast")
    return tiled(func, tile)


async def tune(sizes: Sequence[int]) -> tuple[Any, bool]:
    """Return the tuned module, and whether all functions compute the same as before."""
    mod = products(sizes)
    async with ProcessExecutor() as executor, apass.PassContext():
        EXECUTOR.set(executor)
        RUNNING.set(anyio.Lock())
        tuned = await Tune(mod)
        checks = [await executor.call(is_right, as_text(func), 0) for _, func in tuned.functions_items()]
    return tuned, all(checks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune matrix products; return the exit status."""
    parser = argparse.ArgumentParser(description="Tune matrix products in TIR.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 128, 192], help="multiples of 32")
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    options = parser.parse_args(arguments)
    _, is_equal = anyio.run(tune, options.sizes, backend=options.backend)
    print("the tuned functions compute the same" if is_equal else "a tuned function computes something else")
    return not is_equal


if __name__ == "__main__":
    sys.exit(main())
