"""Cost of the runner, compared with the same work in apache-tvm.

python -m benchmarks.against_tvm [--backend asyncio|trio|both] [--rounds 15]
"""

import sys
from collections.abc import Callable
from time import process_time
from typing import Any

import tvm
from tvm import relax
from tvm.ir.instrument import pass_instrument
from tvm.ir.transform import PassContext, Sequential, module_pass
from tvm.script import ir
from tvm.script import relax as script_relax

import apass
from benchmarks.area import Benchmark, main
from benchmarks.measure import compare
from benchmarks.runner import Keep, Nothing, ThreeHooks, module_of


def calls_in_tvm(size: int) -> Callable[[], Any]:
    """Return a job that calls a no-op Python module pass `size` times."""

    @module_pass(opt_level=0)
    def Nothing(mod: Any, ctx: Any) -> Any:
        return mod

    mod = tvm.IRModule()

    def job() -> None:
        for _ in range(size):
            Nothing(mod)

    return job


def sequential_in_tvm(size: int, instruments: int) -> Callable[[], Any]:
    """Return a job that runs a Sequential of `size` no-op Python module passes."""

    @module_pass(opt_level=0)
    def NothingInTvm(mod: Any, ctx: Any) -> Any:
        return mod

    @pass_instrument
    class ThreeHooksInTvm:
        def should_run(self, mod: Any, info: Any) -> bool:
            return True

        def run_before_pass(self, mod: Any, info: Any) -> None: ...

        def run_after_pass(self, mod: Any, info: Any) -> None: ...

    mod = tvm.IRModule()
    pipeline = Sequential([NothingInTvm] * size)
    hooks = [ThreeHooksInTvm() for _ in range(instruments)]

    def job() -> Any:
        with PassContext(instruments=hooks):
            return pipeline(mod)

    return job


def function_pass_in_tvm(size: int) -> Callable[[], Any]:
    """Return a job that runs a no-op relax FunctionPass on `size` functions."""

    @relax.transform.function_pass(opt_level=0)
    def KeepInTvm(func: Any, mod: Any, ctx: Any) -> Any:
        return func

    functions = "".join(
        f"    @R.function\n    def f{index}(x: R.Tensor((2,), 'float32')):\n        return x\n" for index in range(size)
    )
    mod = tvm.script.from_source(f"@I.ir_module\nclass Module:\n{functions}", {"I": ir, "R": script_relax})
    return lambda: KeepInTvm(mod)


async def single_calls(rounds: int) -> None:
    """Compare calls of a no-op pass, from outside of a pass, with apache-tvm."""
    mod: dict[str, int] = {}

    async def ours() -> None:
        for _ in range(1000):
            await Nothing(mod)

    name = "1000 calls of a no-op module pass"
    await compare(name, ours, calls_in_tvm(1000), 1.2, "apache-tvm", rounds, clock=process_time)


async def sequences(rounds: int) -> None:
    """Compare a Sequential of 1000 no-op passes with the same in apache-tvm."""
    mod: dict[str, int] = {}
    pipeline = apass.Sequential([Nothing] * 1000)
    for instruments, bound in ((0, 0.5), (1, 0.6), (4, 0.5)):
        async with apass.PassContext(instruments=[ThreeHooks() for _ in range(instruments)]):
            tvm_job = sequential_in_tvm(1000, instruments)
            name = f"1000 no-op module passes, {instruments} instruments of three hooks"
            await compare(name, lambda: pipeline(mod), tvm_job, bound, "apache-tvm", rounds, clock=process_time)


async def function_passes(rounds: int) -> None:
    """Compare a function pass that does nothing with the same in apache-tvm."""
    thousand = module_of(1000)
    name = "function pass that never suspends, 1000"
    await compare(
        name, lambda: Keep(thousand), function_pass_in_tvm(1000), 1.0, "apache-tvm", rounds, clock=process_time
    )


BENCHMARKS = (Benchmark(single_calls), Benchmark(sequences), Benchmark(function_passes))

if __name__ == "__main__":
    sys.exit(main(__file__, BENCHMARKS))
