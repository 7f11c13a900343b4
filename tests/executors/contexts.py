"""Work that reports the context that it runs in; importable in workers."""

from typing import Any

from apass import Diagnostic, PassContext, current_run, function_pass, module_pass
from apass.core.remarks import Remark
from apass.executors import Executor
from tests.executors.work import Module


def describe(_: object = None) -> list[Any]:
    """Return what a helper function sees of the context, and emit something in it."""
    ctx, run = PassContext.current(), current_run()
    ctx.statistic("described")
    ctx.remark(Remark.passed("Described", "described"))
    ctx.diag_ctx.emit(Diagnostic.note("described"))
    path = None if run is None else [*run.path, run.function, run.module]
    return [ctx.opt_level, ctx.config["tests.executors.step"], PassContext.time_left() < 1000, path]


@function_pass(opt_level=0)
def Describe(func: Any, mod: Module, ctx: PassContext) -> list[Any]:
    """Return whether the context is that of the body, and what a helper sees."""
    return [PassContext.current() is ctx, PassContext.time_left() == float("inf"), *describe()]


@module_pass(opt_level=0)
def DescribeModule(mod: Module, ctx: PassContext) -> Module:
    """Return the same as `Describe`, for a whole module."""
    return {name: [PassContext.current() is ctx, *describe()] for name in mod}


@function_pass(opt_level=0)
class CallHelper:
    """Calls `describe` in an executor."""

    def __init__(self, executor: Executor | None = None) -> None:
        self.executor_of_calls = executor

    async def transform_function(self, func: Any, mod: Module, ctx: PassContext) -> list[Any]:
        """Return what the helper sees, by `call` and by `map`."""
        executor = self.executor_of_calls
        if executor is None:
            return [describe(), describe()]
        return [await executor.call(describe), *await executor.map(describe, [None])]
