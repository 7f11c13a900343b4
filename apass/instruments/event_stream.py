"""`events()`: the events of a run, for `async for`."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Lock
from typing import Any, Self

import anyio
from anyio.lowlevel import current_token

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
        self._readers: dict[Any, anyio.Event] = {}
        """The event that wakes the readers of each event loop that has some, by the native token of the loop."""
        # Readers and runs may be in different threads.
        self._lock = Lock()

    def enter_pass_ctx(self) -> None:
        """Count the contexts that use the stream."""
        with self._lock:
            self._entered += 1
            self._is_over = False

    def exit_pass_ctx(self) -> None:
        """End the stream with the last context."""
        self._leave(1)

    def on_context_failed(self, error: BaseException, is_entered: bool) -> None:
        """End the stream with the last context."""
        self._leave(is_entered)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        # The stream ends with a context of this process.
        return super().for_worker()

    def handle(self, event: Event, subject: Any) -> None:
        """Keep an event for the reader."""
        with self._lock:
            if event.changed and "changed" in self._wanted:
                self._put(event._replace(kind="changed"))
            if event.kind in self._wanted:
                self._put(event)
            self._wake_readers()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the stream ends with the last context that uses it."""
        while True:
            with self._lock:
                if self._events:
                    return self._events.popleft()
                if self._is_over:
                    raise StopAsyncIteration
                news = self._readers.setdefault(current_token().native_token, anyio.Event())
            await news.wait()

    def _leave(self, contexts: int) -> None:
        with self._lock:
            # As in TVM, an override enters an instrument once, and each exit of a repeated context exits it.
            self._entered = max(0, self._entered - contexts)
            self._is_over = not self._entered
            self._wake_readers()

    def _put(self, event: Event) -> None:
        self.dropped += len(self._events) == self._limit
        self._events.append(event)

    def _wake_readers(self) -> None:
        # The run may be in another thread. `anyio.from_thread` would make it wait for the loops of the readers.
        for loop, news in self._readers.items():
            wake = loop.run_sync_soon if hasattr(loop, "run_sync_soon") else loop.call_soon_threadsafe
            with suppress(RuntimeError):  # the loop has ended
                wake(news.set)
        self._readers.clear()


def events(*, limit: int = 10_000, kinds: Iterable[EventKind] | None = None, functions: bool = True) -> EventStream:
    """Return a stream of what happens in the contexts that it is an instrument of.

    Iterate over it with `async for` in another task. The run may be in another thread, with an event loop of its own.
    The stream ends when the last context that uses it is left, or cannot be entered. It never blocks a run: if the
    reader is slow, the oldest events are dropped, and `dropped` counts them. With several readers, each event reaches
    one of them.

    Parameters:
        limit: the maximum number of events that wait for the reader.
        kinds: the kinds of events; all by default.
        functions: whether there are events about the bodies of function passes.

    Raises:
        ValueError: if `limit` is not a positive number, or `kinds` is not a list of known kinds.

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
        raise ValueError(f"limit must be an int of at least 1, got {limit!r}")
    if isinstance(kinds, str):
        raise ValueError(f"kinds must be a list of kinds, got {kinds!r}; write [{kinds!r}]")
    if not isinstance(kinds, Iterable | None):
        raise ValueError(f"kinds must be a list of kinds, got {kinds!r}; write [{KINDS[0]!r}]")
    wanted = KINDS if kinds is None else tuple(kinds)
    for kind in wanted:
        if kind not in KINDS:
            raise ValueError(f"unknown kind of events {kind!r}{did_you_mean(str(kind), KINDS, listing='kinds are ')}")
    return EventStream(limit, frozenset(wanted), functions=functions)
