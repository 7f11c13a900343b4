"""The same work on apache-tvm, for the benchmarks."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.ir.instrument import pass_instrument
from tvm.ir.transform import PassContext, Sequential, module_pass
from tvm.script import ir
from tvm.script import relax as script_relax


def sequential_in_tvm(size: int, instruments: int) -> Callable[[], Any]:
    """Return a job: a Sequential of `size` module passes written in Python that do nothing."""

    @module_pass(opt_level=0)
    def Nothing(mod: Any, ctx: Any) -> Any:
        return mod

    @pass_instrument
    class ThreeHooks:
        def should_run(self, mod: Any, info: Any) -> bool:
            return True

        def run_before_pass(self, mod: Any, info: Any) -> None: ...

        def run_after_pass(self, mod: Any, info: Any) -> None: ...

    mod = tvm.IRModule()
    many = Sequential([Nothing] * size)
    hooks = [ThreeHooks() for _ in range(instruments)]

    def job() -> Any:
        with PassContext(instruments=hooks):
            return many(mod)

    return job


def function_pass_in_tvm(size: int) -> Callable[[], Any]:
    """Return a job: a relax FunctionPass that keeps each of `size` functions."""

    @relax.transform.function_pass(opt_level=0)
    def Keep(func: Any, mod: Any, ctx: Any) -> Any:
        return func

    functions = "".join(
        f"    @R.function\n    def f{index}(x: R.Tensor((2,), 'float32')):\n        return x\n" for index in range(size)
    )
    mod = tvm.script.from_source(f"@I.ir_module\nclass Module:\n{functions}", {"I": ir, "R": script_relax})
    return lambda: Keep(mod)
