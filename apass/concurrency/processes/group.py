"""Process groups: a process is killed together with all processes that it started."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import IO, Any

import anyio
from anyio.abc import Process

__all__ = ["Stream", "end_group", "kill_group", "start_group"]

Stream = int | IO[Any] | None
"""The target of a standard stream: `PIPE`, `DEVNULL`, a file, or None to inherit it."""


async def start_group(
    command: Sequence[str],
    *,
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start a program as the leader of a new process group.

    Call `end_group` in a `finally` block.

    Raises:
        OSError: if the program cannot be started.

    """
    # A cancellation during the start would leave a process without an owner.
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
        )
    # For the type checkers, which assume that a cancel scope may suppress exceptions.
    raise AssertionError("a shielded scope does not suppress exceptions")


def kill_group(process: Process) -> None:
    """Kill the remaining processes of the group, even if its leader has ended."""
    # The id of a group is not reused while a member is alive, even if the leader has ended.
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, Signals.SIGKILL)


async def end_group(process: Process) -> None:
    """Kill the remaining processes of the group, and wait for its leader.

    A cancellation is delayed until the leader has ended.
    """
    kill_group(process)
    with anyio.CancelScope(shield=True):
        await process.aclose()
