"""`InterleavingScheduler`: runs bodies in a random order that a seed repeats."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from random import Random
from types import coroutine
from typing import Any, Final, TypeVar, cast

from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint

from apass.concurrency.coroutines import is_async
from apass.concurrency.scheduler import LoopScheduler

__all__ = ["InterleavingScheduler", "make_scheduler", "seeded"]

R = TypeVar("R")

PAUSES: Final = (0, 0, 1, 2, 9)
"""The iterations of the event loop that a body may pause for.

The last one is long enough for other bodies to make several steps.
"""

_MAKE: ContextVar[Callable[[int | None], LoopScheduler]] = ContextVar("apass_make_scheduler", default=LoopScheduler)


@contextmanager
def seeded(seed: int | None) -> Generator[None]:
    """Within the block, let `make_scheduler` return schedulers that use a seed.

    If the seed is None, bodies start in their own order, however long they take.
    """
    token = _MAKE.set(_unsliced if seed is None else partial(InterleavingScheduler, seed=seed))
    try:
        yield
    finally:
        _MAKE.reset(token)


def make_scheduler(slots: int | None) -> LoopScheduler:
    """Return a scheduler; within `seeded`, one that does not depend on the time."""
    return _MAKE.get()(slots)


def _unsliced(slots: int | None) -> LoopScheduler:
    scheduler = LoopScheduler(slots)
    scheduler.slice_ends = float("inf")
    return scheduler


class InterleavingScheduler(LoopScheduler):
    """A scheduler under which bodies start in random order, and pause at random.

    Time slices depend on the time. So this scheduler has none: its slice is always over, and each `yield_to_loop` is a
    random pause.
    """

    __slots__ = ("random",)

    def __init__(self, slots: int | None, seed: int) -> None:
        super().__init__(slots)
        self.slice_ends = float("-inf")
        self.random: Random = Random(seed)
        """The source of all choices."""

    def enter(self) -> bool:
        """Start an outermost pass; return True, so that it pauses first."""
        self.running += 1
        return True

    async def yield_to_loop(self) -> None:
        """Pause at random."""
        for _ in range(self.random.choice(PAUSES)):
            await checkpoint()

    def shuffle(self, *sequences: Sequence[Any]) -> list[list[Any]]:
        """Return sequences of equal length in one random order."""
        order = list(range(len(sequences[0])))
        self.random.shuffle(order)
        return [[sequence[index] for index in order] for sequence in sequences]

    def interleaved(self, body: Callable[..., Any]) -> Callable[..., Any]:
        """Return a body that pauses before it starts and whenever it resumes.

        A plain body stays as it is: no other body can run within it.
        """
        if not is_async(body):
            return body

        async def run(*args: Any) -> Any:
            await self.yield_to_loop()
            return await self._with_pauses(body(*args))

        return run

    def _with_pauses(self, work: Any) -> Awaitable[Any]:
        return _paused(work.__await__(), self._pause_shielded)

    async def _pause_shielded(self) -> None:
        # Shielded, because a cancellation has to arrive in the body, not here.
        for _ in range(self.random.choice(PAUSES)):
            await cancel_shielded_checkpoint()


@coroutine
def _paused(work: Generator[Any, Any, R], pause: Callable[[], Awaitable[None]]) -> Generator[Any, Any, R]:
    """Run `work`, and pause before each step but the first; await this."""
    step: Callable[[Any], Any] = work.send
    argument: Any = None
    while True:
        try:
            trap = step(argument)
        except StopIteration as stop:
            return cast("R", stop.value)
        try:
            argument = yield trap
            step = work.send
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:
            step, argument = work.throw, thrown
        try:
            yield from pause().__await__()
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:
            # Native cancellation of asyncio passes every shield.
            step, argument = work.throw, thrown
