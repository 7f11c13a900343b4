"""Files that a way to watch a run writes at its end: looked at before the run, so that a wrong place costs no run."""

import os
from pathlib import Path

from apass.cli.inputs import InputError
from apass.util.files import is_device, write_whole

__all__ = ["check_file", "write_file"]


def check_file(option: str, path: Path) -> None:
    """Make the folder of a file, and look whether the file can be written there.

    Raises:
        InputError: if it cannot, naming the option.

    """
    if path.is_dir():
        raise InputError(f"{option} writes a file, and {path} is a folder")
    if is_device(path):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(option, path, error) from None
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError(f"{option} cannot write {path}: permission denied")


def write_file(option: str, path: Path, text: str) -> None:
    """Write a file, whole.

    Raises:
        InputError: if it cannot be written, naming the option.

    """
    try:
        write_whole(path, text)
    except OSError as error:
        raise _cannot_write(option, path, error) from None


def _cannot_write(option: str, path: Path, error: OSError) -> InputError:
    return InputError(f"{option} cannot write {path}: {error.strerror or error}")
