"""`run_in_worker`: anyio's pool of worker processes, of which none is lost when it is cancelled as it starts."""

import os
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import BrokenWorkerProcess, CancelScope, CapacityLimiter, get_cancelled_exc_class, to_process
from anyio.lowlevel import RunVar

__all__ = ["run_in_worker"]

R = TypeVar("R")
Args = TypeVarTuple("Args")


class _Pool:
    """What is known of the processes of one event loop."""

    def __init__(self) -> None:
        self.alive = 0
        """How many have started, and not ended as far as is known."""
        self.busy = 0
        """How many are at work."""
        self.no_limit = CapacityLimiter(float("inf"))
        """Lets all through: how many work at once is up to the caller."""


_POOL: RunVar[_Pool] = RunVar("apass process pool")


async def run_in_worker(func: Callable[[*Args], R], *args: *Args) -> R:
    """Return `func(*args)`, done by a free worker process, or by a new one. A cancellation kills it.

    A new process is first waited for, whatever is cancelled meanwhile: anyio would let go of it without ending it.

    Raises:
        BrokenWorkerProcess: if the process ended; with a text only if it could not start.
        Exception: what the function raises.

    """
    pool = _pool()
    if pool.busy >= pool.alive:
        with CancelScope(shield=True):
            await to_process.run_sync(os.getpid, limiter=pool.no_limit)
        pool.alive += 1
    pool.busy += 1
    try:
        return await to_process.run_sync(func, *args, cancellable=True, limiter=pool.no_limit)
    except (BrokenWorkerProcess, get_cancelled_exc_class()):
        pool.alive -= 1
        raise
    finally:
        pool.busy -= 1


def _pool() -> _Pool:
    """Return what is known of the processes of the event loop that runs."""
    try:
        return _POOL.get()
    except LookupError:
        _POOL.set(_Pool())
        return _POOL.get()
