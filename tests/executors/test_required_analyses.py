"""What the analyses say that a pass requires, in bodies that work elsewhere than in the loop."""

import functools
from collections.abc import Callable

import pytest

from apass import AnalysisError, ExecutorError, Pass, PassContext, analysis, function_pass, module_pass
from apass.core.run import Bodies, current_run
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from apass.runner.fan_out import fan_out
from tests.executors import asking
from tests.executors.asking import Module

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=2)
THREADS = ThreadExecutor(workers=2)
every_executor = pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])
MODULE = {"a": "one two", "b": "three", "c": "one two"}


def elsewhere(pass_: Pass[Module], executor: Executor) -> Pass[Module]:
    """Return a pass that runs the bodies of another one in an executor."""

    @module_pass(opt_level=0)
    async def Elsewhere(mod: Module, ctx: PassContext) -> Module:
        run = current_run()
        assert run is not None
        async with executor.bodies(pass_, mod, ctx) as body:
            made = await fan_out(body, list(mod.values()), mod, ctx, Bodies(run, list(mod), mod), ctx.gate)
        return dict(zip(mod, made, strict=True))

    return Elsewhere


@every_executor
async def test_a_body_finds_what_its_pass_requires(executor: Executor) -> None:
    async with PassContext() as ctx:
        made = await elsewhere(asking.Tell, executor)(MODULE)
    both = "['one', 'two', 'MainThread'] 6"
    assert made == {"a": both, "b": "['three', 'MainThread'] 5", "c": both}
    # Computed in the loop, and once for equal functions.
    assert ctx.analyses.counts["computed"] == 4


@every_executor
async def test_so_does_a_pass_known_by_its_registered_name(executor: Executor) -> None:
    assert await elsewhere(asking.JOINED, executor)(MODULE) == {"a": "one-two", "b": "three", "c": "one-two"}


@every_executor
async def test_what_is_not_required_is_not_there_and_that_is_told(executor: Executor) -> None:
    with pytest.raises(AnalysisError, match="the result of Unasked is not there: name it in the pass's `required`"):
        await elsewhere(asking.TellUnasked, executor)({"a": "one"})


async def test_a_result_that_cannot_go_to_another_process_is_told() -> None:
    assert "lambda" in (await elsewhere(asking.TellUnsendable, THREADS)(MODULE))["a"]
    with pytest.raises(ExecutorError, match="what Unsendable said of function 'a' cannot go to another process"):
        await elsewhere(asking.TellUnsendable, PROCESSES)({"a": "one"})


@every_executor
async def test_an_analysis_that_fails_fails_its_function(executor: Executor) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await elsewhere(function_pass(untouched, opt_level=0, required=[asking.Broken]), executor)({"a": "one"})
    assert "function 'a'" in str(caught.value.__notes__[-1])


def untouched(func: str, mod: Module, ctx: PassContext) -> str:
    return func


def hidden(_func: str) -> int:
    return 1


@pytest.mark.parametrize("function", [hidden, functools.partial(hidden)], ids=["named", "object"])
async def test_an_analysis_that_is_not_to_be_found_by_name_is_told(function: Callable[[str], int]) -> None:
    pass_: Pass[Module] = function_pass(untouched, opt_level=0, required=[analysis(function)])
    with pytest.raises(
        ExecutorError, match=r"the analysis .* is not to be found by name; define it by @apass.analysis"
    ):
        await elsewhere(pass_, PROCESSES)({"a": "one"})


@every_executor
async def test_so_it_is_where_the_context_names_the_executor(executor: Executor) -> None:
    async with PassContext(executor=executor):
        assert await asking.JOINED(MODULE) == {"a": "one-two", "b": "three", "c": "one-two"}
