"""Required analyses: their results are available to bodies in executors."""

import functools
from collections.abc import Callable

import pytest

from apass import Pass, PassContext, analysis, function_pass
from apass.errors import AnalysisError, ExecutorError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.executors import asking
from tests.executors.asking import Module
from tests.helpers.executor_bodies import with_bodies_in

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=2)
THREADS = ThreadExecutor(workers=2)
every_executor = pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])
MODULE = {"a": "one two", "b": "three", "c": "one two"}


@pytest.mark.process
@every_executor
async def test_body_gets_results_of_required_analyses(executor: Executor) -> None:
    async with PassContext() as ctx:
        result = await with_bodies_in(asking.DescribeFunction, executor)(MODULE)
    both = "['one', 'two', 'MainThread'] 6"
    assert result == {"a": both, "b": "['three', 'MainThread'] 5", "c": both}
    # Computed in the event loop, and once for equal functions.
    assert ctx.analyses.counts["computed"] == 4


@every_executor
async def test_registered_pass_gets_results_of_required_analyses(executor: Executor) -> None:
    assert await with_bodies_in(asking.JOINED, executor)(MODULE) == {"a": "one-two", "b": "three", "c": "one-two"}


@every_executor
async def test_unrequired_analysis_raises_in_a_body(executor: Executor) -> None:
    with pytest.raises(
        AnalysisError, match="the result of Unrequired is not available; add the analysis to the pass's `required`"
    ):
        await with_bodies_in(asking.UseUnrequired, executor)({"a": "one"})


async def test_unserializable_analysis_result_raises() -> None:
    assert "lambda" in (await with_bodies_in(asking.UseUnsendable, THREADS)(MODULE))["a"]
    with pytest.raises(
        ExecutorError, match="the result of Unsendable for function 'a' cannot be sent to another process"
    ):
        await with_bodies_in(asking.UseUnsendable, PROCESSES)({"a": "one"})


@every_executor
async def test_failed_analysis_fails_its_function(executor: Executor) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await with_bodies_in(function_pass(untouched, opt_level=0, required=[asking.Broken]), executor)({"a": "one"})
    assert "function 'a'" in str(caught.value.__notes__[-1])


def untouched(func: str, mod: Module, ctx: PassContext) -> str:
    return func


def hidden(_func: str) -> int:
    return 1


@pytest.mark.parametrize("function", [hidden, functools.partial(hidden)], ids=["named", "object"])
async def test_unimportable_analysis_raises(function: Callable[[str], int]) -> None:
    pass_: Pass[Module] = function_pass(untouched, opt_level=0, required=[analysis(function)])
    with pytest.raises(
        ExecutorError, match=r"the analysis .* cannot be imported by name; define it with @apass.analysis"
    ):
        await with_bodies_in(pass_, PROCESSES)({"a": "one"})


@every_executor
async def test_results_are_available_when_context_sets_executor(executor: Executor) -> None:
    async with PassContext(executor=executor):
        assert await asking.JOINED(MODULE) == {"a": "one-two", "b": "three", "c": "one-two"}
