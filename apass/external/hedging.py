"""`first_answer`: ask, and ask once more if it takes long; the first answer counts."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

__all__ = ["first_answer"]

T = TypeVar("T")


async def first_answer(ask: Callable[[], Awaitable[T]], again: Callable[[], Awaitable[T] | None], after: float) -> T:
    """Return what `ask()` gives, or what `again()` does, called after `after` seconds; None there is no second one.

    The one that is slower is cancelled. If one fails, the other is waited for; if both do, the earlier error is raised.
    """
    race = _Race[T]()
    async with anyio.create_task_group() as race.group:
        race.group.start_soon(race.enter_late, again, after)
        await race.enter(ask())
    if race.answers:
        return race.answers[0]
    raise race.errors[0]


class _Race(Generic[T]):
    """Up to two that run for the same answer."""

    group: TaskGroup

    def __init__(self) -> None:
        self.answers: list[T] = []
        self.errors: list[Exception] = []
        self.running = 0

    async def enter(self, runner: Awaitable[T]) -> None:
        """Run; the race is over with the first answer, and when nobody runs any more."""
        self.running += 1
        try:
            self.answers.append(await runner)
        except Exception as error:
            self.errors.append(error)
        self.running -= 1
        if self.answers or not self.running:
            self.group.cancel_scope.cancel()

    async def enter_late(self, again: Callable[[], Awaitable[T] | None], after: float) -> None:
        """Run after a while, if there is a second runner."""
        await anyio.sleep(after)
        runner = again()
        if runner is not None:
            await self.enter(runner)
