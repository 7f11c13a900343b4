"""`is_interruption`: whether a signal has raised an exception, rather than a pass."""

import signal
from functools import partial
from threading import current_thread, main_thread
from traceback import walk_tb
from typing import Any, cast

__all__ = ["is_interruption"]


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception is a KeyboardInterrupt of Ctrl-C, or contains one.

    The handler of the signal may run in any code of the main thread, and raises the exception there. A handler in
    Python, such as asyncio's and trio's, has a frame in the traceback. Python's default handler has none: with it,
    each KeyboardInterrupt of the main thread counts as an interruption.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_interruption, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    if not isinstance(error, KeyboardInterrupt):
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return current_thread() is main_thread()
    while isinstance(handler, partial):
        handler = cast("partial[object]", handler).func
    code = getattr(handler, "__code__", None)
    return code is not None and any(frame.f_code is code for frame, _ in walk_tb(error.__traceback__))
