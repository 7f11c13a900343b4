"""The benchmarked work in apache-tvm."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.ir.instrument import pass_instrument
from tvm.ir.transform import PassContext, Sequential, module_pass
from tvm.script import ir
from tvm.script import relax as script_relax


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
    def Nothing(mod: Any, ctx: Any) -> Any:
        return mod

    @pass_instrument
    class ThreeHooks:
        def should_run(self, mod: Any, info: Any) -> bool:
            return True

        def run_before_pass(self, mod: Any, info: Any) -> None: ...

        def run_after_pass(self, mod: Any, info: Any) -> None: ...

    mod = tvm.IRModule()
    pipeline = Sequential([Nothing] * size)
    hooks = [ThreeHooks() for _ in range(instruments)]

    def job() -> Any:
        with PassContext(instruments=hooks):
            return pipeline(mod)

    return job


def function_pass_in_tvm(size: int) -> Callable[[], Any]:
    """Return a job that runs a no-op relax FunctionPass on `size` functions."""

    @relax.transform.function_pass(opt_level=0)
    def Keep(func: Any, mod: Any, ctx: Any) -> Any:
        return func

    functions = "".join(
        f"    @R.function\n    def f{index}(x: R.Tensor((2,), 'float32')):\n        return x\n" for index in range(size)
    )
    mod = tvm.script.from_source(f"@I.ir_module\nclass Module:\n{functions}", {"I": ir, "R": script_relax})
    return lambda: Keep(mod)
