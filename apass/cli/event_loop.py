"""The event loop of a command; Ctrl-C cancels the work in the same way on each."""

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread, Timer
from typing import Final

import anyio
from anyio import from_thread
from anyio.lowlevel import current_token

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
    thread, or a pass that holds the event loop, is still busy after `INTERRUPT_GRACE` seconds, the process exits: it
    cannot be cancelled.
    """
    collect_seldom()
    if anyio.run(_is_interrupted, work, backend=backend):
        raise KeyboardInterrupt


def _exit_at_once() -> None:
    """Exit without waiting for threads; results are renamed when complete."""
    sys.stderr.write("apass: interrupted; a pass did not end in time; all files written so far are complete\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


async def _is_interrupted(work: Callable[[], Awaitable[None]]) -> bool:
    """Do the work, and return whether it was interrupted."""
    failure: Exception | SystemExit | None = None
    try:
        with anyio.CancelScope() as scope, _interrupting(scope):
            try:
                await work()
            except (Exception, SystemExit) as error:  # rich raises SystemExit when the reader of a pipe has exited
                # Raised below, as an interruption comes first.
                failure = error
    except BaseExceptionGroup as group:
        # A second Ctrl-C, in a task. asyncio would print a group.
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        return True
    if failure is not None and not scope.cancelled_caught:
        raise failure
    return scope.cancelled_caught


@contextmanager
def _interrupting(scope: anyio.CancelScope) -> Generator[None]:
    """Cancel `scope` at Ctrl-C.

    The handler also runs while a pass in Python holds the event loop.
    """
    token = current_token()

    def cancel() -> None:
        with suppress(RuntimeError):  # the loop has ended
            from_thread.run_sync(scope.cancel, token=token)

    # Daemon threads, so that a process that ends in time does not wait for them.
    canceller = Thread(target=cancel, daemon=True)
    timer = Timer(INTERRUPT_GRACE, _exit_at_once)
    timer.daemon = True

    def interrupt(_signal: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        canceller.start()
        timer.start()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, before)
