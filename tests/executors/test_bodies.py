"""Bodies of function passes in threads and processes: results as inline."""

import os
import threading
from contextlib import suppress
from time import sleep
from typing import Any

import pytest
from anyio.lowlevel import checkpoint

from apass import (
    Diagnostic,
    DiagnosticLevel,
    FunctionPass,
    Pass,
    PassContext,
    PassInfo,
    Sequential,
    function_pass,
    get_pass,
    optimize_all,
)
from apass.core.remarks import Remark
from apass.core.run import Run
from apass.errors import ExecutorError, PassDefinitionError, PassResultError, PassTimeoutError, RemoteError
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from tests.executors import work
from tests.executors.work import Module, OddError

pytestmark = pytest.mark.anyio

PROCESSES = ProcessExecutor(workers=2)
THREADS = ThreadExecutor(workers=2)
scale: Any = work.Scale
every_executor = pytest.mark.parametrize("executor", [THREADS, PROCESSES], ids=["threads", "processes"])


@pytest.mark.process
@every_executor
async def test_bodies_run_with_config_of_the_context(executor: Executor) -> None:
    async with PassContext(executor=executor, config={"tests.executors.step": 3}):
        result = await work.Increment({f"f{i}": i for i in range(100)})
    assert result == {f"f{i}": i + 3 for i in range(100)}


@pytest.mark.process
async def test_worker_announces_the_functions_of_a_batch() -> None:
    names = [f"f{index}" for index in range(100)]
    async with PassContext(executor=PROCESSES):
        result = await work.Together()(dict.fromkeys(names, 0))
    assert all(name in together for name, together in result.items())
    assert max(map(len, result.values())) > 1


@every_executor
async def test_module_is_returned_itself_when_nothing_changes(executor: Executor) -> None:
    mod = {"a": 1, "b": 3}
    async with PassContext(executor=executor):
        assert await work.IncrementEven(mod) is mod
        assert await work.IncrementEven({**mod, "c": 2}) == {"a": 1, "b": 3, "c": 3}


@every_executor
async def test_body_sees_its_run_and_the_module(executor: Executor) -> None:
    async with PassContext(opt_level=3, executor=executor):
        results: Any = await optimize_all({"first": {"a": 1, "b": 2}}, Sequential([work.Location], name="Outer"))
    for name, (pid, thread, *rest) in results["first"].items():
        assert rest == [name, "first", ["Outer", "Location"], ["a", "b"], 3]
        assert (pid, thread) != (os.getpid(), threading.get_ident())


@every_executor
async def test_body_does_not_see_contextvars_of_others(executor: Executor) -> None:
    async with PassContext(executor=executor):
        assert set((await work.ReturnPreviousValue({f"f{i}": "x" for i in range(20)})).values()) == {"nothing"}


@every_executor
async def test_passes_of_every_kind_run_in_workers(executor: Executor) -> None:
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
async def test_error_keeps_notes_and_gains_the_location(executor: Executor) -> None:
    async with PassContext(executor=executor):
        with pytest.raises(LookupError, match="plain") as caught:
            await work.Fail({"a": "fine", "b": "plain"})
    notes = caught.value.__notes__
    assert (notes[0], str(notes[-1])) == ("about plain", "in pass 'Fail', function 'b'")


async def test_error_from_process_contains_its_traceback() -> None:
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


async def test_unserializable_result_fails_only_its_function() -> None:
    async with PassContext(executor=PROCESSES) as ctx:
        with pytest.raises(ExecutorError, match="the result of pass 'Unsendable' for function 'b' cannot be sent back"):
            await work.Unsendable({"a": "fine", "b": "bad"})
        keeping = function_pass(work.Unsendable.transform_function, opt_level=0, name="Unsendable", on_error="keep")
        # It has the name of the importable pass but is another object, so it cannot be pickled.
        with pytest.raises(ExecutorError, match="cannot be imported by name"):
            await keeping({"a": "fine"})
        assert ctx.diag_ctx.diagnostics == ()


@every_executor
async def test_none_from_a_body_raises_pass_result_error(executor: Executor) -> None:
    async with PassContext(executor=executor):
        with pytest.raises(PassResultError, match="pass 'Nothing' returned None for function 'a'"):
            await work.Nothing({"a": "x"})


class Listener:
    """Instrument that records statistics and remarks."""

    def __init__(self) -> None:
        self.received: list[Any] = []

    def on_statistic(self, run: Run | None, name: str, amount: float) -> None:
        self.received.append((run and run.function, name, amount))

    def on_remark(self, remark: Remark) -> None:
        self.received.append((remark.function, remark.pass_name, remark.message, dict(remark.args)))


@every_executor
async def test_diagnostics_statistics_and_remarks_are_sent_back(executor: Executor) -> None:
    listener = Listener()
    async with PassContext(executor=executor, instruments=[listener]) as ctx:
        await work.Report({"a": "x"})
    assert ctx.diag_ctx.diagnostics == (Diagnostic(DiagnosticLevel.WARNING, "saw x", None, "Report", "a"),)
    assert listener.received == [("a", "seen", 2), ("a", "Report", "saw x", {"times": 2})]


