"""`JournalFile`: an append-only file of records that survives crashes."""

import json
import os
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Any, Final, cast
from zlib import crc32

from apass.errors import JournalError, JournalWarning
from apass.util.file_locks import TAKEN, lock_now

__all__ = ["JournalFile", "JournalRecord", "is_journal"]

_MAGIC: Final = b"apass journal 1\n"
_FRAME: Final = Struct(">4sIQII")
"""The frame before each record: a mark, the sizes of head and data, and the checksums of head and data."""
_SUM: Final = Struct(">I")
"""The checksum of the frame, which follows it."""
_MARK: Final = b"\nrec"
_BEFORE: Final = _FRAME.size + _SUM.size


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A record, whose data remain in the file."""

    head: Mapping[str, Any]
    """The description of the record, a JSON object."""
    start: int
    """The offset of the data in the file."""
    size: int
    """The size of the data in bytes."""
    checksum: int
    """The checksum of the data."""
    number: int
    """The number of the record in the file, from 1."""


class JournalFile:
    """An append-only file of records, open in at most one process at a time.

    Appended records survive any end of the process. If the end of the file is damaged, for example because the process
    was killed during a write, it is truncated with a JournalWarning. The methods are thread-safe.

    Parameters:
        path: the file; it is created together with missing folders.
        fsync: whether `append` flushes each record to disk, so that it survives a power failure.
        read_only: whether the file stays as it is. It may then be missing its end, and be open in another process.

    Raises:
        JournalError: if the file is not a journal, cannot be used, or is open in another process.

    """

    def __init__(self, path: Path, *, fsync: bool = False, read_only: bool = False) -> None:
        self.path: Final = path
        """The file."""
        self._fsync = fsync
        self._read_only = read_only
        self._lock = Lock()
        self._count = 0
        # The offset in the file, None if unknown. A seek before each write would release the GIL once more.
        self._offset: int | None = None
        self._file = _open(path, read_only=read_only)
        try:
            if not read_only:
                _lock(self._file, path)
            self._end = self._begin()
        except BaseException:
            self._file.close()
            raise

    def __iter__(self) -> Iterator[JournalRecord]:
        """Iterate over the records that existed when the file was opened.

        A damaged end is truncated, unless the file is read only. The iteration must be completed before the first
        `append`.
        """
        size = os.fstat(self._file.fileno()).st_size
        position = len(_MAGIC)
        while position < size:
            record = self._record(position, size)
            if record is None:
                self._truncate(position, size)
                break
            position = record.start + record.size
            self._count = record.number
            yield record
        self._end = position

    def read(self, record: JournalRecord) -> bytes | None:
        """Return the data of a record; if they are damaged, warn and return None."""
        with self._lock:
            data = self._read(record.start, record.size)
        if len(data) == record.size and crc32(data) == record.checksum:
            return data
        message = f"a record in the journal {str(self.path)!r} is damaged; its module is computed again"
        warnings.warn(message, JournalWarning, stacklevel=2)
        return None

    @property
    def is_busy(self) -> bool:
        """Whether another thread uses the file now."""
        return self._lock.locked()

    def append(self, head: Mapping[str, Any], data: bytes = b"") -> JournalRecord:
        """Append a record.

        Raises:
            JournalError: if it cannot be written; the file is then unchanged.

        """
        record = self.append_all([(head, data)])[0]
        if isinstance(record, JournalError):
            raise record
        return record

    def append_all(self, contents: Sequence[tuple[Mapping[str, Any], bytes]]) -> list[JournalRecord | JournalError]:
        """Append records of these heads and data, with one write.

        If they cannot be written together, they are written one by one. The result has an error for each that fails.
        """
        parts: list[bytes] = []
        sizes: list[tuple[int, int]] = []
        for head, data in contents:
            head_bytes, checksum = json.dumps(head).encode(), crc32(data)
            frame = _FRAME.pack(_MARK, len(head_bytes), len(data), crc32(head_bytes), checksum)
            parts += (frame, _SUM.pack(crc32(frame)), head_bytes, data)
            sizes.append((_BEFORE + len(head_bytes), checksum))
        with self._lock:
            start = self._end
            try:
                self._write(b"".join(parts))
            except OSError as error:
                # Remove a partial record, for example after the disk became full.
                with suppress(OSError):
                    self._file.truncate(start)
                if len(contents) == 1:
                    failure = self._write_error(error)
                    failure.__cause__ = error
                    return [failure]
            else:
                records: list[JournalRecord | JournalError] = []
                for (head, data), (before, checksum) in zip(contents, sizes, strict=True):
                    self._count += 1
                    records.append(JournalRecord(head, start + before, len(data), checksum, self._count))
                    start += before + len(data)
                return records
        return [record for content in contents for record in self.append_all([content])]

    def error(self, number: int, reason: str) -> JournalError:
        """Return an error about a record whose checksums are right."""
        advice = "it was written by another program; delete the journal to start over"
        return JournalError(f"record {number} of the journal {str(self.path)!r} {reason}; {advice}")

    def close(self) -> None:
        """Close the file, so that other processes can open it."""
        with self._lock:
            self._file.close()

    def _write_error(self, error: OSError) -> JournalError:
        return JournalError(f"cannot write to the journal {str(self.path)!r}: {error.strerror}")

    def _write(self, data: bytes) -> None:
        if self._offset != self._end:
            self._file.seek(self._end)
        self._offset = None
        # An unbuffered file may write only a part of the data.
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[self._file.write(remaining) :]
        if self._fsync:
            os.fsync(self._file.fileno())
        self._end += len(data)
        self._offset = self._end

    def _read(self, start: int, size: int) -> bytes:
        self._offset = None
        self._file.seek(start)
        parts: list[bytes] = []
        while size:
            part = self._file.read(size)
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _begin(self) -> int:
        """Check the start of the file, or write it if the file is empty or incomplete."""
        start = self._read(0, len(_MAGIC))
        if start != _MAGIC and not _MAGIC.startswith(start):
            raise JournalError(f"{str(self.path)!r} is not a journal and was not changed; use another path")
        self._end = 0
        if self._read_only:
            return len(_MAGIC)
        # A process may have been killed while it wrote the first bytes.
        if start != _MAGIC:
            try:
                self._write(_MAGIC)
            except OSError as error:
                raise self._write_error(error) from error
        return len(_MAGIC)

    def _record(self, position: int, size: int) -> JournalRecord | None:
        """Return the record at an offset, or None if it is incomplete or damaged."""
        before = self._read(position, _BEFORE)
        frame, checksum = before[: _FRAME.size], before[_FRAME.size :]
        if len(before) < _BEFORE or _SUM.unpack(checksum)[0] != crc32(frame):
            return None
        _, head_size, data_size, head_sum, data_sum = _FRAME.unpack(frame)
        start = position + _BEFORE + head_size
        if start + data_size > size:
            return None
        head = self._read(position + _BEFORE, head_size)
        if crc32(head) != head_sum:
            return None
        number = self._count + 1
        try:
            fields: Any = json.loads(head)
        except (ValueError, RecursionError):
            raise self.error(number, "has a head that is not JSON") from None
        if not isinstance(fields, dict):
            raise self.error(number, "has a head that is no JSON object")
        return JournalRecord(cast("dict[str, Any]", fields), start, data_size, data_sum, number)

    def _truncate(self, position: int, size: int) -> None:
        if self._read_only:
            # Another process may be writing the record.
            return
        message = (
            f"the journal {str(self.path)!r} is damaged from byte {position} on, as after a kill or a power failure; "
            f"{size - position} bytes are dropped, and their modules are computed again"
        )
        self._file.truncate(position)
        warnings.warn(message, JournalWarning, stacklevel=3)


def is_journal(start: bytes) -> bool:
    """Return whether the first bytes of a file, 16 or more, are those of a journal."""
    return start.startswith(_MAGIC)


def _open(path: Path, *, read_only: bool) -> FileIO:
    try:
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        # Without O_NONBLOCK, opening a pipe or a terminal could wait forever.
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        flags |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_CLOEXEC", 0), 0o666)
    except (OSError, ValueError) as error:  # a path that contains a null character is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise JournalError(f"the journal {str(path)!r} cannot be used: {reason}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise JournalError(f"the journal {str(path)!r} is a device or a pipe; use a regular file")
    return FileIO(descriptor, "r" if read_only else "r+")


def _lock(file: FileIO, path: Path) -> None:
    """Lock the file exclusively until it is closed."""
    try:
        lock_now(file.fileno())
    except OSError as error:
        if error.errno not in TAKEN:
            raise JournalError(f"the journal {str(path)!r} cannot be locked: {error.strerror}") from error
        raise JournalError(
            f"the journal {str(path)!r} is in use by another run; wait for that run, or use another journal"
        ) from None
