"""`StoreHealth`: whether the store of the jobs can be used."""

from collections.abc import Callable
from typing import Final

import anyio

from apass.concurrency.signal import Signal
from apass.service.errors import JobsUnavailableError, StoreTakenError
from apass.service.job_store import JobStore

__all__ = ["StoreHealth"]

PAUSE: Final = (0.1, 5.0)
"""The shortest and the longest pause in seconds before a store that failed is tried again."""

PROBE_SECONDS: Final = 5.0
"""Seconds between two attempts to use a durable store, so that its failure is noted although no job comes or ends."""


class StoreHealth:
    """Tries a store that failed again, with growing pauses.

    Parameters:
        store: the store.
        on_usable: called when the store answers again.

    """

    def __init__(self, store: JobStore, on_usable: Callable[[], None]) -> None:
        self.error: JobsUnavailableError | None = None
        """Why the store could not be used at the last attempt."""
        self.is_taken = anyio.Event()
        """Set when another server has taken the store over."""
        self._store = store
        self._on_usable = on_usable
        self._failed = Signal()
        self._pause = PAUSE[0]

    def note_failure(self, error: JobsUnavailableError) -> None:
        """Note that the store could not be used."""
        self.error = error
        if isinstance(error, StoreTakenError):
            self.is_taken.set()
        self._failed.notify()

    def note_success(self) -> None:
        """Note that the store has accepted a change."""
        self._pause = PAUSE[0]
        self._note_answer()

    async def pause(self) -> None:
        """Sleep before the next attempt."""
        seconds, self._pause = self._pause, min(PAUSE[1], 2 * self._pause)
        await anyio.sleep(seconds)

    async def run(self) -> None:
        """Try the store repeatedly: often while it fails, sometimes otherwise."""
        while True:
            while self.error is not None:
                await self.pause()
                await self._probe()
            with anyio.move_on_after(PROBE_SECONDS if self._store.is_durable else float("inf")):
                await self._failed.wait()
                continue
            await self._probe()

    async def _probe(self) -> None:
        """Make a change without an effect.

        A store that another program has locked can still be read.
        """
        try:
            with anyio.fail_after(PAUSE[1]):
                await self._store.remove("")
        except TimeoutError:
            return
        except JobsUnavailableError as error:
            self.note_failure(error)
        else:
            # A full disk takes such a change: the pauses become shorter after a real one only.
            self._note_answer()

    def _note_answer(self) -> None:
        if self.error is not None:
            self.error = None
            self._on_usable()
