"""Running the event loop of a command so that Ctrl-C cancels what is at work, the same way on every loop."""

import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module

import anyio

from apass.cli.inputs import InputError
from apass.errors import MissingExtraError, did_you_mean

__all__ = ["check_backend", "run_until_interrupted"]


def check_backend(backend: str) -> None:
    """Return if there is such an event loop.

    Raises:
        InputError: if there is none of that name.
        MissingExtraError: if its library is not installed.

    """
    known = anyio.get_all_backends()
    if backend not in known:
        raise InputError(f"no event loop {backend!r}{did_you_mean(backend, known, listing='known are ')}")
    try:
        import_module(backend)
    except ImportError as error:
        message = f"the event loop {backend!r} is not installed ({error}): pip install apass[{backend}]"
        raise MissingExtraError(message) from error


def run_until_interrupted(work: Callable[[], Awaitable[None]], backend: str) -> None:
    """Run `work` in a new event loop of `backend`; at Ctrl-C cancel it, wait for it to end, raise KeyboardInterrupt.

    A second Ctrl-C does not wait. What `work` raises is raised as it is.
    """
    try:
        anyio.run(_watched, work, backend=backend)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None


async def _watched(work: Callable[[], Awaitable[None]]) -> None:
    failure: Exception | None = None
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            await group.start(_cancel_at_interrupt, scope)
            try:
                await work()
            except Exception as error:
                # Kept, so that the group does not wrap it.
                failure = error
            group.cancel_scope.cancel()
    if scope.cancelled_caught:
        raise KeyboardInterrupt
    if failure is not None:
        raise failure


async def _cancel_at_interrupt(
    scope: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    # Where a loop cannot watch for signals, Python's own KeyboardInterrupt ends the run.
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            return
    task_status.started()
