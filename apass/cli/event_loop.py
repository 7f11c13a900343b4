"""The event loop of a command; signals cancel the work in the same way on each."""

import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from threading import Thread, Timer
from typing import Annotated, Final

import anyio
import typer
from anyio import from_thread
from anyio.lowlevel import current_token

from apass.cli.completion import complete_backend
from apass.cli.loading import collect_seldom
from apass.cli.usage import wrong_choice
from apass.errors import InputError, MissingExtraError
from apass.runner.busy_passes import BusyPasses, running_code

__all__ = ["BackendOption", "check_backend", "run_until_interrupted", "run_until_stopped"]

BackendOption = Annotated[
    str,
    typer.Option("--backend", autocompletion=complete_backend, help="Set the event loop: asyncio or trio."),
]

INTERRUPT_GRACE: Final = 10.0
"""Seconds from Ctrl-C until the process exits even if a thread is busy; exit hooks have as many."""

SIGNALS: Final = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""The signals that end a command: of Ctrl-C, of `kill` and `timeout`, and of a terminal that is closed."""


def check_backend(backend: str) -> None:
    """Raise if the event loop `backend` is unknown or not installed.

    Raises:
        InputError: if there is no event loop of that name.
        MissingExtraError: if its library is not installed.

    """
    backends = anyio.get_all_backends()
    if backend not in backends:
        raise InputError(wrong_choice("--backend", backend, backends))
    try:
        import_module(backend)
    except ImportError as error:
        message = f"the event loop {backend!r} is not installed ({error}): pip install 'apass[{backend}]'"
        raise MissingExtraError(message) from error


def run_until_interrupted(work: Callable[[], Awaitable[None]], backend: str, *, limit: float | None = None) -> None:
    """Run `work` in a new event loop of `backend`, and raise its errors unchanged.

    One of `SIGNALS` cancels `work`, waits for its end, and then raises KeyboardInterrupt with the exit status. A second
    one does not wait. A pass in Python that holds the event loop then fails after a second. If a thread, or a pass in
    C, is still busy after `INTERRUPT_GRACE` seconds, the process exits: it cannot be cancelled.

    Parameters:
        work: the work.
        backend: the event loop.
        limit: the shortest time limit of passes, at which also passes that never suspend fail; None for no limit.

    """
    collect_seldom()
    received: list[int] = []
    timers: list[Timer] = []
    busy = BusyPasses()
    try:
        with busy.watched(limit):
            is_interrupted = anyio.run(_is_interrupted, work, received, timers, busy, backend=backend)
        if is_interrupted:
            raise KeyboardInterrupt(*(128 + number for number in received[:1]))
    finally:
        # The caller may ask the user a question.
        for timer in timers:
            timer.cancel()


def run_until_stopped(work: Callable[[anyio.Event], Awaitable[None]]) -> None:
    """Run `work` with an event that the first of `SIGNALS` sets.

    It runs on asyncio, and takes as long as it needs to end. A second signal ends the process at once.
    """
    collect_seldom()
    anyio.run(_work_with_stop, work)


async def _work_with_stop(work: Callable[[anyio.Event], Awaitable[None]]) -> None:
    stop, received = anyio.Event(), list[int]()

    def interrupt(number: int, run_in_loop: Callable[[Callable[[], None]], None]) -> None:
        received.append(number)
        if len(received) > 1:
            sys.stderr.write("apass: ended at once by a second signal\n")
            sys.stderr.flush()
            os._exit(128 + number)
        run_in_loop(stop.set)

    with _handling(interrupt):
        await work(stop)


def _exit_at_once(number: int) -> None:
    """Exit without waiting for threads; results are renamed when complete."""
    for text in running_code():
        sys.stderr.write(f"apass: still running: {text}\n")
    sys.stderr.write("apass: interrupted; a pass did not end in time; all files written so far are complete\n")
    sys.stderr.flush()
    os._exit(128 + number)


async def _is_interrupted(
    work: Callable[[], Awaitable[None]], received: list[int], timers: list[Timer], busy: BusyPasses
) -> bool:
    """Do the work, and return whether a signal ended it, which is added to `received`."""
    failure: Exception | SystemExit | None = None
    try:
        with anyio.CancelScope() as scope, _interrupting(scope, received, timers, busy):
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
def _interrupting(
    scope: anyio.CancelScope, received: list[int], timers: list[Timer], busy: BusyPasses
) -> Generator[None]:
    """Cancel `scope` and `busy` passes at one of `SIGNALS`, and add it to `received`.

    The timer that ends the process is added to `timers`.
    """

    def interrupt(number: int, run_in_loop: Callable[[Callable[[], None]], None]) -> None:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        received.append(number)
        if len(received) == 1:
            run_in_loop(scope.cancel)
            busy.interrupt()
            timer = Timer(INTERRUPT_GRACE, partial(_exit_at_once, number))
            timer.daemon = True
            timers.append(timer)
            timer.start()

    with _handling(interrupt):
        yield


@contextmanager
def _handling(interrupt: Callable[[int, Callable[[Callable[[], None]], None]], None]) -> Generator[None]:
    """Call `interrupt` at each of `SIGNALS`.

    Its second argument is a function that calls another function in the event loop. The handler also runs while a pass
    in Python holds the event loop. A signal that the process was started to ignore, as `nohup` does, stays ignored.
    """
    token = current_token()

    def call(function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            from_thread.run_sync(function, token=token)

    def run_in_loop(function: Callable[[], None]) -> None:
        # Daemon threads, so that a process that ends in time does not wait for them.
        Thread(target=call, args=[function], daemon=True).start()

    def handle(number: int, _frame: object) -> None:
        interrupt(number, run_in_loop)

    handled = [number for number in SIGNALS if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in handled}
    try:
        with _woken_by_signals(partial(call, lambda: None)):
            yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)


@contextmanager
def _woken_by_signals(wake: Callable[[], None]) -> Generator[None]:
    """Call `wake` in a thread at each signal, unless the event loop itself wakes up.

    Python runs a handler in the main thread, when that thread next runs Python code. The system may deliver the signal
    to another thread, or just before the main thread begins to wait for events. Without a call, an idle loop of
    asyncio would then never run the handler.
    """
    own = signal.set_wakeup_fd(-1)
    if own != -1:  # trio has a descriptor of its own, and so has asyncio on Windows
        signal.set_wakeup_fd(own)
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)

    def watch() -> None:
        with receiver:
            while receiver.recv(64):
                wake()

    # A daemon, like the threads above: it ends when the sender is closed, but perhaps after the loop.
    Thread(target=watch, daemon=True).start()
    with sender:
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            # A pass may have replaced it.
            current = signal.set_wakeup_fd(-1)
            if current not in (-1, sender.fileno()):
                signal.set_wakeup_fd(current)
