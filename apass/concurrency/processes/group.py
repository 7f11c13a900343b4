"""Process groups: a process is killed together with all processes that it started.

What a worker process starts belongs to the group of the worker: nothing else would end it when the worker is killed.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import IO, Any

import anyio
from anyio.abc import Process

from apass.concurrency.processes.worker_main import WORKER

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

    In a worker process, it belongs to the group of the worker. Call `end_group` in a `finally` block.

    Raises:
        OSError: if the program cannot be started.

    """
    # A cancellation during the start would leave a process without an owner.
    with anyio.CancelScope(shield=True):
        return await anyio.open_process(
            command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=not is_worker()
        )
    # For the type checkers, which assume that a cancel scope may suppress exceptions.
    raise AssertionError("a shielded scope does not suppress exceptions")


def kill_group(process: Process) -> None:
    """Kill the remaining processes of the group, even if its leader has ended.

    In a worker process, kill the process alone: the group belongs to the worker.
    """
    # The id of a group is not reused while a member is alive, even if the leader has ended.
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32" or is_worker():
            process.kill()
        else:
            os.killpg(process.pid, Signals.SIGKILL)


def is_worker() -> bool:
    """Return whether this process is a worker, which its parent kills with its group."""
    return os.environ.get(WORKER) == str(os.getpid())


async def end_group(process: Process) -> None:
    """Kill the remaining processes of the group, and wait for its leader.

    A cancellation is delayed until the leader has ended.
    """
    kill_group(process)
    with anyio.CancelScope(shield=True):
        await process.aclose()
