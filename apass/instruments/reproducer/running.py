"""Inputs of passes that run, which remain if a pass ends the process."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from apass.errors import ReproducerError
from apass.instruments.reproducer.folder import Reproducer, move_folder, read_reproducer, write_reproducer
from apass.util.file_locks import try_lock

__all__ = ["RunningInputs", "recover_inputs"]

RUNNING: Final = ".running"
"""The folder with the inputs of passes that run, below the parent folder of reproducers."""

_LOCK: Final = "lock"
"""The file in the folder of a process that the process has locked."""


class RunningInputs:
    """The inputs of the passes that this process runs; thread-safe.

    Each input is a reproducer folder `.running/PROCESS/MODULE/POSITION`. It is removed when the pass ends. The process
    locks a file of its folder, so that another process knows whether it has ended.

    Parameters:
        base: the parent folder of reproducers.

    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._folder: Path | None = None
        self._descriptor: int | None = None
        self._lock = Lock()
        self._count = 0

    def write(self, name: Path, reproducer: Reproducer, data: bytes | None) -> Path:
        """Write the input of a pass that is about to run; return its folder.

        Raises:
            OSError: if it cannot be written.

        """
        with self._lock:
            if self._folder is None:
                self._folder = self._base / RUNNING / f"{os.getpid()}-{secrets.token_hex(4)}"
                self._folder.mkdir(parents=True)
                self._descriptor = try_lock(self._folder / _LOCK)
            folder = self._folder / name
            self._count += 1
        return write_reproducer(folder, reproducer, data, "the process ended while the pass ran\n")

    def remove(self, folder: Path) -> None:
        """Remove the input of a pass that has ended.

        The last one removes the folder of this process.
        """
        shutil.rmtree(folder, ignore_errors=True)
        with self._lock:
            self._count -= 1
            if self._count or self._folder is None:
                return
            if self._descriptor is not None:
                os.close(self._descriptor)
            shutil.rmtree(self._folder, ignore_errors=True)
            with suppress(OSError):
                self._folder.parent.rmdir()
            self._folder = self._descriptor = None


def recover_inputs(base: Path) -> list[Path]:
    """Make reproducers of the inputs of ended processes; return their folders.

    If a pass had called another, only the input of the inner one is kept.

    Raises:
        OSError: if a folder cannot be moved.

    """
    recovered: list[Path] = []
    for process in sorted((base / RUNNING).glob("*/")):
        descriptor = try_lock(process / _LOCK)
        if descriptor is None:
            continue
        try:
            recovered.extend(move_folder(folder, base / folder.relative_to(process)) for folder in _innermost(process))
        finally:
            os.close(descriptor)
        shutil.rmtree(process, ignore_errors=True)
    with suppress(OSError):
        (base / RUNNING).rmdir()
    return recovered


def _innermost(process: Path) -> Iterator[Path]:
    """Iterate over the complete folders of passes that had not called others."""
    for module in sorted(process.glob("*/")):
        folders = [folder for folder in sorted(module.glob("*/")) if _is_complete(folder)]
        names = [folder.name for folder in folders]
        yield from (folder for folder in folders if not any(name.startswith(f"{folder.name}.") for name in names))


def _is_complete(folder: Path) -> bool:
    # A folder that is being written has a name that begins with a dot.
    if folder.name.startswith("."):
        return False
    try:
        read_reproducer(folder)
    except ReproducerError:
        return False
    return True
