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

__all__ = ["TAKEN", "close_in_forks", "lock_now", "lock_unless_taken", "try_lock", "unlock"]

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


def lock_unless_taken(path: Path) -> int | None:
    """Create a file if it is missing, and lock it; return its descriptor.

    Return None if another process has locked it.

    Raises:
        OSError: if it is a link, or cannot be created or locked.

    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        lock_now(descriptor)
    except OSError as error:
        os.close(descriptor)
        if error.errno in TAKEN:
            return None
        raise
    return descriptor


def try_lock(path: Path) -> int | None:
    """Create a file if it is missing, and lock it; return its descriptor.

    Return None if another process has locked it, if it is a link, or if it cannot be locked.
    """
    try:
        return lock_unless_taken(path)
    except OSError:
        return None


_HELD: Final[set[int]] = set()
"""The descriptors of locks that a forked process must not hold as well: they would last as long as that process."""


def close_in_forks(descriptor: int) -> None:
    """Close a descriptor in each process that this one forks, until `unlock`."""
    _HELD.add(descriptor)


def unlock(descriptor: int) -> None:
    """Close the descriptor of a lock, unless the fork of this process has closed it."""
    if descriptor in _HELD:
        _HELD.discard(descriptor)
        os.close(descriptor)


def _close_inherited() -> None:
    """Close the locks of the parent process."""
    for descriptor in tuple(_HELD):
        unlock(descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)
