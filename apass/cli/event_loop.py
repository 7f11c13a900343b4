"""The event loop of a command; Ctrl-C cancels the work in the same way on each."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib import import_module
from threading import Timer
from typing import Final

import anyio

from apass.cli.exit_status import INTERRUPTED
from apass.cli.inputs import InputError
from apass.cli.loading import collect_seldom
from apass.errors import MissingExtraError, did_you_mean

__all__ = ["check_backend", "run_until_interrupted"]


INTERRUPT_GRACE: Final = 10.0
"""Seconds from Ctrl-C until the process exits even if a thread is busy; exit hooks have as many."""


def check_backend(backend: str) -> None:
    """Raise if the event loop `backend` is unknown or not installed.

    Raises:
        InputError: if there is no event loop of that name.
        MissingExtraError: if its library is not installed.

    """
    backends = anyio.get_all_backends()
    if backend not in backends:
        hint = did_you_mean(backend, backends, listing="expected one of ")
        raise InputError(f"unknown event loop {backend!r}{hint}")
    try:
        import_module(backend)
    except ImportError as error:
        message = f"the event loop {backend!r} is not installed ({error}): pip install 'apass[{backend}]'"
        raise MissingExtraError(message) from error


def run_until_interrupted(work: Callable[[], Awaitable[None]], backend: str) -> None:
    """Run `work` in a new event loop of `backend`, and raise its errors unchanged.

    Ctrl-C cancels `work`, waits for its end, and then raises KeyboardInterrupt. A second Ctrl-C does not wait. If a
    thread is still busy after `INTERRUPT_GRACE` seconds, the process exits: a thread in a library cannot be cancelled.
    """
    collect_seldom()
    try:
        anyio.run(_run_cancellable, work, backend=backend)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None


def _exit_at_once() -> None:
    """Exit without waiting for threads; results are renamed when complete."""
    sys.stderr.write("apass: interrupted; a thread did not end in time; all files written so far are complete\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


async def _run_cancellable(work: Callable[[], Awaitable[None]]) -> None:
    failure: Exception | SystemExit | None = None
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            await group.start(_cancel_at_interrupt, scope)
            try:
                await work()
            except (Exception, SystemExit) as error:  # rich raises SystemExit when the reader of a pipe has exited
                # Raised below, outside the task group, which would wrap it in an exception group.
                failure = error
            group.cancel_scope.cancel()
    if scope.cancelled_caught:
        raise KeyboardInterrupt
    if failure is not None:
        raise failure


async def _cancel_at_interrupt(
    scope: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    # A loop that cannot receive signals (on Windows) raises NotImplementedError. Python's KeyboardInterrupt then ends
    # the run.
    with suppress(NotImplementedError), anyio.open_signal_receiver(signal.SIGINT) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()
            # A daemon thread, so that a process that ends in time does not wait for it.
            timer = Timer(INTERRUPT_GRACE, _exit_at_once)
            timer.daemon = True
            timer.start()
            return
    task_status.started()
