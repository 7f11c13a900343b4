"""Time limit of a worker process, enforced by the process itself."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from apass.executors.worker import Request

__all__ = ["end_when_late"]


@contextmanager
def end_when_late(request: Request) -> Generator[None]:
    """Exit the process if the block takes longer than the limit.

    Write a traceback of the current position to the file `traceback_path` first. The timer of `faulthandler` is a C
    thread that needs no GIL. It also ends a process that hangs in a C library.
    """
    if request.limit is None:
        yield
        return
    with Path(request.traceback_path).open("w") as file:
        _faulthandler().dump_traceback_later(request.limit, exit=True, file=file)
        try:
            yield
        finally:
            _faulthandler().cancel_dump_traceback_later()


@cache
def _faulthandler() -> Any:
    """Import `faulthandler` on first use: subinterpreters cannot import it."""
    return import_module("faulthandler")
