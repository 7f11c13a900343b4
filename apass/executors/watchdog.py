"""The end of a worker process whose work takes too long, by its own hand."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from apass.executors.worker import Request

__all__ = ["end_when_late"]


@contextmanager
def end_when_late(asked: Request) -> Generator[None]:
    """End the process if the block takes longer than the limit, and say where it was in the file for last words.

    The timer needs no turn of Python's to go off, so it also ends a process that hangs in a library.
    """
    if asked.limit is None:
        yield
        return
    with Path(asked.last_words).open("w") as file:
        _faulthandler().dump_traceback_later(asked.limit, exit=True, file=file)
        try:
            yield
        finally:
            _faulthandler().cancel_dump_traceback_later()


@cache
def _faulthandler() -> Any:
    """Return the module, which an interpreter that works for another executor cannot import."""
    return import_module("faulthandler")
