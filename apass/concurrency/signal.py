"""`Signal`: wakes tasks again and again."""

import anyio

__all__ = ["Signal"]


class Signal:
    """Wakes all tasks that wait; unlike an `anyio.Event`, any number of times.

    A task checks its condition, and waits for the next signal without a checkpoint between.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        # An event is made only if a task waits: most signals of a busy optimizer wake no task.
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        """Wake the tasks that wait now."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Wait for the next signal."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
