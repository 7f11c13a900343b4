"""`--access-log`: where a server writes a line for each request."""

import json
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Full, Queue
from threading import Thread
from typing import Final

from apass.cli.output_files import cannot_write, check_file
from apass.cli.terminal import print_error
from apass.errors import InputError

__all__ = ["access_log"]

OPTION: Final = "--access-log"

LOGGER: Final = "apass.access"
"""The name of the logger of requests. Its messages are objects of JSON."""

STANDARD_ERROR: Final = Path("-")
"""The value of the option for standard error."""

MOST_LINES: Final = 10_000
"""Lines that wait to be written. The requests after them are counted only."""

CLOSE_SECONDS: Final = 2.0
"""Seconds for the lines that are left at the end of the server."""

MODE: Final = 0o640
"""The permissions of a new file. It names clients and tenants."""


@contextmanager
def access_log(path: Path | None) -> Generator[None]:
    """Write the log of requests to a file, or to standard error (`-`).

    Raises:
        InputError: if the file cannot be written.

    """
    if path is None:
        yield
        return
    if path != STANDARD_ERROR:
        check_file(OPTION, path)
    lines = _Lines(path)
    try:
        lines.append(b"")
    except OSError as error:
        raise InputError(cannot_write(OPTION, path, error)) from None
    logger = logging.getLogger(LOGGER)
    level, propagates = logger.level, logger.propagate
    lines.start()
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
        logger.propagate = propagates
        lines.close()


class _Lines(logging.Handler):
    """Writes the messages of a logger in a thread.

    The event loop must wait neither for a disk nor for the reader of a pipe. Requests that cannot be logged are
    counted, and the next line that can be written has their number.

    Parameters:
        path: the file, or `-` for standard error.

    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._queue: Queue[str | None] = Queue(MOST_LINES)
        self._lost = 0
        # A daemon, so that a reader that has stopped reading does not keep the process.
        self._thread = Thread(target=self._write_all, name="apass access log", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the message of a record. The logger holds the lock of the handler."""
        try:
            self._queue.put_nowait(record.getMessage())
        except Full:
            self._lost += 1

    def append(self, data: bytes) -> None:
        """Append bytes to the file."""
        # It is opened for each line, so that a tool that rotates logs can rename it.
        is_file = self._path != STANDARD_ERROR
        target = self._path if is_file else 2
        with open(target, "ab", closefd=is_file, opener=partial(os.open, mode=MODE) if is_file else None) as file:
            file.write(data)

    def close(self) -> None:
        """Write the lines that are left."""
        with suppress(Full):
            self._queue.put(None, timeout=CLOSE_SECONDS)
        self._thread.join(CLOSE_SECONDS)
        super().close()

    def _write_all(self) -> None:
        has_failed = False
        while (line := self._queue.get()) is not None:
            self.acquire()
            lost, self._lost = self._lost, 0
            self.release()
            # A line may have been written in part before the disk was full.
            head = ("\n" if has_failed else "") + (f"{json.dumps({'lost': lost})}\n" if lost else "")
            try:
                self.append(f"{head}{line}\n".encode())
            except OSError as error:
                if not has_failed:
                    print_error(f"{cannot_write(OPTION, self._path, error)}; requests are not logged until it can")
                has_failed = True
                self.acquire()
                self._lost += lost + 1
                self.release()
            else:
                has_failed = False
