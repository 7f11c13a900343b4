"""Asking a command of the user whether a model in a file is good."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

import anyio
from anyio.abc import Process

from apass.cli.formats import ModelFormat
from apass.cli.inputs import InputError
from apass.concurrency.processes.group import end_group, kill_group, start_group
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
    """Runs the command on models; a model is good if it ends with status 0, and within `timeout` seconds."""

    def __init__(
        self,
        command: Sequence[str],
        model_format: ModelFormat,
        path: Path,
        *,
        timeout: float | None,
        report: Callable[[str], object],
    ) -> None:
        self._command = command
        self._format = model_format
        self._path = path
        self._timeout = timeout
        self._report = report

    async def is_good(self, mod: Any) -> bool:
        """Write a model to the file, and ask.

        Raises:
            BisectError: if the command cannot be run.

        """
        await anyio.to_thread.run_sync(self._format.save, mod, self._path)
        command = [word.replace(PLACE, str(self._path)) for word in self._command]
        try:
            process = await start_group(command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
        except OSError as error:
            raise BisectError(f"the check cannot be run: {error}") from error
        said = bytearray()
        try:
            with anyio.move_on_after(self._timeout) as scope:
                await _ended(process, said)
        finally:
            await end_group(process)
        if scope.cancelled_caught:
            self._report(f"the check was ended after {self._timeout:g} s, which counts as bad")
            return False
        if process.returncode in _CANNOT_RUN:
            why = said.decode(errors="replace").strip()
            raise BisectError(f"the check cannot be run: {shlex.join(command)} ended with {process.returncode}: {why}")
        return process.returncode == 0


async def _ended(process: Process, said: bytearray) -> None:
    """Wait for the end of a process, and take what it writes to standard error until then."""

    async def collect() -> None:
        assert process.stderr is not None
        async for chunk in process.stderr:
            said.extend(chunk)

    async with anyio.create_task_group() as readers:
        readers.start_soon(collect)
        await process.wait()
        # What it left behind may hold the pipe open for ever.
        kill_group(process)
