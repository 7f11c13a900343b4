"""Reading damaged files in a process of its own, which may crash."""

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock, Timer
from typing import Final, final

from apass.errors import AdapterError

__all__ = ["read_in_process"]

MAX_SECONDS: Final = 600
"""Time limit for reading a file."""

IDLE_SECONDS: Final = 10.0
"""A process that has read a file waits for this many seconds for the next one."""

_LENGTH: Final = 8
"""Number of bytes of the length before each message."""

_MAIN: Final = f"""
import io, os, sys, threading
program, seconds, *arguments = sys.argv[1:]
code = compile(program, "<reader>", "exec")
requests = sys.stdin.buffer
# Libraries may print to the standard output, which would be taken for an answer.
answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
sys.argv = ["-c", *arguments]
timer = threading.Timer(0, int)
while header := requests.read({_LENGTH}):
    timer.cancel()
    sys.stdin = io.TextIOWrapper(io.BytesIO(requests.read(int.from_bytes(header, "big"))))
    sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
    try:
        exec(code, {{}})
    except SystemExit as end:
        if end.code:
            raise
    sys.stdout.flush()
    answer = sys.stdout.buffer.getvalue()
    answers.write(len(answer).to_bytes({_LENGTH}, "big") + answer)
    answers.flush()
    timer = threading.Timer(float(seconds), os._exit, [0])
    timer.daemon = True
    timer.start()
"""
"""The main program of the process. It runs a program for each request, with the request as standard input."""


def read_in_process(program: str, arguments: Sequence[str], data: bytes, *, library: str, path: Path) -> bytes:
    """Return what a Python program writes for the bytes of a file.

    The process stays for some seconds, and reads the next files for the same program: to load a library takes much
    longer than to read most files.

    Parameters:
        program: the program, which reads `data` from standard input. It may run several times in one process.
        arguments: its arguments.
        data: the bytes of the file.
        library: the library that the program uses, for errors.
        path: the file, for errors.

    Raises:
        AdapterError: if the program crashes, writes nothing, or takes longer than `MAX_SECONDS`.

    """
    key: _Key = (os.getpid(), program, *arguments)
    reader = _IDLE.take(key)
    answer = b"" if reader is None else _ask(reader, key, data)
    if not answer:
        # An earlier process may have waited for too long, or other files may have damaged it.
        reader = _Reader(program, arguments)
        answer = _ask(reader, key, data)
        if reader.is_late:
            raise AdapterError(f"{library} did not read {path} within {MAX_SECONDS} seconds")
        if not answer:
            status = f"exit status {reader.process.returncode}"
            shown = f": {reader.words}" if reader.words else ""
            raise AdapterError(f"{library} crashed when it read {path} ({status}){shown}; the file is damaged")
    return answer


def _ask(reader: "_Reader", key: "_Key", data: bytes) -> bytes:
    """Return the answer of a process, and keep it for the next file; b"" if it fails."""
    answer = b""
    try:
        answer = reader.ask(data)
    finally:
        if answer:
            _IDLE.keep(key, reader)
        else:
            reader.end(patience=1.0)
    return answer


@final
class _Reader:
    """A process that runs one program for one file after the other."""

    def __init__(self, program: str, arguments: Sequence[str]) -> None:
        self.is_late = False
        """Whether a file took longer than `MAX_SECONDS`."""
        self.words = ""
        """The first line of the error output; set when the process has ended."""
        # A pipe that is read only at the end would fill up.
        with ExitStack() as files:
            self._errors = files.enter_context(tempfile.TemporaryFile())
            self._files = files.pop_all()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, program, str(IDLE_SECONDS), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def ask(self, data: bytes) -> bytes:
        """Return what the program writes for `data`; b"" if the process has ended."""
        self._errors.seek(0)
        self._errors.truncate()
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        watchdog = Timer(MAX_SECONDS, self._give_up)
        watchdog.start()
        try:
            requests.write(len(data).to_bytes(_LENGTH, "big"))
            requests.write(data)
            requests.flush()
            size = int.from_bytes(answers.read(_LENGTH), "big")
            answer = answers.read(size)
            return answer if len(answer) == size else b""
        except OSError:
            return b""
        finally:
            watchdog.cancel()

    def end(self, *, patience: float) -> None:
        """End the process, and kill it if it has not ended after some seconds."""
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        with suppress(OSError):
            requests.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        answers.close()
        self._errors.seek(0)
        self.words = self._errors.read().decode(errors="replace").split("\n")[0][:200].strip()
        self._files.close()

    def _give_up(self) -> None:
        self.is_late = True
        self.process.kill()


_Key = tuple[int | str, ...]
"""What a process is for: the process that has started it, which may fork, the program, and its arguments."""


@final
class _Idle:
    """The processes that wait for the next file."""

    def __init__(self) -> None:
        self._readers: dict[_Key, _Reader] = {}
        self._lock = Lock()
        atexit.register(self.end_all)

    def take(self, key: _Key) -> _Reader | None:
        """Return and remove the process for a key, if there is one."""
        with self._lock:
            return self._readers.pop(key, None)

    def keep(self, key: _Key, reader: _Reader) -> None:
        """Keep a process for the next file, unless there is one."""
        with self._lock:
            kept = self._readers.setdefault(key, reader)
        if kept is not reader:
            reader.end(patience=0.0)

    def end_all(self) -> None:
        """End the processes that this process has started."""
        with self._lock:
            readers, self._readers = self._readers, {}
        for (pid, *_), reader in readers.items():
            if pid == os.getpid():
                reader.end(patience=0.0)


_IDLE: Final = _Idle()
