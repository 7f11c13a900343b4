"""The concurrent map under a function pass: failures and time limits."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import CORO_CLOSED, getcoroutinestate
from time import perf_counter
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import DiagnosticLevel, PassContext, PassTimeoutError, Sequential, function_pass, module_pass
from tests.helpers.idle_clock import idle_clock
from tests.helpers.recording import FunctionBody, function_pass_of

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


async def wait_for_ever() -> None:
    await anyio.sleep_forever()


@pytest.mark.parametrize("kind", ["plain", "async", "suspending", "lambda"])
async def test_one_error_comes_out_as_itself_with_a_note_that_says_where(kind: str) -> None:
    error = KeyError("mine")

    def plain(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 2:
            raise error
        return func

    async def bad(func: int, mod: Module, ctx: PassContext) -> int:
        if kind != "async":
            await checkpoint()
        return plain(func, mod, ctx)

    bodies: dict[str, FunctionBody] = {"plain": plain, "lambda": lambda func, mod, ctx: bad(func, mod, ctx)}
    pipeline = Sequential([function_pass_of(bodies.get(kind, bad), 0, "Bad")], name="S")
    with pytest.raises(KeyError) as caught:
        await apass.optimize_all({"resnet": {"f": 1, "g": 2, "h": 3}}, pipeline)
    assert (caught.value is error, error.__notes__) == (True, ["in pass 'S > Bad', function 'g', module 'resnet'"])
    assert (error.__cause__, error.__context__) == (None, None)


async def test_the_first_failure_cancels_the_others() -> None:
    cancelled: list[int] = []
    all_wait = anyio.Event()

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 9:
            all_wait.set()
        try:
            await all_wait.wait()
            if func == 4:
                raise KeyError("mine")
            await wait_for_ever()
        except anyio.get_cancelled_exc_class():
            cancelled.append(func)
            raise
        return func

    with pytest.raises(KeyError) as caught:
        await Bad({f"f{n}": n for n in range(10)})
    assert sorted(cancelled) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert caught.value.__notes__ == ["in pass 'Bad', function 'f4'"]


async def test_several_errors_become_one_flat_group_each_with_its_note() -> None:
    begun: set[int] = set()
    all_begun = anyio.Event()

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        begun.add(func)
        if len(begun) == 3:
            all_begun.set()
        try:
            await (all_begun.wait() if func == 0 else wait_for_ever())
        finally:
            # The first one fails of itself, the others while they are cancelled.
            raise ValueError(func)
        return func

    @function_pass(opt_level=0)
    async def Outer(func: int, mod: Module, ctx: PassContext) -> int:
        await Bad({f"f{n}": n for n in range(3)})
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Outer({"main": 0})
    flat = {(type(error), error.args, *error.__notes__) for error in caught.value.exceptions}
    note = "in pass 'Outer > Bad', function 'f{}', for function 'main' of 'Outer'"
    assert flat == {(ValueError, (n,), note.format(n)) for n in range(3)}


@pytest.mark.parametrize("functions", [1, 5])
async def test_a_group_that_a_body_raised_comes_out_as_itself(functions: int) -> None:
    own = ExceptionGroup("mine", [ValueError(1), ExceptionGroup("inner", [KeyError(2)])])

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        await checkpoint()
        if func == 0:
            raise own
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Bad({f"f{n}": n for n in range(functions)})
    assert (caught.value is own, own.__notes__) == (True, ["in pass 'Bad', function 'f0'"])


async def test_a_task_group_in_a_body_that_is_cancelled_adds_nothing_to_the_error() -> None:
    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("mine")
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(wait_for_ever)
        return func

    with pytest.raises(KeyError, match="mine"):
        await Bad({"f": 0, "g": 1, "h": 2})


async def test_a_task_group_in_a_body_that_fails_while_cancelled_adds_only_its_errors() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await wait_for_ever()
        finally:
            raise ValueError("while cancelled")

    @function_pass(opt_level=0)
    async def Bad(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await anyio.wait_all_tasks_blocked()
            raise KeyError("mine")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_ever)
            tasks.start_soon(fail_when_cancelled)
            await wait_for_ever()
        return func

    with pytest.raises(ExceptionGroup) as caught:
        await Bad({"f": 0, "g": 1})
    assert sorted(type(error).__name__ for error in caught.value.exceptions) == ["KeyError", "ValueError"]


async def test_what_plain_bodies_returned_is_closed_when_a_later_one_fails() -> None:
    async def nothing() -> int:
        return 1

    made = nothing()

    def return_or_fail(func: int, mod: Module, ctx: PassContext) -> Any:
        if func == 2:
            raise KeyError("mine")
        return made

    with pytest.raises(KeyError):
        await function_pass_of(return_or_fail, 0, "Bad")({"f": 1, "g": 2})
    assert getcoroutinestate(made) == CORO_CLOSED


async def test_a_cancellation_between_plain_bodies_is_noted_nowhere() -> None:
    notes: list[str] = []

    def stop(func: int, mod: Module, ctx: PassContext) -> int:
        scope.cancel()
        ctx.gate.turn_ends = 0.0
        return func

    with anyio.CancelScope() as scope:
        try:
            await function_pass(stop, 0, "Stop")({"f": 1, "g": 2})
        except anyio.get_cancelled_exc_class() as error:
            notes += getattr(error, "__notes__", [])
            raise
    assert (scope.cancelled_caught, notes) == (True, [])


async def test_an_error_that_is_raised_again_elsewhere_says_where_that_was() -> None:
    error = KeyError("one object for all")

    @module_pass(opt_level=0)
    async def Bad(mod: Module, ctx: PassContext) -> Module:
        raise error

    await apass.optimize_all({"a": {}, "b": {}}, Bad, errors="collect", limit=1)
    assert error.__notes__ == ["in pass 'Bad', module 'a'", "in pass 'Bad', module 'b'"]


# Time limits and failures that are kept.


@idle_clock
@pytest.mark.parametrize("functions", [1, 3])
async def test_a_body_over_its_time_is_told_with_its_place(functions: int) -> None:
    @function_pass(opt_level=0, timeout=0.2)
    async def Slow(func: int, mod: Module, ctx: PassContext) -> int:
        if func == 0:
            await wait_for_ever()
        return func

    with pytest.raises(PassTimeoutError) as caught:
        await Slow({f"f{n}": n for n in range(functions)})
    assert str(caught.value) == "the body of pass 'Slow' took longer than 0.2 s"
    assert caught.value.__notes__ == ["in pass 'Slow', function 'f0'"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_body_that_never_suspends_is_over_its_time_too(is_async: bool) -> None:
    def block(func: int, mod: Module, ctx: PassContext) -> int:
        end = perf_counter() + 0.02
        while perf_counter() < end:
            pass
        return func + 1

    async def block_async(func: int, mod: Module, ctx: PassContext) -> int:
        return block(func, mod, ctx)

    with pytest.raises(PassTimeoutError):
        await function_pass_of(block_async if is_async else block, 0, "Block", timeout=0.001)({"f": 1, "g": 2})


@idle_clock
async def test_keep_leaves_what_failed_as_it_was_with_a_warning() -> None:
    @function_pass(opt_level=0, timeout=0.2, on_error="keep")
    async def Try(func: int, mod: Module, ctx: PassContext) -> int:
        await (wait_for_ever() if func == 1 else checkpoint())
        if func == 2:
            raise KeyError("mine")
        return func * 10

    async with PassContext() as ctx:
        assert await apass.optimize_all({"m": {"a": 1, "b": 2, "c": 3}}, Try) == {"m": {"a": 1, "b": 2, "c": 30}}
    found = sorted(ctx.diag_ctx.diagnostics, key=lambda one: one.function or "")
    assert [(one.level, one.pass_name, one.function, one.module) for one in found] == [
        (DiagnosticLevel.WARNING, "Try", "a", "m"),
        (DiagnosticLevel.WARNING, "Try", "b", "m"),
    ]
    assert "took longer than 0.2 s" in found[0].message
    assert "KeyError: 'mine'" in found[1].message


async def test_keep_does_not_keep_a_cancellation() -> None:
    @function_pass(opt_level=0, on_error="keep")
    async def Wait(func: int, mod: Module, ctx: PassContext) -> int:
        await wait_for_ever()
        return func

    async with PassContext() as ctx:
        with anyio.move_on_after(0.01) as scope:
            await Wait({"f": 1, "g": 2})
    assert (scope.cancelled_caught, ctx.diag_ctx.diagnostics, ctx.gate.free) == (True, (), 256)


async def failing(func: int) -> int:
    """Raise, after a while."""
    await checkpoint()
    raise KeyError(func)


async def hanging(func: int) -> int:
    """Never end."""
    await wait_for_ever()
    return func


@pytest.mark.parametrize("wait", [failing, hanging])
async def test_coroutines_that_nobody_has_begun_to_await_are_closed(wait: Callable[[int], Awaitable[int]]) -> None:
    made: list[Any] = []

    def body(func: int, mod: Module, ctx: PassContext) -> Any:
        made.append(wait(func))
        return made[-1]

    with anyio.CancelScope() as scope:
        async with PassContext(max_concurrency=1), anyio.create_task_group() as tasks:
            tasks.start_soon(cancel_when_all_wait, scope)
            with suppress(KeyError):
                await function_pass_of(body, 0, "Lambda")(dict.fromkeys("abcdef", 1))
    assert [getcoroutinestate(one) for one in made] == [CORO_CLOSED] * 6


async def cancel_when_all_wait(scope: anyio.CancelScope) -> None:
    """Cancel once no task can go on."""
    await anyio.wait_all_tasks_blocked()
    scope.cancel()
