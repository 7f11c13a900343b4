"""Time limit of a worker process, enforced by the process and its parent."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

import anyio

from apass.concurrency.processes.pool import READY
from apass.executors.worker import Request

__all__ = ["TICK", "ItemReports", "Messages", "Patience", "Watchdog", "send_tagged"]

BEGUN: Final = b"begun"
"""Message of a worker: an item begins."""
ENDED: Final = b"ended"
"""Message of a worker: the last item has ended, and the reply is made."""
OF_FUNCTION: Final = b"function:"
"""The beginning of a message that a plain function has sent."""
INTERVAL: Final = 0.2
"""Seconds between two messages about items, because short items would make thousands."""
TICK: Final = 0.1
"""Interval in seconds at which a `Patience` is checked."""
START_SECONDS: Final = 60.0
"""Seconds allowed for each of these: to start a worker, to load the work, and to make a reply."""
LATE_SECONDS: Final = 3.0
"""Seconds allowed to read a part of a request, and in addition to the limit of an item."""


class ItemReports:
    """Reports the items of a request to the `Patience` of the process that sent it.

    Parameters:
        request: the request.
        send: sends a message.

    """

    def __init__(self, request: Request, send: Callable[[bytes], object]) -> None:
        self._left = len(request.items)
        self._send = send
        self._sent = float("-inf")

    @contextmanager
    def item(self) -> Generator[None]:
        """Report the next item."""
        now = perf_counter()
        if now - self._sent > INTERVAL:
            self._sent = now
            self._send(BEGUN)
        try:
            yield
        finally:
            self._left -= 1
            if self._left == 0:
                self._send(ENDED)


class Watchdog:
    """Ends the process when an item takes longer than the limit, with `item`.

    It writes a traceback of the current position to the file `traceback_path` first. The timer of `faulthandler` is a C
    thread that needs no GIL. It also ends a process that hangs in a C library. A process that is stopped cannot end
    itself, so its items are also reported to the parent.
    """

    def __init__(self, request: Request, send: Callable[[bytes], object]) -> None:
        self._limit = request.limit
        self._path = request.traceback_path
        self._reports = ItemReports(request, send)

    @contextmanager
    def item(self) -> Generator[None]:
        """Limit the time of the next item."""
        if self._limit is None or self._path is None:
            yield
            return
        # Subinterpreters cannot import it.
        import faulthandler

        with self._reports.item(), Path(self._path).open("w") as file:
            faulthandler.dump_traceback_later(self._limit, exit=True, file=file)
            try:
                yield
            finally:
                faulthandler.cancel_dump_traceback_later()


class Patience:
    """The time that a parent grants its worker for the next sign of life.

    Parameters:
        limit: time limit for one item in seconds.
        start: seconds until the first message.

    """

    def __init__(self, limit: float, start: float = START_SECONDS) -> None:
        self._limits = {READY: LATE_SECONDS, BEGUN: limit + INTERVAL + LATE_SECONDS}
        self._granted = self._left = start
        self._messages: int = 0
        self._seen: int = 0

    def on_message(self, message: bytes) -> None:
        """Grant the time until the message after this one; for any thread."""
        self._granted = self._limits.get(message, START_SECONDS)
        self._messages += 1

    def tick(self) -> bool:
        """Count an interval of `TICK` seconds, and return whether the time is over.

        Intervals are counted rather than time. If the machine or this event loop stalls, a message may have arrived.
        """
        self._left -= TICK
        if self._messages != self._seen:
            self._seen, self._left = self._messages, self._granted
        return self._left <= 0

    async def cancel_when_over(self, scope: anyio.CancelScope) -> None:
        """Cancel a scope when the time is over."""
        while not self.tick():  # noqa: ASYNC110  intervals are counted
            await anyio.sleep(TICK)
        scope.cancel()


def send_tagged(send: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Return a function that sends the message of a plain function, for `Messages`."""
    return lambda data: send(OF_FUNCTION + data)


class Messages:
    """Receives the messages of a worker.

    Parameters:
        patience: gets those about items; None without a time limit.
        on_message: gets those of a plain function; None if the caller wants none.

    """

    def __init__(self, patience: Patience | None, on_message: Callable[[bytes], object] | None) -> None:
        self._patience = patience
        self._on_message = on_message

    def receive(self, message: bytes) -> None:
        """Receive a message."""
        if message.startswith(OF_FUNCTION):
            if self._on_message is not None:
                self._on_message(message[len(OF_FUNCTION) :])
        elif self._patience is not None:
            self._patience.on_message(message)
