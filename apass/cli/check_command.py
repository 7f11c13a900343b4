"""The command of `--check`, which decides whether the model in a file is good."""

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

import anyio
from anyio.abc import Process

from apass.batch.formats import ModelFormat
from apass.cli.inputs import split_command
from apass.concurrency.processes.group import end_group, kill_group, start_group
from apass.errors import BisectError

__all__ = ["Checker", "read_command"]

PLACEHOLDER: Final = "{}"
"""Replaced by the path of the model in a command."""

_CANNOT_RUN: Final = {126, 127}
"""Exit statuses of a POSIX shell: the command is not executable (126), or was not found (127)."""


def read_command(text: str) -> Sequence[str]:
    """Return the words of a command, with a placeholder for the path of the model.

    Raises:
        InputError: if `text` is empty, or a quote is not closed.

    """
    words = split_command("--check", text, "python check.py {}")
    return words if any(PLACEHOLDER in word for word in words) else [*words, PLACEHOLDER]


class Checker:
    """Runs the command on models.

    A model is good if the command exits with status 0 within `timeout` seconds.
    """

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
        """Write the model to the file, and return whether the command accepts it.

        Raises:
            BisectError: if the command cannot be run.

        """
        path = self._format.path_of(mod, self._path)
        await anyio.to_thread.run_sync(self._format.save, mod, path)
        command = [word.replace(PLACEHOLDER, str(path)) for word in self._command]
        try:
            process = await start_group(command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
        except OSError as error:
            raise BisectError(f"cannot run the check: {error}") from error
        stderr = bytearray()
        try:
            with anyio.move_on_after(self._timeout) as scope:
                await _wait(process, stderr)
        finally:
            await end_group(process)
        if scope.cancelled_caught:
            self._report(f"the check was killed after {self._timeout:g} s; the model counts as bad")
            return False
        if process.returncode in _CANNOT_RUN:
            message = stderr.decode(errors="replace").strip()
            raise BisectError(
                f"cannot run the check: {shlex.join(command)} exited with status {process.returncode}: {message}"
            )
        return process.returncode == 0


async def _wait(process: Process, stderr: bytearray) -> None:
    """Wait for the end of a process; add its standard error to `stderr` until then."""

    async def collect() -> None:
        assert process.stderr is not None
        async for chunk in process.stderr:
            stderr.extend(chunk)

    async with anyio.create_task_group() as readers:
        readers.start_soon(collect)
        await process.wait()
        # A child that the process left behind may hold the pipe open, so that `collect` would never end.
        kill_group(process)
