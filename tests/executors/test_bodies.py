"""Bodies of function passes in threads and processes: the same results as in the loop's thread."""

import os
import threading
from contextlib import suppress
from time import sleep
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from apass import (
    Diagnostic,
    ExecutorError,
    FunctionPass,
    Pass,
    PassContext,
    PassDefinitionError,
    PassInfo,
    PassResultError,
    PassTimeoutError,
    RemoteError,
    Sequential,
    function_pass,
    get_pass,
    optimize_all,
)
from apass.core.remarks import Remark
from apass.core.run import Run
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.executors import work
from tests.executors.work import Module, OddError

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=2)
THREADS = ThreadExecutor(workers=2)
scale: Any = work.Scale
every_executor = pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])


@every_executor
async def test_every_function_is_worked_on_with_the_options_of_the_context(executor: Executor) -> None:
    async with PassContext(executor=executor, config={"tests.executors.step": 3}):
        result = await work.Increment({f"f{i}": i for i in range(100)})
    assert result == {f"f{i}": i + 3 for i in range(100)}


@every_executor
async def test_where_no_function_changes_the_same_module_comes_back(executor: Executor) -> None:
    mod = {"a": 1, "b": 3}
    async with PassContext(executor=executor):
        assert await work.IncrementEven(mod) is mod
        assert await work.IncrementEven({**mod, "c": 2}) == {"a": 1, "b": 3, "c": 3}


@every_executor
async def test_a_body_knows_where_it_stands_and_sees_the_whole_module(executor: Executor) -> None:
    async with PassContext(opt_level=3, executor=executor):
        results: Any = await optimize_all({"first": {"a": 1, "b": 2}}, Sequential([work.WhereItRan], name="Outer"))
    for name, (pid, thread, *rest) in results["first"].items():
        assert rest == [name, "first", ["Outer", "WhereItRan"], ["a", "b"], 3]
        assert (pid, thread) != (os.getpid(), threading.get_ident())


@every_executor
async def test_no_body_sees_the_contextvars_that_another_set(executor: Executor) -> None:
    async with PassContext(executor=executor):
        assert set((await work.WhatOthersSet({f"f{i}": "x" for i in range(20)})).values()) == {"nothing"}


@every_executor
async def test_passes_of_every_making_go_there(executor: Executor) -> None:
    scaled: Pass[Module] = scale(by=10)
    passes: list[Pass[Module]] = [
        get_pass("Scale", by=3),
        work.Shift(4),
        get_pass("tests.ByFactory", by=7),
        scaled,
    ]
    async with PassContext(executor=executor):
        assert await Sequential(passes)({"a": 1}) == {"a": 140}


@every_executor
async def test_an_error_comes_back_with_its_notes_and_says_where(executor: Executor) -> None:
    async with PassContext(executor=executor):
        with pytest.raises(LookupError, match="plain") as caught:
            await work.Fail({"a": "fine", "b": "plain"})
    notes = caught.value.__notes__
    assert (notes[0], str(notes[-1])) == ("about plain", "in pass 'Fail', function 'b'")


async def test_an_error_of_another_process_brings_its_traceback_along() -> None:
    async with PassContext(executor=PROCESSES):
        with pytest.raises(LookupError) as caught:
            await work.Fail({"b": "plain"})
        assert "raised in process" in caught.value.__notes__[1]
        assert "work.py" in caught.value.__notes__[1]
        with pytest.raises(RemoteError, match="OddError: odd: no") as odd:
            await work.Fail({"b": "odd"})
        assert odd.value.__notes__[0] == "about odd"
    async with PassContext(executor=THREADS):
        with pytest.raises(OddError):
            await work.Fail({"b": "odd"})


async def test_what_cannot_come_back_fails_alone_and_says_so() -> None:
    async with PassContext(executor=PROCESSES) as ctx:
        with pytest.raises(ExecutorError, match="what pass 'Unsendable' made of function 'b' cannot come back"):
            await work.Unsendable({"a": "fine", "b": "bad"})
        keeping = function_pass(work.Unsendable.transform_function, opt_level=0, name="Unsendable", on_error="keep")
        # Named like the pass that is to be found there, but another one: it goes nowhere.
        with pytest.raises(ExecutorError, match="is not to be found by name"):
            await keeping({"a": "fine"})
        assert ctx.diag_ctx.diagnostics == ()


@every_executor
async def test_a_body_that_returns_nothing_is_told_of(executor: Executor) -> None:
    async with PassContext(executor=executor):
        with pytest.raises(PassResultError, match="pass 'Nothing' returned None for function 'a'"):
            await work.Nothing({"a": "x"})


