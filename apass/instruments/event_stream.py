"""`events()`: the events of a run, for `async for`."""

from collections import deque
from collections.abc import Callable, Collection
from threading import get_ident
from typing import Any, Self

import anyio

from apass.core.instrument import pass_instrument
from apass.errors import did_you_mean
from apass.instruments.support.events import KINDS, Event, EventInstrument, EventKind
from apass.util.checks import is_count

__all__ = ["EventStream", "events"]


@pass_instrument
class EventStream(EventInstrument):
    """The events of the runs in a context, for `async for`; create it with `events`."""

    def __init__(self, limit: int, kinds: frozenset[EventKind], *, functions: bool) -> None:
        # A change is known when the pass has finished.
        finished: tuple[EventKind, ...] = ("finished",) if "changed" in kinds else ()
        super().__init__((*kinds, *finished), (*kinds, *finished) if functions else ())
        self.dropped: int = 0
        """The number of events that were dropped, because the reader was too slow."""
        self._wanted = kinds
        self._events: deque[Event] = deque(maxlen=limit)
        self._limit = limit
        self._entered = 0
        self._is_over = False
        self._news: tuple[anyio.Event, int] | None = None

    def enter_pass_ctx(self) -> None:
        """Count the contexts that use the stream."""
        self._entered += 1
        self._is_over = False

    def exit_pass_ctx(self) -> None:
        """End the stream with the last context."""
        self._entered -= 1
        self._is_over = not self._entered
        self._wake_reader()

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        # The stream ends with a context of this process.
        return super().for_worker()

    def handle(self, event: Event, subject: Any) -> None:
        """Keep an event for the reader."""
        if event.changed and "changed" in self._wanted:
            self._put(event._replace(kind="changed"))
        if event.kind in self._wanted:
            self._put(event)
        self._wake_reader()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the stream ends with the last context that uses it."""
        while not self._events:
            if self._is_over:
                raise StopAsyncIteration
            if self._news is None:
                self._news = (anyio.Event(), get_ident())
            await self._news[0].wait()
        return self._events.popleft()

    def _put(self, event: Event) -> None:
        self.dropped += len(self._events) == self._limit
        self._events.append(event)

    def _wake_reader(self) -> None:
        # An event from another thread, such as a remark of a body there, is read with the next event of the loop.
        if self._news is not None and self._news[1] == get_ident():
            self._news[0].set()
            self._news = None


def events(*, limit: int = 10_000, kinds: Collection[EventKind] | None = None, functions: bool = True) -> EventStream:
    """Return a stream of what happens in the contexts that it is an instrument of.

    Iterate over it with `async for`, in another task of the same event loop. The stream ends when the last context that
    uses it is left. It never blocks a run: if the reader is slow, the oldest events are dropped, and `dropped` counts
    them. With several readers, each event reaches one of them.

    Parameters:
        limit: the maximum number of events that wait for the reader.
        kinds: the kinds of events; all by default.
        functions: whether there are events about the bodies of function passes.

    Raises:
        ValueError: if `limit` is not a positive number, or a kind is unknown.

    >>> import apass
    >>> @apass.module_pass(opt_level=0)
    ... async def Double(mod, ctx):
    ...     return {name: 2 * func for name, func in mod.items()}
    >>> async def main():
    ...     stream = events()
    ...     async with anyio.create_task_group() as tasks:
    ...         tasks.start_soon(optimize, stream)
    ...         async for event in stream:
    ...             print(event.kind, event.pass_name, event.changed)
    >>> async def optimize(stream):
    ...     async with apass.PassContext(instruments=[stream]):
    ...         await Double({"f": 1})
    >>> anyio.run(main)
    started Double False
    changed Double True
    finished Double True

    """
    if not is_count(limit):
        raise ValueError(f"limit must be an int of at least 1, not {limit!r}")
    if isinstance(kinds, str):
        raise ValueError(f"kinds must be a list of kinds, not {kinds!r}; write [{kinds!r}]")
    for kind in KINDS if kinds is None else kinds:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of events {kind!r}{did_you_mean(str(kind), KINDS, listing='kinds are ')}")
    return EventStream(limit, frozenset(KINDS if kinds is None else kinds), functions=functions)
