"""The program of a worker process.

It reads calls from standard input and writes their outcomes to standard output. It runs as a file and cannot import
apass, because it receives the import path only with the first request.
"""

import os
import pickle
import runpy
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from struct import Struct
from threading import Thread
from types import ModuleType
from typing import Any, BinaryIO, Final

__all__ = ["LENGTH", "RECEIVED", "TYPE_AND_LENGTH", "WORKER"]

LENGTH: Final = Struct("!Q")
"""The header of each request: its length in bytes."""
TYPE_AND_LENGTH: Final = Struct("!?Q")
"""The header of what a worker sends: whether it is the response or an earlier message, and its length in bytes."""
WORKER: Final = "APASS_WORKER"
"""The environment variable with the process id of a worker; its own children inherit it, and have another id."""
PARENT_CHECKS: Final = 1.0
"""Seconds between looks whether the parent process is alive."""
RECEIVED: Final = b"received"
"""The first message of each request: the worker has read it."""


def _serve() -> None:
    """Handle requests until standard input is closed; the first one is `_prepare`."""
    # A terminal sends Ctrl-C to every process of the program; only the main process must handle it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ[WORKER] = str(os.getpid())
    Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    requests, responses = _take_pipes()
    handler: Callable[..., object] = _prepare

    def send(message: bytes, is_response: bool = False) -> None:
        responses.write(TYPE_AND_LENGTH.pack(is_response, len(message)))
        responses.write(message)
        responses.flush()

    try:
        while header := requests.read(LENGTH.size):
            request = requests.read(*LENGTH.unpack(header))
            send(RECEIVED)
            send(_respond(handler, request), is_response=True)
            handler = partial(_call, send)
    except BrokenPipeError:
        # The parent has ended. Python itself would write to the pipe once more, and report it.
        os._exit(1)


def _end_with(parent: int) -> None:
    """Wait until the parent process ends, and kill this one with all that it started.

    Otherwise a pass would run on, although its result is lost.
    """
    while os.getppid() == parent:
        time.sleep(PARENT_CHECKS)
    if sys.platform != "win32" and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return standard input and output as files, and replace the originals.

    Standard input is then empty, and standard output leads to standard error: a function that reads or prints, even in
    C, must not corrupt the messages. Lines are printed at once, because a crash would lose them.
    """
    devnull = os.open(os.devnull, os.O_RDWR)
    try:
        os.fstat(2)
    except OSError:  # the program has closed its standard error
        os.dup2(devnull, 2)
    pipes = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(devnull, 0)
    os.dup2(2, 1)
    if devnull > 2:
        os.close(devnull)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace", line_buffering=True)
    return pipes


def _respond(handler: Callable[..., object], request: bytes) -> bytes:
    """Return `(True, result)` or `(False, error)`, pickled."""
    try:
        result = handler(*pickle.loads(request))
        return pickle.dumps((True, result), pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickle propagates any error of the objects
        return _failure(error)
    finally:
        # The process may be killed after its response.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed or replaced by the function
                stream.flush()


def _failure(error: Exception) -> bytes:
    """Return `(False, error)`, pickled.

    An error that cannot be unpickled becomes a RuntimeError.
    """
    try:
        response = pickle.dumps((False, error), pickle.HIGHEST_PROTOCOL)
        # The arguments of an error may not fit its class.
        pickle.loads(response)
    except Exception:
        return pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")), pickle.HIGHEST_PROTOCOL)
    return response


def _call(send: Callable[[bytes], None], func: Callable[..., object], is_sending: bool, *args: Any) -> object:
    return func(*args, send) if is_sending else func(*args)


def _prepare(path: list[str], arguments: list[str], name: str | None, file: str | None, modules: Sequence[str]) -> None:
    """Set the import path and the arguments, and import modules.

    The main module comes first: it is imported by its name, else by its file, if it has one.
    """
    sys.path, sys.argv = path, arguments
    main = ModuleType("__mp_main__")
    try:
        if name is not None:
            main.__dict__.update(runpy.run_module(name, run_name="__mp_main__", alter_sys=True))
        # The file of a program read from standard input is "<stdin>".
        elif file is not None and Path(file).is_file():
            main.__dict__.update(runpy.run_path(file, run_name="__mp_main__"))
    except SystemExit as error:
        raise RuntimeError(f"the program's main module exits with {error.code!r} when it is imported") from None
    sys.modules["__main__"] = sys.modules["__mp_main__"] = main
    for module in modules:
        import_module(module)


if __name__ == "__main__":
    _serve()
