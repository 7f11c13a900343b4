"""Cancellation by asyncio, of a task or a future, without a cancel scope."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext, function_pass
from tests.helpers.context_state import state_of
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


class Steps(apass.PassInstrument):
    """Instrument whose hooks suspend twice, and log when they begin and when they end."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    async def event(self, text: str) -> None:
        self.log.append(f"{self.name} begins {text}")
        await checkpoint()
        event = anyio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        await event.wait()
        self.log.append(f"{self.name} ends {text}")

    async def enter_pass_ctx(self) -> None:
        token = VARIABLE.set(self.name)
        self.tokens = [*getattr(self, "tokens", []), token]
        await self.event("enter")

    async def exit_pass_ctx(self) -> None:
        await self.event("exit")
        VARIABLE.reset(self.tokens.pop())

    async def run_before_pass(self, mod: Module, info: apass.PassInfo) -> None:
        await self.event("before")

    async def run_after_pass(self, mod: Module, info: apass.PassInfo) -> None:
        await self.event("after")

    async def run_after_pass_failed(self, mod: Module, info: apass.PassInfo, error: BaseException) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):  # a timeout of the hook's own
                await anyio.sleep_forever()
        await self.event("failed")


VARIABLE: ContextVar[str] = ContextVar("variable", default="")


async def scenario(log: list[str], *, fails: bool) -> None:
    """Run a pass, override the instruments, and run a pass again."""

    async def body(mod: Module, ctx: PassContext) -> Module:
        await checkpoint()
        if fails:
            raise KeyError
        return mod

    pass_ = apass.module_pass(body, 0, "P")
    async with PassContext(instruments=[Steps(name, log) for name in "AB"], exit_grace=60) as ctx:
        with suppress(KeyError):
            await pass_({})
        await ctx.override_instruments([Steps(name, log) for name in "CD"])
        with suppress(KeyError):
            await pass_({})


class Canceller:
    """Cancels work at a given iteration of the event loop."""

    async def by_task(self, work: Coroutine[Any, Any, None], step: int) -> bool:
        """Use `Task.cancel`."""
        task = asyncio.create_task(work)
        return await self._cancel_at(step, task.cancel, task) and task.cancelled()

    async def twice(self, work: Coroutine[Any, Any, None], step: int) -> bool:
        """Use `Task.cancel` at two iterations."""
        task = asyncio.create_task(work)
        await self._cancel_at(step, task.cancel, None)
        return await self._cancel_at(2, task.cancel, task) and task.cancelled()

    async def by_timeout(self, work: Coroutine[Any, Any, None], step: int) -> bool:
        """Use `asyncio.timeout`."""
        timeout = asyncio.timeout(None)

        async def main() -> None:
            async with timeout:
                await work
            # The cancellation does not outlive the timeout.
            assert task.cancelling() == 0
            await checkpoint()

        task = asyncio.create_task(main())
        now = asyncio.get_running_loop().time

        def expire() -> None:
            with suppress(RuntimeError):
                timeout.reschedule(now())

        is_cancelled = await self._cancel_at(step, expire, task)
        assert not task.cancelled()
        return is_cancelled and isinstance(task.exception(), TimeoutError)

    async def by_sibling(self, work: Coroutine[Any, Any, None], step: int) -> bool:
        """Use the failure of a sibling in an `asyncio.TaskGroup`."""
        failure = asyncio.get_running_loop().create_future()

        async def fail() -> None:
            await failure

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                sibling = group.create_task(fail())
                await work
                sibling.cancel()

        task = asyncio.create_task(main())

        def fail_sibling() -> None:
            if not failure.done():
                failure.set_exception(OSError())

        is_cancelled = await self._cancel_at(step, fail_sibling, task)
        return is_cancelled and isinstance(task.exception(), ExceptionGroup)

    async def _cancel_at(self, step: int, cancel: Callable[[], object], task: "asyncio.Task[None] | None") -> bool:
        """Call `cancel` after some iterations, and await `task`, if given.

        Return whether it was still running.
        """
        for _ in range(step):
            await asyncio.sleep(0)
        is_running = task is None or not task.done()
        cancel()
        if task is not None:
            await asyncio.wait([task])
        return is_running


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
            is_cancelled = runner.run(getattr(Canceller(), how)(scenario(log, fails=fails), step))
        for name in "ABCD":
            counts = Counter(entry.partition(" ")[2] for entry in log if entry[0] == name)
            assert counts["ends enter"] == counts["begins exit"] == counts["ends exit"], (step, log)
            assert counts["ends before"] == counts["begins after"] + counts["ends failed"], (step, log)
        cancelled += is_cancelled
        if step > 20 and not is_cancelled:
            break
    assert cancelled > 20