@every_executor
async def test_modules_outside_json_are_pickled(executor: Executor) -> None:
    async with PassContext(executor=executor):
        assert await work.ReturnPreviousValue({"a": (1, 2), "b": {3: 4}}) == {"a": "nothing", "b": "nothing"}
        assert await work.Shift(1)({"a": 1j, "b": 1}) == {"a": 1 + 1j, "b": 2}


async def test_unimportable_pass_error_suggests_a_fix() -> None:
    def same(func: int, mod: Module, ctx: PassContext) -> int:
        return func

    nameless = function_pass(same, opt_level=0, name="Nameless")
    async with PassContext(executor=PROCESSES):
        with pytest.raises(ExecutorError, match=r"pass 'Nameless' cannot be sent to another process: .*register_pass"):
            await nameless({"a": 1})
    async with PassContext(executor=THREADS):
        assert await nameless({"a": 1}) == {"a": 1}


async def test_unserializable_module_raises_executor_error() -> None:
    async with PassContext(executor=PROCESSES):
        with pytest.raises(ExecutorError, match=r"a module cannot be sent to another process: .*JSON.*pickle"):
            await work.Nothing({"a": lambda: 1})


async def test_executor_of_the_pass_overrides_the_context() -> None:
    pids: list[int] = []

    def Here(func: Any, mod: Module, ctx: PassContext) -> Any:
        pids.append(os.getpid())
        return func

    async with PassContext(executor="process"):
        await function_pass(Here, opt_level=0, executor="inline")({"a": 1})
        await function_pass(Here, opt_level=0, executor="thread")({"a": 1})
    assert pids == [os.getpid(), os.getpid()]


async def test_pass_may_keep_bodies_of_small_modules_inline() -> None:
    class Where(FunctionPass[Module, Any], opt_level=0, executor="thread"):
        def runs_inline(self, mod: Module) -> bool:
            return len(mod) == 1

        def transform_function(self, func: Any, mod: Module, ctx: PassContext) -> bool:
            return threading.current_thread() is threading.main_thread()

    assert await Where()({"a": 1}) == {"a": True}
    assert await Where()({"a": 1, "b": 2}) == {"a": False, "b": False}


async def test_async_body_runs_in_loop_despite_executor() -> None:
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        return func + 1

    async with PassContext(executor=PROCESSES):
        assert await function_pass(Wait, opt_level=0)({"a": 1}) == {"a": 2}
    with pytest.raises(PassDefinitionError, match="has an executor, but its body is async; executors run plain ones"):
        await function_pass(Wait, opt_level=0, executor="thread")({"a": 1})


@every_executor
async def test_plain_body_that_returns_awaitable_is_rejected(executor: Executor) -> None:
    async with PassContext(executor=executor):
        with pytest.raises(ExecutorError, match=r"returned the awaitable .*; an executor runs plain functions only"):
            await work.ReturnsCoroutine({"a": 1})


def make_slow_pass(timeout: float) -> Pass[Module]:
    """Return a pass whose bodies sleep for the number of seconds in their function."""

    def hold(func: float, mod: Module, ctx: PassContext) -> float:
        sleep(func)
        return -func

    return function_pass(hold, opt_level=0, name="Hold", timeout=timeout)


@pytest.mark.slow
async def test_timeout_starts_when_body_starts() -> None:
    async with PassContext(executor=THREADS):
        # On a slow machine a body may exceed even five times its duration. Retry with longer durations.
        for seconds in (0.5, 4, 32):
            mod = {f"f{i}": seconds / 5 for i in range(12)}
            with suppress(PassTimeoutError):
                assert await make_slow_pass(seconds)(mod) == {name: -func for name, func in mod.items()}
                break
        else:
            pytest.fail("queued bodies exceeded the timeout")
        with pytest.raises(PassTimeoutError, match=r"the body of pass 'Hold' took longer than 0\.5 s"):
            await make_slow_pass(0.5)({"a": 0.7})


def test_invalid_executor_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="PassContext names the executor 'proces'; did you mean 'process'"):
        PassContext(executor="proces")
    with pytest.raises(TypeError, match="PassContext takes an executor or the name of one, got 3"):
        PassContext(executor=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(PassDefinitionError, match="function_pass takes an executor"):
        function_pass(opt_level=1, executor=ThreadExecutor)(lambda func, mod, ctx: func)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(ValueError, match="workers must be a positive int, got 0"):
        ProcessExecutor(workers=0)
    with pytest.raises(ValueError, match="timeout must be a positive number of seconds or None, got 0"):
        ProcessExecutor(timeout=0)


class Foreign(FunctionPass[Module, int]):
    """A pass that names an unknown executor."""

    info = PassInfo(opt_level=0, name="Foreign")
    executor = "nowhere"

    def transform_function(self, func: int, mod: Module, ctx: PassContext) -> int:
        return func


async def test_subclass_with_unknown_executor_raises() -> None:
    with pytest.raises(
        ValueError, match="names the executor 'nowhere'; known are dask, dask://HOST:PORT, inline, inter"
    ):
        await Foreign()({"a": 1})
