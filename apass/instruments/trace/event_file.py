"""`EventFile`: a trace in Chrome's format, written by a background thread."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from queue import Queue
from threading import Lock, Thread
from typing import Any, Final

from apass.util.files import PartFile

__all__ = ["Event", "EventFile"]

Event = Mapping[str, Any]
"""A trace event, with the keys of Chrome's trace format."""

_HEAD: Final = b'{"displayTimeUnit":"ms","traceEvents":[\n'
_TAIL: Final = b"\n]}\n"
_BATCH: Final = 512
"""Number of events that are handed to the thread at once."""
_COPIED: Final = 2**20
"""Number of bytes of a finished file that are copied at once."""
_BACKLOG: Final = 64
"""Maximum number of queued batches. `add` blocks while the queue is full, which bounds memory."""


class EventFile:
    """A file of trace events, written by a background thread.

    Any thread may add events. Memory is bounded, regardless of their number. Until the file is finished, it has a
    temporary name beside `path`. If a finished file is started again, new events are appended to it.
    """

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        """The path of the finished file."""
        self._part: PartFile | None = None
        self._pending: list[Event] = []
        self._queue: Queue[list[Event] | None] = Queue(_BACKLOG)
        self._lock = Lock()
        self._state_lock = Lock()
        self._thread: Thread | None = None
        self._error: OSError | None = None
        self._size = 0

    def add(self, event: Event) -> None:
        """Add an event, which is written between `start` and `finish`."""
        with self._lock:
            self._pending.append(event)
            if len(self._pending) < _BATCH:
                return
            batch, self._pending = self._pending, []
        self._queue.put(batch)

    def start(self) -> None:
        """Open the file and start the thread.

        Raises:
            OSError: if the file cannot be opened.

        """
        with self._state_lock:
            if self._thread is None:
                self._part = part = self._open()
                self._thread = Thread(target=self._write_all, args=(part,), name="apass trace", daemon=True)
                self._thread.start()

    def finish(self) -> None:
        """Write the remaining events, close the file and give it its final name.

        Raises:
            OSError: if this write or an earlier one failed.

        """
        with self._state_lock:
            if self._thread is None or self._part is None:
                return
            with self._lock:
                batch, self._pending = self._pending, []
            self._queue.put(batch)
            self._queue.put(None)
            self._thread.join()
            self._thread = None
            error, self._error = self._error, None
            try:
                if error is not None:
                    raise error
                self._part.close()
                self._part.replace()
            finally:
                self._part.discard()

    def _open(self) -> PartFile:
        part = PartFile(self.path)
        try:
            if not self._size or not self.path.exists():
                part.write(_HEAD)
                self._size = 0
            else:
                with self.path.open("rb") as finished:
                    remaining = self._size
                    while remaining and (data := finished.read(min(remaining, _COPIED))):
                        part.write(data)
                        remaining -= len(data)
        except BaseException:
            part.discard()
            raise
        return part

    def _write_all(self, part: PartFile) -> None:
        while (batch := self._queue.get()) is not None:
            self._attempt(part, self._lines(batch))
        self._attempt(part, _TAIL)

    def _lines(self, batch: Iterable[Event]) -> bytes:
        lines = ",\n".join(json.dumps(event, separators=(",", ":"), default=str) for event in batch)
        comma = ",\n" if lines and self._size else ""
        return (comma + lines).encode()

    def _attempt(self, part: PartFile, data: bytes) -> None:
        """Write `data`, unless a write has failed before.

        After a failure the thread still empties the queue, because a full queue would block `add`.
        """
        if self._error is not None:
            return
        try:
            part.write(data)
            part.flush()
            if data and data != _TAIL:
                self._size = part.file.tell()
        except OSError as error:
            self._error = error
