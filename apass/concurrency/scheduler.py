"""What the runs in one context share of the event loop: slots for bodies, and turns of a few milliseconds."""

from collections import deque
from threading import local
from time import perf_counter

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Gate"]

TURN_SECONDS = 0.004
"""How long work that never suspends may hold the loop before it lets others in; trio may give it two in a row."""

PAUSE_SECONDS = 0.005
"""After so long without a pass at work in the context, the loop is taken to have had its turn."""

BATCH = 32
"""So many of those in line are woken at a time, as a round of the loop costs as much as several short bodies."""


class Gate:
    """The slots and the present turn of a context.

    A meter for the loop, not state of any one run: between runs it stands as it began.
    """

    __slots__ = ("at_work", "free", "last_work", "line", "turn", "turn_ends")

    def __init__(self, slots: int | None) -> None:
        self.free: float = float("inf") if slots is None else slots
        """How many more bodies may be in flight beside the callers themselves."""
        self.at_work = 0
        """How many outermost passes have begun and not ended."""
        self.turn = 0
        """Counts the turns; whoever starts one counts it."""
        self.turn_ends = 0.0
        """The `perf_counter` time at which the present turn is over."""
        self.last_work = 0.0
        """The `perf_counter` time at which an outermost pass ended last."""
        self.line = _Line()
        """Who waits for a turn, in the order in which they came."""

    async def enter(self) -> None:
        """Begin an outermost pass: in a new turn after a pause, else in what is left of the present one."""
        now = perf_counter()
        paused = self.at_work == 0 and now - self.last_work > PAUSE_SECONDS
        self.at_work += 1
        if now <= self.turn_ends:
            return
        if paused:
            self._start_turn(now)
        else:
            await self.next_turn()

    def leave(self) -> None:
        """End an outermost pass."""
        self.at_work -= 1
        self.last_work = perf_counter()

    async def next_turn(self) -> None:
        """Let the loop run, and return once a turn has time left, first come, first served.

        Who comes sleeps until its batch is called. Of a called batch, only the first to come back in a round of the
        loop starts a new turn, and the others share it. So however many modules never suspend, timers and sockets are
        looked after once a turn, and few are woken in vain.
        """
        seen = self.turn
        batch = self.line.join()
        try:
            if batch.called.is_set():
                await checkpoint()
            else:
                await batch.called.wait()
                seen = batch.seen
            while self.turn != seen:
                if perf_counter() < self.turn_ends:
                    return
                seen = self.turn
                await checkpoint()
            self._start_turn(perf_counter())
        finally:
            # A cancelled waiter goes this way too.
            self.line.leave(batch, self.turn)

    def _start_turn(self, now: float) -> None:
        self.turn += 1
        self.turn_ends = now + TURN_SECONDS


class _Batch:
    """Some who wait for a turn and are woken together."""

    __slots__ = ("called", "seen", "waiting")

    def __init__(self) -> None:
        self.called = anyio.Event()
        """Set when all those before have had their turns."""
        self.seen = 0
        """The turn in which that was."""
        self.waiting = 0
        """How many wait."""

    def call(self, turn: int) -> None:
        """Wake all who wait."""
        self.seen = turn
        self.called.set()


class _Line(local):
    """Batches, of which the first has been called; one line for each thread, as each has its own event loop."""

    def __init__(self) -> None:
        self.batches: deque[_Batch] = deque()

    def join(self) -> _Batch:
        """Stand at the end, and return the batch that one belongs to."""
        if not self.batches:
            self.batches.append(_Batch())
            self.batches[0].called.set()
        elif self.batches[-1].waiting >= BATCH:
            self.batches.append(_Batch())
        self.batches[-1].waiting += 1
        return self.batches[-1]

    def leave(self, batch: _Batch, turn: int) -> None:
        """Go, with a turn or without; after the last of the batch, call the next one."""
        batch.waiting -= 1
        while self.batches and not self.batches[0].waiting:
            self.batches.popleft()
            if self.batches:
                self.batches[0].call(turn)
