"""`LoopResource`: a resource of each event loop, which is closed with the loop."""

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Final, Generic, TypeVar

import anyio
from anyio import to_thread
from anyio.lowlevel import RunVar

from apass.concurrency.limits import NO_LIMIT

__all__ = ["LoopResource"]

T = TypeVar("T")


class LoopResource(Generic[T]):
    """A resource that each event loop opens at its first use, and closes at its end.

    Parameters:
        open_it: opens the resource. It may block, and is called in a thread.
        close_it: closes the resource, in the same way.

    """

    def __init__(self, open_it: Callable[[], T], close_it: Callable[[T], object]) -> None:
        self._open = open_it
        self._close = close_it
        self._here: Final[RunVar[_Held[T]]] = RunVar("apass loop resource")

    async def get(self) -> T:
        """Return the resource of this event loop, opened if necessary.

        Raises:
            Exception: any error of `open_it`. The next call tries again.

        """
        held = self._held()
        async with held.lock:
            if held.holder is None:
                holder = self._hold()
                # Event loops close running async generators as they end.
                with anyio.CancelScope(shield=True):
                    held.resource = await anext(holder)
                held.holder = holder
            return held.resource

    async def close(self, resource: T | None = None) -> None:
        """Close the resource of this event loop, unless it is closed.

        Parameters:
            resource: the resource to close, which another one may have replaced; None for any.

        """
        held = self._held()
        if resource is not None and held.resource is not resource:
            return
        holder, held.holder = held.holder, None
        if holder is not None:
            with anyio.CancelScope(shield=True):
                await holder.aclose()

    def _held(self) -> "_Held[T]":
        held = self._here.get(None)
        if held is None:
            held = _Held[T]()
            self._here.set(held)
        return held

    async def _hold(self) -> AsyncGenerator[T]:
        resource = await to_thread.run_sync(self._open, limiter=NO_LIMIT.here())
        try:
            yield resource
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(partial(self._close, resource), limiter=NO_LIMIT.here())


class _Held(Generic[T]):
    """The resource of one event loop."""

    resource: T

    def __init__(self) -> None:
        self.lock: Final = anyio.Lock()
        self.holder: AsyncGenerator[T] | None = None
        """Closes the resource when it is closed; None if the resource is not open."""
