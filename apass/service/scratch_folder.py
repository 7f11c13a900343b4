"""`scratch_folder`: temporary files, which the next start removes after a kill."""

import os
import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

if sys.platform != "win32":
    import fcntl

__all__ = ["scratch_folder"]

PREFIX: Final = "apass-service-"
"""The beginning of the names of the folders."""


@contextmanager
def scratch_folder() -> Generator[Path]:
    """Create a folder in that for temporary files, and remove it at the end.

    The folders that killed processes of the user have left are removed first. The process has a lock on its folder,
    which ends with the process. Windows has no locks on folders: what is left there stays.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder, lock = _create()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _create() -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = _lock(folder, waits=True)
        # Another process may have taken the folder for an abandoned one before it was locked.
        if lock is None or folder.exists():
            return folder, lock
        os.close(lock)


def _remove_abandoned(base: Path) -> None:
    """Remove the folders of processes that have ended."""
    # A folder that cannot be removed must not keep a server from starting.
    with suppress(OSError):
        for folder in base.glob(f"{PREFIX}*"):
            lock = _lock(folder, waits=False)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path, *, waits: bool) -> int | None:
    """Lock a folder of this user, and return the descriptor of the lock.

    Return None if there is no such folder, another process has locked it, or the file system has no locks.
    """
    if sys.platform == "win32":
        return None
    try:
        # A link of another user might lead to any folder.
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
    except OSError:
        pass
    os.close(lock)
    return None
