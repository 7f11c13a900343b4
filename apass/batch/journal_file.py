"""`JournalFile`: records added to one file, each whole or not at all; what journals are made of."""

import errno
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, Final
from zlib import crc32

from apass.errors import JournalError, JournalWarning

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Entry", "JournalFile"]

_MAGIC: Final = b"apass journal 1\n"
_FRAME: Final = Struct(">4sIQII")
"""Before each record: a mark, the bytes of its head, those of its data, and the checksums of both."""
_SUM: Final = Struct(">I")
"""After the frame, its own checksum."""
_MARK: Final = b"\nrec"
_BEFORE: Final = _FRAME.size + _SUM.size


@dataclass(frozen=True, slots=True)
class Entry:
    """One record, its data still in the file."""

    head: Mapping[str, Any]
    """What it says of itself: a JSON object."""
    start: int
    """Where its data begin."""
    size: int
    """How many bytes they are."""
    checksum: int
    """Their checksum."""


class JournalFile:
    """Records in a file that only grows. One process at a time has it open; what it added outlives it, however it dies.

    An end that is damaged, as when the process was killed within a write, is cut off with a JournalWarning. Safe for
    many threads at once.

    Parameters:
        path: the file; it is made, and folders that are missing, too.
        fsync: whether a record is on the disk when `append` returns, and so outlives a power failure as well.

    Raises:
        JournalError: if the file is no journal, cannot be used, or another process has it open.

    """

    def __init__(self, path: Path, *, fsync: bool = False) -> None:
        self.path: Final = path
        """The file."""
        self._fsync = fsync
        self._lock = Lock()
        self._file = _open(path)
        try:
            _lock(self._file, path)
            self._end = self._begin()
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[Entry]:
        """Go over the records that were there when it was opened, cutting off a damaged end; to be done to the end."""
        size = self._size()
        at = len(_MAGIC)
        while at < size:
            found = self._entry(at, size)
            if found is None:
                self._cut(at, size)
                break
            at = found.start + found.size
            yield found
        self._end = at

    def read(self, entry: Entry) -> bytes | None:
        """Return the data of a record; None, with a JournalWarning, if they are damaged."""
        with self._lock:
            data = self._read(entry.start, entry.size)
        if len(data) == entry.size and crc32(data) == entry.checksum:
            return data
        message = f"a record in the journal {str(self.path)!r} is damaged; what it was for is done again"
        warnings.warn(message, JournalWarning, stacklevel=2)
        return None

    def append(self, head: Mapping[str, Any], data: bytes = b"") -> Entry:
        """Add a record; when this returns, it is there. JournalError if it cannot be written; nothing is added then."""
        top = json.dumps(head).encode()
        frame = _FRAME.pack(_MARK, len(top), len(data), crc32(top), crc32(data))
        with self._lock:
            start = self._end
            try:
                self._write(b"".join((frame, _SUM.pack(crc32(frame)), top, data)))
            except OSError as error:
                with suppress(OSError):
                    self._file.truncate(start)
                raise JournalError(f"cannot write to the journal {str(self.path)!r}: {error.strerror}") from error
            return Entry(head, start + _BEFORE + len(top), len(data), crc32(data))

    def close(self) -> None:
        """Close the file, and let others open it."""
        with self._lock:
            self._file.close()

    def _write(self, data: bytes) -> None:
        self._file.seek(self._end)
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        if self._fsync:
            os.fsync(self._file.fileno())
        self._end += len(data)

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        parts: list[bytes] = []
        while size:
            part = self._file.read(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _size(self) -> int:
        return os.fstat(self._file.fileno()).st_size

    def _begin(self) -> int:
        """Check how the file begins; one in which nothing could be finished yet is begun anew."""
        start = self._read(0, len(_MAGIC))
        if start != _MAGIC and not _MAGIC.startswith(start):
            raise JournalError(f"{str(self.path)!r} is no journal, and is left as it is; give the path of another file")
        self._end = 0
        if start != _MAGIC:
            self._write(_MAGIC)
        return len(_MAGIC)

    def _entry(self, at: int, size: int) -> Entry | None:
        """Return the record at a place, None if it is not whole."""
        before = self._read(at, _BEFORE)
        frame, checksum = before[: _FRAME.size], before[_FRAME.size :]
        if len(before) < _BEFORE or _SUM.unpack(checksum)[0] != crc32(frame):
            return None
        _, head_size, data_size, head_sum, data_sum = _FRAME.unpack(frame)
        start = at + _BEFORE + head_size
        if start + data_size > size:
            return None
        head = self._read(at + _BEFORE, head_size)
        return Entry(json.loads(head), start, data_size, data_sum) if crc32(head) == head_sum else None

    def _cut(self, at: int, size: int) -> None:
        message = (
            f"the journal {str(self.path)!r} is damaged from byte {at} on, as after a kill or a power failure; "
            f"{size - at} bytes are dropped, and what they were for is done again"
        )
        self._file.truncate(at)
        warnings.warn(message, JournalWarning, stacklevel=3)


def _open(path: Path) -> FileIO:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666), "r+")
    except OSError as error:
        raise JournalError(f"the journal {str(path)!r} cannot be used: {error.strerror}") from error


def _lock(file: FileIO, path: Path) -> None:
    """Have the file for this process alone, for as long as it is open."""
    try:
        _lock_now(file)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise JournalError(f"the journal {str(path)!r} cannot be locked: {error.strerror}") from error
        raise JournalError(
            f"the journal {str(path)!r} is in use by another run; let that one end, or give each run its own"
        ) from None


_TAKEN: Final = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""What systems say of a lock that somebody else has."""


def _lock_now(file: FileIO) -> None:
    if sys.platform == "win32":
        # A byte that is locked there cannot be read by others, so it is one beyond what most journals have.
        file.seek(2**31 - 2)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
