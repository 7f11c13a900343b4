"""Runs of functions and programs that are pinned to a core, in worker processes."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any, TypeVar

from apass.concurrency.processes.affinity import pinned_to
from apass.concurrency.processes.command import Command, check_command, exit_message, last_lines
from apass.concurrency.processes.pool import run_in_worker
from apass.errors import HelperError

__all__ = ["call_pinned", "run_pinned"]

R = TypeVar("R")


async def call_pinned(core: int | None, function: Callable[..., R], *args: Any) -> R:
    """Return `function(*args)`, computed in a worker that is pinned meanwhile."""
    return await run_in_worker(_call, core, function, *args)


async def run_pinned(
    core: int | None, command: Command, question: bytes, cwd: str | Path | None, env: Mapping[str, str] | None
) -> tuple[float, bytes, bytes]:
    """Run a pinned program; return its seconds, output and error output.

    Raises:
        HelperError: if the exit status is not 0.
        TypeError: if `command` is a string, or empty.
        OSError: if the program cannot be started.

    """
    check_command(command)
    arguments = [os.fspath(argument) for argument in command]
    environment = None if env is None else dict(env)
    status, seconds, output, errors = await run_in_worker(_run, core, arguments, question, cwd, environment)
    if status:
        raise HelperError(f"{exit_message(command, status)}{last_lines(errors)}")
    return seconds, output, errors


def _call(core: int | None, function: Callable[..., Any], *args: Any) -> Any:
    with pinned_to(core):
        return function(*args)


def _run(
    core: int | None, command: list[str], question: bytes, cwd: str | Path | None, env: dict[str, str] | None
) -> tuple[int, float, bytes, bytes]:
    """Run a program in a worker; return status, seconds, output and error output.

    The worker pins itself before it starts the program, which inherits the affinity. `preexec_fn` is unsafe in a
    program with threads, and to pin a process after its start is too late: its threads may have started.

    In a worker, neither the event loop nor Python's lock delays the look at the clock. Files in place of pipes leave
    nothing to do for the worker during the run.
    """
    with TemporaryFile() as source, TemporaryFile() as out, TemporaryFile() as err:
        source.write(question)
        source.seek(0)
        with pinned_to(core):
            start = perf_counter()
            process = Popen(command, stdin=source, stdout=out, stderr=err, cwd=cwd, env=env)
        status = process.wait()
        seconds = perf_counter() - start
        out.seek(0)
        err.seek(0)
        return status, seconds, out.read(), err.read()
