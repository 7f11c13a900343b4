"""Locks between processes, which end with the process that holds them."""

import errno
import os
import sys
from pathlib import Path
from typing import Final

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["TAKEN", "lock_now", "try_lock"]

TAKEN: Final = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
"""Error codes of the platforms for a file that is locked by another process."""

_LOCKED_BYTE: Final = 2**31 - 2
"""On Windows other processes cannot read a locked byte, so lock one beyond the size of most files."""


def lock_now(descriptor: int) -> None:
    """Lock an open file exclusively until it is closed.

    Raises:
        OSError: with an error number of `TAKEN` if another process has locked it, or another number if the file system
            has no locks.

    """
    if sys.platform == "win32":
        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def try_lock(path: Path) -> int | None:
    """Create a file if it is missing, and lock it; return its descriptor.

    Return None if another process has locked it, if it is a link, or if it cannot be locked.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError:
        return None
    try:
        lock_now(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
