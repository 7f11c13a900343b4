"""`first_answer`: runs an attempt, and a second one if the first is slow."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

__all__ = ["first_answer"]

T = TypeVar("T")


async def first_answer(ask: Callable[[], Awaitable[T]], again: Callable[[], Awaitable[T] | None], after: float) -> T:
    """Return the first answer of `ask()` and `again()`.

    `again()` is called after `after` seconds. If it returns None, there is no second attempt. The slower attempt is
    cancelled. If one fails, wait for the other. If both fail, raise the earlier error.
    """
    race = _Race[T]()
    async with anyio.create_task_group() as race.group:
        race.group.start_soon(race.enter_late, again, after)
        await race.enter(ask())
    if race.answers:
        return race.answers[0]
    raise race.errors[0]


class _Race(Generic[T]):
    """Up to two attempts for the same answer."""

    group: TaskGroup

    def __init__(self) -> None:
        self.answers: list[T] = []
        self.errors: list[Exception] = []
        self.running = 0

    async def enter(self, awaitable: Awaitable[T]) -> None:
        """Run an attempt.

        End the race at the first answer, or when no attempt is running.
        """
        self.running += 1
        try:
            self.answers.append(await awaitable)
        except Exception as error:
            self.errors.append(error)
        self.running -= 1
        if self.answers or not self.running:
            self.group.cancel_scope.cancel()

    async def enter_late(self, again: Callable[[], Awaitable[T] | None], after: float) -> None:
        """Run the second attempt after a delay, if there is one."""
        await anyio.sleep(after)
        awaitable = again()
        if awaitable is not None:
            await self.enter(awaitable)
