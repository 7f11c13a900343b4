"""Whole passes in executors run with the options of the caller's context."""

from typing import Any

import pytest

import apass
from apass import PassContext, Sequential, analysis, function_pass, module_pass, optimize_all
from apass.core.run import current_run
from apass.errors import AnalysisError, ExecutorError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.helpers.executor_bodies import with_bodies_in
from tests.helpers.pinned import Add, Grow, Pinned

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

every_executor = pytest.mark.parametrize(
    "executor", [ThreadExecutor(workers=1), ProcessExecutor(workers=1)], ids=["threads", "processes"]
)


@module_pass(opt_level=0)
def Disabled(mod: Module, ctx: PassContext) -> Module:
    """Add a key that shows that the pass ran."""
    return {**mod, "disabled": "ran"}


@module_pass(opt_level=4)
def Required(mod: Module, ctx: PassContext) -> Module:
    """Add a key that shows that the pass ran."""
    return {**mod, "required": "ran"}


@module_pass(opt_level=0)
def RecordOptions(mod: Module, ctx: PassContext) -> Module:
    """RecordOptions the options of the context."""
    return {**mod, "options": [ctx.opt_level, ctx.max_concurrency, ctx.exit_grace]}


@pytest.mark.process
@every_executor
async def test_whole_pass_runs_with_options_of_the_context(executor: Executor) -> None:
    ctx = PassContext(1, ["Required"], ["Disabled"], max_concurrency=7, exit_grace=3.5)
    async with ctx:
        result = await optimize_all({"m": {"f": 1}}, Sequential([Disabled, Required, RecordOptions]), executor=executor)
    assert result == {"m": {"f": 1, "required": "ran", "options": [1, 7, 3.5]}}


async def test_module_that_is_not_thread_safe_is_rejected() -> None:
    with pytest.raises(ExecutorError, match="a Pinned is not thread-safe, so threads cannot run passes on it"):
        await optimize_all({"m": Pinned(f=1)}, Add, executor="thread")
    async with PassContext(executor="thread"):
        with pytest.raises(apass.errors.ExecutorError, match="use executor='process'"):
            await Grow(Pinned(f=1))


async def test_body_in_thread_sees_its_function_name() -> None:
    def name(func: str, mod: Module, ctx: PassContext) -> str:
        run = current_run()
        assert run is not None
        return str(run.function)

    async with PassContext(executor=ThreadExecutor(workers=2)):
        result = await function_pass(name, opt_level=0)({f"f{index}": "" for index in range(20)})
    assert result == {name: name for name in result}


async def test_required_results_reach_threads_when_cache_is_full() -> None:
    @analysis
    def Length(func: str) -> int:
        return len(func)

    def grow(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(Length, func)

    async with PassContext() as ctx:
        ctx.analyses._limit = 1  # pyright: ignore[reportPrivateUsage]
        pass_ = function_pass(grow, opt_level=0, required=[Length])
        result = await with_bodies_in(pass_, ThreadExecutor(workers=1))(
            {f"f{index}": "a" * index for index in range(1, 9)}
        )
    assert [len(func) for func in result.values()] == [index * index for index in range(1, 9)]


async def test_analysis_with_other_options_is_missing() -> None:
    @analysis
    def Length(func: str, *, factor: int = 1) -> int:
        return len(func) * factor

    def look(func: str, mod: Module, ctx: PassContext) -> str:
        return str(ctx.got(Length, func, factor=2))

    with pytest.raises(AnalysisError, match="the result of Length is not available"):
        await with_bodies_in(function_pass(look, opt_level=0, required=[Length]), ThreadExecutor(workers=1))(
            {"f": "ab"}
        )
