"""What a worker process runs: it reads calls from standard input, and writes what came of each to standard output.

It is run as a file, and imports nothing of apass: where modules are to be found is the first thing that it is told.
"""

import os
import pickle
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from struct import Struct
from types import ModuleType
from typing import Any, BinaryIO, Final

__all__ = ["LENGTH"]

LENGTH: Final = Struct("!Q")
"""Goes before each request and each answer: how many bytes it has."""


def _serve() -> None:
    """Answer requests, of which the first prepares for the others, until there are no more."""
    # Ctrl-C, which a terminal may send to all processes, is for the program alone.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = _take_pipes()
    do: Callable[..., object] = _prepare
    while header := requests.read(LENGTH.size):
        answer = _answer(do, requests.read(*LENGTH.unpack(header)))
        answers.write(LENGTH.pack(len(answer)))
        answers.write(answer)
        answers.flush()
        do = _call


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output as files that the work cannot reach: it reads and writes nothing."""
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    devnull = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(devnull, number)
    os.close(devnull)
    return pipes


def _answer(do: Callable[..., object], request: bytes) -> bytes:
    """Return, as bytes, whether all went well, and what came of it or what was raised."""
    try:
        outcome = True, do(*pickle.loads(request))
    except Exception as error:
        outcome = False, error
    try:
        return pickle.dumps(outcome, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickle raises what the objects raise
        return pickle.dumps((False, error))


def _call(func: Callable[..., object], *args: Any) -> object:
    return func(*args)


def _prepare(path: list[str], arguments: list[str], name: str | None, file: str | None) -> None:
    """Make modules be found as in the program, and import its main module, by its name or its file, if it has one.

    What comes from standard input has a file of no such name.
    """
    sys.path, sys.argv = path, arguments
    main = ModuleType("__mp_main__")
    try:
        if name is not None:
            main.__dict__.update(runpy.run_module(name, run_name="__mp_main__", alter_sys=True))
        elif file is not None and Path(file).is_file():
            main.__dict__.update(runpy.run_path(file, run_name="__mp_main__"))
    except SystemExit as error:
        raise RuntimeError(f"the program's main module exits when it is imported, with {error.code!r}") from None
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main


if __name__ == "__main__":
    _serve()
