"""Output files of observers; their paths are checked before the run."""

import os
from pathlib import Path

from apass.errors import ApassError, InputError
from apass.util.files import is_device, write_whole

__all__ = ["OutputError", "cannot_write", "check_file", "named", "write_file"]


class OutputError(ApassError, OSError):
    """An output besides the models, such as a report, could not be written."""


def check_file(option: str, path: Path) -> None:
    """Create the folder of an output file, and check that the file can be written.

    Raises:
        InputError: if the file cannot be written; the message names `option`.

    """
    if path.is_dir():
        raise InputError(f"{option} must name a file, but {path} is a folder")
    if is_device(path):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(cannot_write(option, path, error)) from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{option} cannot write {path}: permission denied")


def write_file(option: str, path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        OutputError: if the file cannot be written; the message names `option`.

    """
    try:
        write_whole(path, text)
    except OSError as error:
        raise OutputError(cannot_write(option, path, error)) from None


def cannot_write(option: str, path: Path, error: OSError) -> str:
    """Return the message about a file that cannot be written."""
    return f"{option} cannot write {path}: {error.strerror or error}"


def named(error: OSError, path: Path) -> OSError:
    """Return an error that names the file; that of a full disk does not."""
    is_named = error.filename is not None or error.errno is None
    return error if is_named else OSError(error.errno, error.strerror, str(path))
