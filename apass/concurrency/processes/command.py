"""`complete_process`: runs a command in a process group of its own."""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from subprocess import PIPE, CompletedProcess

import anyio
from anyio.abc import ByteReceiveStream, Process

from apass.concurrency.processes.group import Stream, end_group, kill_group, start_group

__all__ = [
    "Command",
    "check_command",
    "command_text",
    "complete_process",
    "exit_message",
    "last_lines",
    "start_command",
]

Command = Sequence[str | Path]
"""A program and its arguments; no shell is used."""


async def complete_process(
    command: Command, question: bytes = b"", *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None
) -> CompletedProcess[bytes]:
    """Run a command, and return its output and its exit status.

    When the command exits, and when the call is cancelled, the rest of its process group is killed.

    Parameters:
        command: the program and its arguments.
        question: the standard input.
        cwd: the working directory.
        env: the environment, in place of this process's own.

    Raises:
        TypeError: if `command` is a string, or empty.
        OSError: if the command cannot be started.

    """
    process = await start_command(command, cwd, env, PIPE)
    answer, error_output = bytearray(), bytearray()
    try:
        async with anyio.create_task_group() as readers:
            readers.start_soon(_collect, process.stdout, answer)
            readers.start_soon(_collect, process.stderr, error_output)
            assert process.stdin is not None
            # The command may close its input without reading all of it.
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await process.stdin.send(question)
            await process.stdin.aclose()
            await process.wait()
            # Processes that it left behind may keep the pipes open forever.
            kill_group(process)
    finally:
        await end_group(process)
    return CompletedProcess(command, await process.wait(), bytes(answer), bytes(error_output))


async def start_command(
    command: Command, cwd: str | Path | None, env: Mapping[str, str] | None, stderr: Stream
) -> Process:
    """Start a command with pipes for its input and output.

    Raises:
        TypeError: if `command` is a string, or empty.
        OSError: if the command cannot be started.

    """
    check_command(command)
    arguments = [os.fspath(argument) for argument in command]
    return await start_group(arguments, stdin=PIPE, stdout=PIPE, stderr=stderr, cwd=cwd, env=env)


def check_command(command: object) -> None:
    """Raise TypeError unless `command` is a list of a program and its arguments."""
    if isinstance(command, str | bytes) or not command:
        raise TypeError(f"a command must be a list of a program and its arguments, got {command!r}")


def command_text(command: Command) -> str:
    """Return a command as one would type it in a shell."""
    return shlex.join(map(str, command))


def exit_message(command: Command, status: int) -> str:
    """Return how a command ended; a negative status is the signal that killed it."""
    outcome = f"was killed by {Signals(-status).name}" if status < 0 else f"exited with status {status}"
    return f"{command_text(command)} {outcome}"


def last_lines(error_output: bytes) -> str:
    """Return the last lines of standard error as the end of a message."""
    lines = error_output.decode(errors="backslashreplace").rstrip().splitlines()[-5:]
    return "; the end of its standard error:\n" + "\n".join(lines) if lines else ""


async def _collect(stream: ByteReceiveStream | None, into: bytearray) -> None:
    assert stream is not None
    async for chunk in stream:
        into += chunk
