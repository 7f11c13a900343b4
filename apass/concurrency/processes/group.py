"""Processes that lead a group of their own, so that nothing that they start outlives them."""

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
"""Where a standard stream of a process leads: `PIPE`, `DEVNULL`, a file, or None for that of this process."""


async def start_group(
    command: Sequence[str],
    *,
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Start a program as the leader of a group; hand it to `end_group` in a `finally`.

    Raises:
        OSError: if it cannot be started.

    """
    # A child that a cancellation finds half started would be nobody's.
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=True
        )
    raise AssertionError("a shield swallows no cancellation")


def kill_group(process: Process) -> None:
    """Kill what is left of the group, whether or not its leader has ended."""
    # As long as one of its members lives, its number belongs to no other group, even if the leader has ended.
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, Signals.SIGKILL)


async def end_group(process: Process) -> None:
    """Kill what is left of the group, and wait for its leader; a cancellation comes afterwards."""
    kill_group(process)
    with anyio.CancelScope(shield=True):
        await process.aclose()
