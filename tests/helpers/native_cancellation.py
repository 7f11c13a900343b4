"""A run whose task is cancelled natively at any iteration of the event loop."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint

import apass
from apass import PassContext

__all__ = ["CANCELLERS", "scenario", "unbalanced"]

Module = dict[str, int]

VARIABLE: ContextVar[str] = ContextVar("variable", default="")


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
        with suppress(TimeoutError):
            async with asyncio.timeout(0):  # a timeout of the hook's own
                await anyio.sleep_forever()
        await self.event("failed")


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


async def by_task(work: Coroutine[Any, Any, None], step: int) -> bool:
    """Use `Task.cancel`."""
    task = asyncio.create_task(work)
    return await _cancel_at(step, task.cancel, task) and task.cancelled()


async def twice(work: Coroutine[Any, Any, None], step: int) -> bool:
    """Use `Task.cancel` at two iterations."""
    task = asyncio.create_task(work)
    await _cancel_at(step, task.cancel, None)
    return await _cancel_at(2, task.cancel, task) and task.cancelled()


async def by_timeout(work: Coroutine[Any, Any, None], step: int) -> bool:
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
        # Before it is entered, a timeout of Python 3.11.2 raises AssertionError.
        with suppress(RuntimeError, AssertionError):
            timeout.reschedule(now())

    is_cancelled = await _cancel_at(step, expire, task)
    assert not task.cancelled()
    return is_cancelled and isinstance(task.exception(), TimeoutError)


async def by_sibling(work: Coroutine[Any, Any, None], step: int) -> bool:
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

    is_cancelled = await _cancel_at(step, fail_sibling, task)
    return is_cancelled and isinstance(task.exception(), ExceptionGroup)


async def _cancel_at(step: int, cancel: Callable[[], object], task: "asyncio.Task[None] | None") -> bool:
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


CANCELLERS: Final[dict[str, Callable[[Coroutine[Any, Any, None], int], Coroutine[Any, Any, bool]]]] = {
    "by_task": by_task,
    "twice": twice,
    "by_timeout": by_timeout,
    "by_sibling": by_sibling,
}
"""The ways to cancel. Each returns whether the work was cancelled."""


def unbalanced(log: list[str]) -> list[str]:
    """Return the names of instruments whose contexts or passes were not ended."""
    names: list[str] = []
    for name in "ABCD":
        counts = Counter(entry.partition(" ")[2] for entry in log if entry[0] == name)
        is_left = counts["ends enter"] == counts["begins exit"] == counts["ends exit"]
        if not is_left or counts["ends before"] != counts["begins after"] + counts["ends failed"]:
            names.append(name)
    return names
