"""Cancellation by asyncio, of a task or a future, without a cancel scope."""

import asyncio
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, function_pass
from tests.helpers.context_state import state_of
from tests.helpers.native_cancellation import CANCELLERS, scenario, unbalanced
from tests.helpers.recording import SuspendingRecorder

Module = dict[str, int]


def test_native_cancellation_ends_hooks_and_returns_slots() -> None:
    log: list[str] = []
    ctx = PassContext(instruments=[SuspendingRecorder(name, log) for name in "AB"], exit_grace=60)

    async def work() -> None:
        async with ctx:
            await function_pass(wait_forever, 0, "Hang")({"f": 1, "g": 2})

    async def main() -> bool:
        task = asyncio.create_task(work())
        await anyio.wait_all_tasks_blocked()
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())
    assert log[-4:] == [f"{name}.{hook}" for hook in ("run_after_pass_failed Hang", "exit_pass_ctx") for name in "AB"]
    assert state_of(ctx).scheduler.free == 256


def test_native_timeout_ends_pass() -> None:
    async def main() -> None:
        async with PassContext() as ctx:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await apass.optimize_all([{"f": 1}, {"g": 2}], function_pass(wait_forever, 0, "Hang"))
            assert state_of(ctx).scheduler.free == 256
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    asyncio.run(main())


async def wait_forever(func: int, mod: Module, ctx: PassContext) -> int:
    await anyio.sleep_forever()
    return func


def cancelled_future(function: int) -> apass.Pass[Module]:
    """Return a function pass in which one body awaits a future that gets cancelled.

    `function` is the value of the function with that body.
    """

    async def body(func: int, mod: Module, ctx: PassContext) -> int:
        if func == function:
            future = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(future.cancel)
            await future
        await checkpoint()
        return func + 1

    return function_pass(body, 0, "Body")


@pytest.mark.parametrize("function", [0, 1, 2])
def test_externally_cancelled_future_ends_pass_like_error(function: int) -> None:
    async def main() -> None:
        async with PassContext() as ctx:
            with pytest.raises(asyncio.CancelledError), anyio.fail_after(60):
                await cancelled_future(function)({"f": 0, "g": 1, "h": 2})
            assert state_of(ctx).scheduler.free == 256

    asyncio.run(main())


@pytest.mark.parametrize("limit", [1, None])
def test_externally_cancelled_future_fails_one_module_only(limit: int | None) -> None:
    async def main() -> list[Module | None]:
        modules = [{"f": n} for n in range(4)]
        with anyio.fail_after(60):
            outcomes = await apass.optimize_all(modules, cancelled_future(1), limit=limit, errors="collect")
        assert [outcome.error is None for outcome in outcomes] == [True, False, True, True]
        return [outcome.module for outcome in outcomes]

    assert asyncio.run(main()) == [{"f": 1}, None, {"f": 3}, {"f": 4}]


# Cancellation at every step of entering, running, overriding and leaving.


def loop_factories() -> Iterator[Any]:
    yield pytest.param(asyncio.new_event_loop, id="asyncio")
    if find_spec("uvloop"):  # it does not exist on Windows
        yield pytest.param(import_module("uvloop").new_event_loop, id="uvloop")
    factory = getattr(asyncio, "eager_task_factory", None)  # new in Python 3.12
    if factory is not None:

        def new_eager_loop() -> asyncio.AbstractEventLoop:
            loop = asyncio.new_event_loop()
            loop.set_task_factory(factory)
            return loop

        yield pytest.param(new_eager_loop, id="eager")


@pytest.mark.parametrize("new_loop", list(loop_factories()))
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("how", ["by_task", "twice", "by_timeout", "by_sibling"])
def test_native_cancellation_at_any_step_balances_hooks(how: str, fails: bool, new_loop: Any) -> None:
    cancelled = 0
    for step in range(1000):
        log: list[str] = []
        with asyncio.Runner(loop_factory=new_loop) as runner:
            is_cancelled = runner.run(CANCELLERS[how](scenario(log, fails=fails), step))
        assert unbalanced(log) == [], (step, log)
        cancelled += is_cancelled
        if step > 20 and not is_cancelled:
            break
    assert cancelled > 20
