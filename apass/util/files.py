"""Atomic file writes: a reader sees the old contents or the new, never a part.

`read_regular` reads files that may come from a stranger.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

__all__ = [
    "PART_NAME",
    "PartFile",
    "Prepared",
    "complete_together",
    "completed_later",
    "copy_whole",
    "give_up",
    "is_device",
    "marked_parts",
    "naming",
    "part_mark",
    "read_regular",
    "remove_parts",
    "write_whole",
]

_CHUNK: Final = 2**20
"""Bytes that are copied at a time."""

_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags that open a file only if it is new."""

_DEVICE_FOLDERS: Final = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""Folders whose entries are devices or open file descriptors."""

PART_NAME: Final = r"\.apass-[0-9a-f]{16}\.part"
"""A regular expression for the names of temporary files, which a killed process leaves behind."""

Prepared = Callable[[Mapping[Path, Path]], None]
"""Receives the files that are complete but not yet renamed: the temporary path of each, by its final path."""


def read_regular(path: Path, limit: int | None = None) -> bytes:
    """Return the contents of a regular file, which must not be a link.

    It is for folders that may come from a stranger.

    Raises:
        OSError: if there is no such file, or it has more than `limit` bytes.

    """
    # A link could lead to any file. Without O_NONBLOCK, opening a FIFO waits for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{str(path)!r} is not a regular file")
        if limit is not None and status.st_size > limit:
            raise OSError(f"{str(path)!r} has {status.st_size:,} bytes, more than {limit:,}")
        return file.read() if limit is None else file.read(limit)


class PartFile:
    """A new temporary file that replaces another file once it is complete.

    It is in the same folder and has the permissions that an ordinary `open` of the final path would give. No other
    writer can use it, because its name is random and the file must be new; a link of that name is not followed.

    Parameters:
        target: the final path. Missing folders are created.
        durable: whether the file survives a power failure, for which each file waits for the disk.

    Raises:
        OSError: from each method, with the final path as the file name. A full disk is one of the reasons.

    """

    def __init__(self, target: Path, *, durable: bool = True) -> None:
        self.target: Final = target
        """The final path."""
        self._is_durable = durable
        self.path: Final = target.with_name(f".apass-{_MARK.get() or part_mark()}{part_mark()}.part")
        """The temporary path."""
        with naming(self.target, self.path):
            try:
                descriptor = os.open(self.path, _NEW_FILE, 0o666)
            except FileNotFoundError:
                target.parent.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(self.path, _NEW_FILE, 0o666)
            self.file: Final[BinaryIO] = os.fdopen(descriptor, "wb")
            """The open file."""
            _copy_mode(target, self.file)
        self._is_kept = False

    def write(self, data: bytes) -> None:
        """Append data."""
        with naming(self.target, self.path):
            self.file.write(data)

    def flush(self) -> None:
        """Hand the data to the system, which reports a full disk here."""
        with naming(self.target, self.path):
            self.file.flush()

    def close(self) -> None:
        """Flush the data to disk, and close the file."""
        self.flush()
        if self._is_durable and _TOGETHER.get() is None:
            self._sync(self.file.fileno())
        # Many files may wait for `complete_together`, more than a process may have open.
        with naming(self.target, self.path):
            self.file.close()

    def replace(self) -> None:
        """Rename the closed file to its final path."""
        together = _TOGETHER.get()
        if together is not None:
            self._is_kept = True
            together.append(self)
            return
        self._rename()
        if self._is_durable:
            _sync_folder(self.target.parent)

    def discard(self) -> None:
        """Close and remove the file, unless it was renamed."""
        if self._is_kept:
            return
        with suppress(OSError):  # closing flushes, which fails again on a full disk
            self.file.close()
        self.path.unlink(missing_ok=True)

    def _sync(self, descriptor: int) -> None:
        with naming(self.target, self.path):
            # Without it, a power failure after the rename can leave an empty file under the final name.
            os.fsync(descriptor)

    def _rename(self) -> None:
        with naming(self.target, self.path):
            self.path.replace(self.target)

    def give_up(self) -> None:
        """Remove a file of `completed_later`."""
        self._is_kept = False
        self.discard()

    def complete(self) -> None:
        """Flush a file of `completed_later` to disk, and rename it."""
        try:
            # The permissions, which are those of the replaced file, may forbid to write.
            with naming(self.target, self.path):
                descriptor = os.open(self.path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
            try:
                self._sync(descriptor)
            finally:
                os.close(descriptor)
            self._rename()
        except BaseException:
            self.give_up()
            raise


_TOGETHER: Final[ContextVar[list[PartFile] | None]] = ContextVar("apass_part_files", default=None)
"""The files that `completed_later` collects."""


@contextmanager
def completed_later() -> Generator[list[PartFile]]:
    """Collect the files that the block writes, for `complete_together`.

    If the block raises, they are removed.
    """
    parts: list[PartFile] = []
    token = _TOGETHER.set(parts)
    try:
        yield parts
    except BaseException:
        give_up(parts)
        raise
    finally:
        _TOGETHER.reset(token)


def complete_together(groups: Sequence[Sequence[PartFile]]) -> list[Exception | None]:
    """Flush files to disk, and rename them; return the error of each group, or None.

    The first flush waits for the disk, and writes most of what the others need.
    """
    errors: list[Exception | None] = []
    for parts in groups:
        try:
            for part in parts:
                part.complete()
            errors.append(None)
        except Exception as error:
            give_up(parts)
            errors.append(error)
    for folder in {part.target.parent for parts in groups for part in parts}:
        _sync_folder(folder)
    return errors


def part_mark() -> str:
    """Return a random mark for the names of temporary files."""
    return token_hex(4)


@contextmanager
def marked_parts(mark: str) -> Generator[None]:
    """Mark the temporary files that are created in the block, for `remove_parts`."""
    token = _MARK.set(mark)
    try:
        yield
    finally:
        _MARK.reset(token)


def remove_parts(folders: Iterable[Path], mark: str) -> None:
    """Remove the temporary files with a mark that a killed process left."""
    for folder in folders:
        for path in folder.glob(f".apass-{mark}*.part"):
            path.unlink(missing_ok=True)


_MARK: Final[ContextVar[str]] = ContextVar("apass_part_mark", default="")


def give_up(parts: Sequence[PartFile]) -> None:
    """Remove the files that `completed_later` collected."""
    for part in parts:
        part.give_up()


def write_whole(path: Path, text: str | bytes, prepared: Prepared | None = None, *, durable: bool = True) -> None:
    """Write text or bytes to `path` atomically; create missing folders.

    The data goes to a temporary file beside `path`, which is flushed to disk and renamed at the end. A terminal, a pipe
    or another device, such as `/dev/stdout`, is written to directly.

    Parameters:
        path: the file to write.
        text: the contents.
        prepared: called before the rename; not called for a device.
        durable: whether the file survives a power failure, for which each file waits for the disk.

    Raises:
        OSError: if the file cannot be written; it names `path`. The previous file is then unchanged.

    """
    data = text.encode() if isinstance(text, str) else text
    if is_device(path):
        with naming(path), path.open("ab") as device:
            device.write(data)
        return
    with _replacing(path, prepared, durable=durable) as part:
        part.write(data)


def copy_whole(source: Path, path: Path, prepared: Prepared | None = None) -> None:
    """Copy the bytes of `source` to `path` atomically; create missing folders.

    The parameters and errors are those of `write_whole`.
    """
    with _replacing(path, prepared) as part, naming(source), source.open("rb") as file:
        while data := file.read(_CHUNK):
            part.write(data)


@contextmanager
def _replacing(path: Path, prepared: Prepared | None, *, durable: bool = True) -> Generator[PartFile]:
    """Yield a new file that replaces `path` at the end of the block."""
    part = PartFile(path, durable=durable)
    try:
        yield part
        part.close()
        if prepared is not None:
            prepared({path: part.path})
        part.replace()
    finally:
        part.discard()


@contextmanager
def naming(target: Path, part: Path | None = None) -> Generator[None]:
    """Let an OSError name `target` if it names no file, or its temporary file."""
    try:
        yield
    except OSError as error:
        # An error of a plug-in may have a message only.
        is_of_system = error.errno is not None
        if is_of_system and (error.filename is None or error.filename in (part, str(part))):
            error.filename = str(target)
            del error.filename2  # the second path of a rename
        raise


def is_device(path: Path) -> bool:
    """Return whether `path` must not be replaced: a device, pipe or open descriptor.

    >>> is_device(Path("/dev/stdout")), is_device(Path("report.html"))
    (True, False)
    """
    if not path.exists():
        return False
    # If standard output is redirected, /dev/stdout leads to a regular file, but other writers have it open.
    return not (path.is_file() or path.is_dir()) or path.absolute().parent in _DEVICE_FOLDERS


def _copy_mode(target: Path, file: BinaryIO) -> None:
    """Give a file the permissions of `target`, if that exists, as if it were reopened."""
    with suppress(OSError):  # there is no target, or a file system without permissions
        mode = target.stat().st_mode
        # Windows has no `fchmod` before Python 3.13, and no permissions to copy.
        if stat.S_ISREG(mode) and hasattr(os, "fchmod"):
            os.fchmod(file.fileno(), mode & 0o777)


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk, where the system can do so."""
    # The file is complete by now. A file system that cannot flush a folder is no reason to fail.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