class Listener:
    """Keeps what passes say."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        self.heard.append((run and run.function, name, amount))

    def on_remark(self, remark: Remark) -> None:
        self.heard.append((remark.function, remark.pass_name, remark.message, dict(remark.args)))


@every_executor
async def test_what_a_pass_says_is_heard(executor: Executor) -> None:
    listener = Listener()
    async with PassContext(executor=executor, instruments=[listener]) as ctx:
        await work.Report({"a": "x"})
    assert ctx.diag_ctx.diagnostics == (Diagnostic.warning("saw x"),)
    assert listener.heard == [("a", "seen", 2), ("a", "Report", "saw x", {"times": 2})]


@every_executor
async def test_modules_that_are_no_json_go_there_too(executor: Executor) -> None:
    async with PassContext(executor=executor):
        assert await work.WhatOthersSet({"a": (1, 2), "b": {3: 4}}) == {"a": "nothing", "b": "nothing"}
        assert await work.Shift(1)({"a": 1j, "b": 1}) == {"a": 1 + 1j, "b": 2}


async def test_a_pass_that_is_nowhere_to_be_found_says_what_to_do() -> None:
    def same(func: int, mod: Module, ctx: PassContext) -> int:
        return func

    nameless = function_pass(same, opt_level=0, name="Nameless")
    async with PassContext(executor=PROCESSES):
        with pytest.raises(ExecutorError, match=r"pass 'Nameless' cannot go to another process: .*register_pass"):
            await nameless({"a": 1})
    async with PassContext(executor=THREADS):
        assert await nameless({"a": 1}) == {"a": 1}


async def test_a_module_of_what_cannot_be_sent_says_so() -> None:
    async with PassContext(executor=PROCESSES):
        with pytest.raises(ExecutorError, match=r"a module cannot go to another process: .*JSON.*pickle"):
            await work.Nothing({"a": lambda: 1})


async def test_the_pass_has_the_last_word_on_where_it_runs() -> None:
    pids: list[int] = []

    def Here(func: Any, mod: Module, ctx: PassContext) -> Any:
        pids.append(os.getpid())
        return func

    async with PassContext(executor="process"):
        await function_pass(Here, opt_level=0, executor="inline")({"a": 1})
        await function_pass(Here, opt_level=0, executor="thread")({"a": 1})
    assert pids == [os.getpid(), os.getpid()]


async def test_an_async_body_is_not_for_executors() -> None:
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func + 1

    async with PassContext(executor=PROCESSES):
        assert await function_pass(Wait, opt_level=0)({"a": 1}) == {"a": 2}
    with pytest.raises(PassDefinitionError, match="has an executor, which runs plain functions; its body is async"):
        await function_pass(Wait, opt_level=0, executor="thread")({"a": 1})


@every_executor
async def test_a_plain_body_that_returns_what_is_to_be_awaited_is_refused(executor: Executor) -> None:
    async with PassContext(executor=executor):
        with pytest.raises(ExecutorError, match="which is to be awaited; an executor runs plain functions only"):
            await work.ReturnsCoroutine({"a": 1})


def held(timeout: float) -> Pass[Module]:
    """Return a pass whose bodies take so many seconds as their functions say."""

    def hold(func: float, mod: Module, ctx: PassContext) -> float:
        sleep(func)
        return -func

    return function_pass(hold, opt_level=0, name="Hold", timeout=timeout)


async def test_the_time_of_a_body_counts_from_its_start_and_not_from_its_place_in_line() -> None:
    async with PassContext(executor=THREADS):
        # On a machine that stalls, a fifth of its time may take a body longer than all of it, but not of ever more.
        for seconds in (0.5, 4, 32):
            mod = {f"f{i}": seconds / 5 for i in range(12)}
            with suppress(PassTimeoutError):
                assert await held(seconds)(mod) == {name: -func for name, func in mod.items()}
                break
        else:
            pytest.fail("bodies in line ran out of time")
        with pytest.raises(PassTimeoutError, match=r"the body of pass 'Hold' took longer than 0\.5 s"):
            await held(0.5)({"a": 0.7})


def test_what_is_no_executor_is_refused() -> None:
    with pytest.raises(ValueError, match="PassContext names the executor 'proces'; did you mean 'process'"):
        PassContext(executor="proces")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="PassContext takes an executor or the name of one, not 3"):
        PassContext(executor=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(PassDefinitionError, match="function_pass takes an executor"):
        function_pass(opt_level=1, executor=ThreadExecutor)(lambda func, mod, ctx: func)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(ValueError, match="workers must be an int of at least 1, not 0"):
        ProcessExecutor(workers=0)
    with pytest.raises(ValueError, match="timeout must be a number of seconds above 0"):
        ProcessExecutor(timeout=0)


class Foreign(FunctionPass[Module, int]):
    """A pass whose subclass names no executor that there is."""

    info = PassInfo(opt_level=0, name="Foreign")
    executor = "nowhere"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func


async def test_a_subclass_with_a_wrong_executor_is_told_so() -> None:
    with pytest.raises(
        ValueError, match="names the executor 'nowhere'; known are inline, interpreter, process, thread"
    ):
        await Foreign()({"a": 1})
