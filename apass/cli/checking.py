"""Asking a command of the user whether a model in a file is good."""

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from apass.cli.formats import ModelFormat
from apass.cli.inputs import InputError
from apass.errors import BisectError

__all__ = ["Checker", "read_command"]

PLACE: Final = "{}"
"""Where in a command the path of the model goes."""

_CANNOT_RUN: Final = {126, 127}
"""The exit statuses by which a shell says that there is no such command, or none that may be run."""


def read_command(text: str) -> Sequence[str]:
    """Return the words of a command; InputError if there are none, or a quote is not closed."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(f"--check {text!r} is no command: {error}") from None
    if not words:
        raise InputError("--check needs a command, such as 'python check.py {}'")
    return words if any(PLACE in word for word in words) else [*words, PLACE]


class Checker:
    """Runs the command on models; a model is good if it ends with status 0."""

    def __init__(self, command: Sequence[str], model_format: ModelFormat, path: Path) -> None:
        self._command = command
        self._format = model_format
        self._path = path

    async def is_good(self, mod: Any) -> bool:
        """Write a model to the file, and ask.

        Raises:
            BisectError: if the command cannot be run.

        """
        await anyio.to_thread.run_sync(self._format.save, mod, self._path)
        command = [word.replace(PLACE, str(self._path)) for word in self._command]
        try:
            done = await anyio.run_process(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
            )
        except OSError as error:
            raise BisectError(f"the check cannot be run: {error}") from error
        if done.returncode in _CANNOT_RUN:
            said = done.stderr.decode(errors="replace").strip()
            raise BisectError(f"the check cannot be run: {shlex.join(command)} ended with {done.returncode}: {said}")
        return done.returncode == 0
