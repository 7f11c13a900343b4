"""The command of `--check`, which decides whether the model in a file is good."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import anyio
import typer
from anyio.abc import Process

from apass.batch.formats import ModelFormat
from apass.cli.inputs import split_command
from apass.concurrency.processes.group import end_group, kill_group, start_group
from apass.errors import InputError
from apass.instruments.reproducer.folder import Failure

__all__ = ["TIMEOUT", "CheckCommand", "CheckTimeoutOption", "read_command"]

AFTER: Final = "{}"
"""Replaced by the path of the model in a command."""
BEFORE: Final = "{before}"
"""Replaced by the path of the model before the passes."""

_FOLDER: Final = "{folder}"
"""Replaces the path of the folder of the models in a message."""

_PLACEHOLDER: Final = re.compile(f"{re.escape(BEFORE)}|{re.escape(AFTER)}")

TIMEOUT: Final = "check timeout"
"""The type of the failure of a check that was killed."""

_CANNOT_RUN: Final = {126, 127}
"""Exit statuses of a POSIX shell: the command is not executable (126), or was not found (127)."""

CheckTimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--check-timeout", metavar="SECONDS", min=0.01, help="Kill a check that takes longer; the model counts as bad."
    ),
]


def read_command(text: str) -> Sequence[str]:
    """Return the words of a command, with a placeholder for the path of the model.

    Raises:
        InputError: if `text` is empty, or a quote is not closed.

    """
    words = split_command("--check", text, "python check.py {}")
    return words if any(AFTER in word for word in words) else [*words, AFTER]


class CheckCommand:
    """Runs the command on models.

    A model is good if the command exits with status 0 within `timeout` seconds.

    Parameters:
        command: the words of the command; `{}` is the model, and `{before}` the model before the passes.
        model_format: the format of the model before the passes.
        name: the name of the model's file.
        timeout: seconds; None for no limit.

    """

    def __init__(self, command: Sequence[str], model_format: ModelFormat, name: str, timeout: float | None) -> None:
        self._command = command
        self._format = model_format
        self._name = name
        self._timeout = timeout

    def __str__(self) -> str:
        limit = "" if self._timeout is None else f" (killed after {self._timeout:g} s)"
        return shlex.join(self._command) + limit

    async def __call__(self, before: Any, after: Any) -> bool | Failure:
        """Write the models to files, and return whether the command accepts them.

        The type of the failure is the exit status. Its message is the last line that the command wrote to standard
        error, with placeholders for the paths of the models.

        Raises:
            InputError: if the command cannot be run.

        """
        with TemporaryDirectory(prefix="apass-check-") as folder:
            paths: dict[str, str] = {}
            for placeholder, mod in ((BEFORE, before), (AFTER, after)):
                if not any(placeholder in word for word in self._command):
                    continue
                path = self._format.path_of(mod, Path(folder) / placeholder.strip("{}") / self._name)
                path.parent.mkdir(exist_ok=True)
                await anyio.to_thread.run_sync(self._format.save, mod, path)
                paths[placeholder] = str(path)
            # All at once: the name of a model may contain a placeholder.
            verdict = await self._run([_PLACEHOLDER.sub(lambda match: paths[match[0]], word) for word in self._command])
            if not isinstance(verdict, Failure):
                return verdict
            # The folder has a random name, so that the messages of equal failures would differ.
            message = verdict.message
            for placeholder, path_text in paths.items():
                message = message.replace(path_text, placeholder)
            return Failure(type=verdict.type, message=message.replace(folder, _FOLDER))

    async def _run(self, words: Sequence[str]) -> bool | Failure:
        try:
            process = await start_group(words, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)
        except OSError as error:
            raise InputError(f"cannot run the check: {error}") from error
        stderr = bytearray()
        try:
            with anyio.move_on_after(self._timeout) as scope:
                await _wait(process, stderr)
        finally:
            await end_group(process)
        if scope.cancelled_caught:
            return Failure(type=TIMEOUT, message=f"the check was killed after {self._timeout:g} s")
        message = stderr.decode(errors="replace").strip()
        if process.returncode in _CANNOT_RUN:
            raise InputError(
                f"cannot run the check: {shlex.join(words)} exited with status {process.returncode}: {message}"
            )
        last_line = message.splitlines()[-1] if message else "no message on standard error"
        return process.returncode == 0 or Failure(type=f"exit status {process.returncode}", message=last_line)


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
