"""Reading a damaged file in a process of its own, which may crash."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from apass.errors import AdapterError

__all__ = ["read_in_process"]

MAX_SECONDS: Final = 600
"""Time limit for the process that reads a file."""


def read_in_process(program: str, arguments: Sequence[str], data: bytes, *, library: str, path: Path) -> bytes:
    """Return what a Python program writes for the bytes of a file.

    Parameters:
        program: the program, which reads `data` from standard input.
        arguments: its arguments.
        data: the bytes of the file.
        library: the library that the program uses, for errors.
        path: the file, for errors.

    Raises:
        AdapterError: if the program crashes, writes nothing, or takes longer than `MAX_SECONDS`.

    """
    command = [sys.executable, "-c", program, *arguments]
    try:
        done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        raise AdapterError(f"{library} did not read {path} within {MAX_SECONDS} seconds") from None
    if done.returncode or not done.stdout:
        words = done.stderr.decode(errors="replace").split("\n")[0][:200].strip()
        shown = f": {words}" if words else ""
        status = f"exit status {done.returncode}"
        raise AdapterError(f"{library} crashed when it read {path} ({status}){shown}; the file is damaged")
    return done.stdout
