"""Whole passes elsewhere run under the options of the context that they were sent from."""

from typing import Any

import pytest

import apass
from apass import (
    AnalysisError,
    ExecutorError,
    PassContext,
    Sequential,
    analysis,
    function_pass,
    module_pass,
    optimize_all,
)
from apass.core.run import current_run
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.adapters.test_pinned import Add, Grow, Pinned
from tests.executors.test_required_analyses import elsewhere

pytestmark = pytest.mark.anyio

Module = dict[str, Any]

every_executor = pytest.mark.parametrize(
    "executor", [ThreadExecutor(workers=1), ProcessExecutor(workers=1)], ids=["threads", "processes"]
)


@module_pass(opt_level=0)
def Disabled(mod: Module, ctx: PassContext) -> Module:
    """Say that it ran."""
    return {**mod, "disabled": "ran"}


@module_pass(opt_level=4)
def Required(mod: Module, ctx: PassContext) -> Module:
    """Say that it ran."""
    return {**mod, "required": "ran"}


@module_pass(opt_level=0)
def Tell(mod: Module, ctx: PassContext) -> Module:
    """Tell the options of the context."""
    return {**mod, "told": [ctx.opt_level, ctx.max_concurrency, ctx.exit_grace]}


@every_executor
async def test_a_whole_pass_runs_under_the_options_of_the_context(executor: Executor) -> None:
    ctx = PassContext(1, ["Required"], ["Disabled"], max_concurrency=7, exit_grace=3.5)
    async with ctx:
        made = await optimize_all({"m": {"f": 1}}, Sequential([Disabled, Required, Tell]), executor=executor)
    assert made == {"m": {"f": 1, "required": "ran", "told": [1, 7, 3.5]}}


async def test_what_may_not_be_worked_on_in_a_thread_is_told() -> None:
    with pytest.raises(ExecutorError, match="a Pinned may not be worked on in a thread beside others"):
        await optimize_all({"m": Pinned(f=1)}, Add, executor="thread")
    async with PassContext(executor="thread"):
        with pytest.raises(apass.ExecutorError, match="use executor='process'"):
            await Grow(Pinned(f=1))


async def test_a_body_in_a_thread_knows_which_function_it_is_at() -> None:
    def name(func: str, mod: Module, ctx: PassContext) -> str:
        run = current_run()
        assert run is not None
        return str(run.function)

    async with PassContext(executor=ThreadExecutor(workers=2)):
        made = await function_pass(name, opt_level=0)({f"f{place}": "" for place in range(20)})
    assert made == {name: name for name in made}


async def test_what_a_body_in_a_thread_requires_is_there_even_if_there_is_room_for_one_result() -> None:
    @analysis
    def Length(func: str) -> int:
        return len(func)

    def grow(func: str, mod: Module, ctx: PassContext) -> str:
        return func * ctx.got(Length, func)

    async with PassContext() as ctx:
        ctx.analyses._limit = 1  # pyright: ignore[reportPrivateUsage]
        pass_ = function_pass(grow, opt_level=0, required=[Length])
        made = await elsewhere(pass_, ThreadExecutor(workers=1))({f"f{place}": "a" * place for place in range(1, 9)})
    assert [len(func) for func in made.values()] == [place * place for place in range(1, 9)]


async def test_options_that_were_not_asked_with_are_not_there() -> None:
    @analysis
    def Length(func: str, *, factor: int = 1) -> int:
        return len(func) * factor

    def look(func: str, mod: Module, ctx: PassContext) -> str:
        return str(ctx.got(Length, func, factor=2))

    with pytest.raises(AnalysisError, match="the result of Length is not there"):
        await elsewhere(function_pass(look, opt_level=0, required=[Length]), ThreadExecutor(workers=1))({"f": "ab"})
