"""`InterleavingScheduler`: draws the order of concurrent bodies from a seed."""

from collections import deque
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from types import coroutine
from typing import Any, Final, TypeVar, cast

import anyio
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint

from apass.concurrency.coroutines import is_async
from apass.concurrency.run_locals import RunLocal
from apass.concurrency.scheduler import LoopScheduler

__all__ = ["InterleavingScheduler", "Schedule", "make_scheduler", "seeded"]

R = TypeVar("R")

PAUSES: Final = (0, 0, 1, 2, 9)
"""The iterations of the event loop for which a pass may pause, so that those on other modules make steps.

The last one is long enough for several steps.
"""

QUIET: Final = 5
"""The iterations of the event loop in which no body becomes ready, before one of those that are is chosen."""

TRACED: Final = 10_000
"""The number of steps that a scheduler remembers."""

_MAKE: Final[RunLocal[Callable[[int | None], LoopScheduler]]] = RunLocal("make_scheduler", LoopScheduler)


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order of the steps of concurrent bodies, for `apass.testing.scheduled`."""

    seed: int
    """The seed from which the order is drawn."""
    functions: tuple[str, ...] | None = None
    """The functions whose bodies are interleaved; the others run one after the other. None is all functions."""


@contextmanager
def seeded(seed: int | None) -> Generator[None]:
    """Within the block, let `make_scheduler` return schedulers that use a seed.

    If the seed is None, bodies start in their own order, however long they take.
    """
    with _MAKE.set_to(_unsliced if seed is None else partial(InterleavingScheduler, schedule=Schedule(seed))):
        yield


def make_scheduler(slots: int | None, schedule: Schedule | None = None) -> LoopScheduler:
    """Return a scheduler.

    With a schedule, or within `seeded`, it does not depend on the time.
    """
    return _MAKE.get()(slots) if schedule is None else InterleavingScheduler(slots, schedule)


def _unsliced(slots: int | None) -> LoopScheduler:
    scheduler = LoopScheduler(slots)
    scheduler.slice_ends = float("inf")
    return scheduler


class InterleavingScheduler(LoopScheduler):
    """A scheduler under which one body makes a step at a time.

    The order is drawn from a seed. It depends on the seed, the module, the pass and its functions only: not on other
    passes, nor on the order in which the event loop resumes tasks. Bodies that wait for sockets, threads or timers
    become ready when these do.

    Time slices depend on the time. So this scheduler has none: its slice is always over, and each `yield_to_loop` is a
    random pause.
    """

    __slots__ = ("_random", "schedule", "trace")

    def __init__(self, slots: int | None, schedule: Schedule) -> None:
        super().__init__(slots)
        self.slice_ends = float("-inf")
        self.schedule: Schedule = schedule
        """The schedule."""
        self.trace: deque[tuple[str, str]] = deque(maxlen=TRACED)
        """The pass and the function of each step, in order."""
        self._random: Random = Random(schedule.seed)

    def enter(self) -> bool:
        """Start an outermost pass; return True, so that it pauses first."""
        self.running += 1
        return True

    async def yield_to_loop(self) -> None:
        """Pause: at random if there are passes on other modules."""
        for _ in range(self._random.choice(PAUSES) if self.running > 1 else 1):
            await checkpoint()

    def order(self, names: Sequence[str], label: str) -> list[int]:
        """Return the order in which plain bodies run: the indices of their functions.

        Parameters:
            names: the names of the functions.
            label: identifies the run of the pass.

        """
        movable = [index for index, name in enumerate(names) if self._is_interleaved(name)]
        shuffled = iter(self._random_of(label).sample(movable, len(movable)))
        is_movable = set(movable)
        return [next(shuffled) if index in is_movable else index for index in range(len(names))]

    def interleaved(
        self, body: Callable[..., Any], names: Sequence[str], pass_name: str, label: str, name_of: Callable[[], str]
    ) -> Callable[..., Any]:
        """Return a body that waits before each of its steps until it is chosen.

        A plain body stays as it is: no other body can run within it.

        Parameters:
            body: the body of a function pass.
            names: the names of the functions of the module.
            pass_name: the name of the pass, for the trace.
            label: identifies the run of the pass.
            name_of: returns the name of the function whose body calls it.

        """
        if not is_async(body):
            return body
        indices = {name: index for index, name in enumerate(names)}
        is_interleaved = [self._is_interleaved(name) for name in names]
        choice = _Choice(self._random_of(label), self._pauses(label), is_interleaved)

        async def run(*args: Any) -> Any:
            name = name_of()

            async def wait() -> None:
                await choice.wait(indices[name])
                self.trace.append((pass_name, name))

            await wait()
            return await _stepped(body(*args).__await__(), wait)

        return run

    def _pauses(self, label: str) -> Callable[[], int]:
        """Return a function that returns for how long to pause.

        It is 0 if there are no passes on other modules.
        """
        random = self._random_of(f"{label} pauses")
        return lambda: random.choice(PAUSES) if self.running > 1 else 0

    def _random_of(self, label: str) -> Random:
        return Random(f"{self.schedule.seed} {label}")

    def _is_interleaved(self, name: str) -> bool:
        return self.schedule.functions is None or name in self.schedule.functions


class _Choice:
    """Chooses which of the bodies that are ready makes the next step.

    Of the tasks that wait, one leads: it lets the event loop run until no other body becomes ready, and chooses.
    """

    def __init__(self, random: Random, pause: Callable[[], int], is_interleaved: Sequence[bool]) -> None:
        self._random = random
        self._pause = pause
        self._is_interleaved = is_interleaved
        self._waiting: dict[int, anyio.Event] = {}
        self._has_leader = False

    async def wait(self, index: int) -> None:
        """Return when the body with this index is chosen."""
        self._waiting[index] = anyio.Event()
        try:
            # Shielded, because a cancellation has to arrive in the body, not here.
            with anyio.CancelScope(shield=True):
                while index in self._waiting:
                    if self._has_leader:
                        await self._waiting[index].wait()
                    else:
                        await self._lead()
        finally:
            # Native cancellation of asyncio passes every shield.
            self._waiting.pop(index, None)
            if not self._has_leader and self._waiting:
                self._wake(min(self._waiting))

    async def _lead(self) -> None:
        self._has_leader = True
        try:
            # Passes on other modules make steps meanwhile. This does not change which body is chosen.
            quiet = -self._pause()
            while quiet < QUIET:
                number = len(self._waiting)
                await cancel_shielded_checkpoint()
                quiet = quiet + 1 if len(self._waiting) == number else min(quiet, 0)
            chosen = min(self._waiting)
            if self._is_interleaved[chosen]:
                chosen = self._random.choice([index for index in sorted(self._waiting) if self._is_interleaved[index]])
            self._waiting.pop(chosen).set()
        finally:
            self._has_leader = False

    def _wake(self, index: int) -> None:
        """Wake a task that waits, so that it leads."""
        event, self._waiting[index] = self._waiting[index], anyio.Event()
        event.set()


@coroutine
def _stepped(work: Generator[Any, Any, R], wait: Callable[[], Awaitable[None]]) -> Generator[Any, Any, R]:
    """Run `work`, and wait before each step but the first; await this."""
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
            yield from wait().__await__()
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:
            # Native cancellation of asyncio passes every shield.
            step, argument = work.throw, thrown
