"""`ProcessHelper` and `run_process`: external helpers as child processes."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.lowlevel import checkpoint
from anyio.streams.buffered import BufferedByteReceiveStream

from apass.concurrency.processes.command import (
    Command,
    check_command,
    command_text,
    complete_process,
    exit_message,
    last_lines,
    start_command,
)
from apass.concurrency.processes.group import Stream, end_group
from apass.errors import HelperError
from apass.external.answers.asking import answer_of
from apass.external.policy import Policy
from apass.external.service import Service

__all__ = ["ProcessHelper", "run_process"]

EXIT_SECONDS: Final = 0.2
"""Seconds until a child that has closed its output is expected to exit."""
ROUNDS_TO_READ: Final = 5
"""Number of event loop iterations in which a new task reads the available output."""


async def run_process(
    command: Command, question: bytes = b"", *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    r"""Run a command with `question` as its input, and return its output.

    The command leads its own process group. When it exits, and when the call is cancelled or exceeds its time limit,
    the rest of the group is killed. No process that it started outlives the call.

    Parameters:
        command: the program and its arguments.
        question: the standard input.
        cwd: the working directory.
        env: the environment, in place of this process's own.

    Raises:
        HelperError: if the exit status is not 0. The message includes the last lines of standard error.
        OSError: if the command cannot be started.

    >>> import sys
    >>> async def main():
    ...     return await run_process([sys.executable, "-c", "print(input()[::-1])"], b"abc")
    >>> anyio.run(main)
    b'cba\n'

    """

    async def ask() -> bytes:
        process = await complete_process(command, question, cwd=cwd, env=env)
        if process.returncode:
            raise HelperError(f"{exit_message(command, process.returncode)}{last_lines(process.stderr)}")
        return process.stdout

    check_command(command)
    return await answer_of(command_text(command), question, ask, kind="process")


class ProcessHelper(Service[str, str]):
    """A service over child processes that answer each input line with one line.

    Call `await helper.ask(line)` within `async with`. Children are started on demand and reused, and handle one
    request at a time. There are at most `policy.concurrency` of them, by default 1. Each child leads its own process
    group.

    A child is killed with its group, and replaced for the next request, in these cases:

    - its request is cancelled or exceeds the timeout
    - it exits
    - its answer is not a single line

    All children are killed when the block ends.

    Parameters:
        command: the program and its arguments. It must flush each answer.
        policy: the limits (see `Policy`).
        cwd: the working directory.
        env: the environment, in place of this process's own.
        stderr: the destination of standard error. The default is that of this process.
        max_line: maximum length of an answer in bytes.

    Raises:
        TypeError: if `command` is a string, or empty.

    >>> import sys
    >>> async def main():
    ...     command = [sys.executable, "-uc", "while True: print(input()[::-1])"]
    ...     async with ProcessHelper(command) as helper:
    ...         return await helper.ask("abc"), await helper.ask("xyz")
    >>> anyio.run(main)
    ('cba', 'zyx')

    """

    def __init__(
        self,
        command: Command,
        policy: Policy | None = None,
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Stream = None,
        max_line: int = 2**20,
    ) -> None:
        check_command(command)
        policy = policy or Policy()
        super().__init__(
            self._exchange, replace(policy, concurrency=policy.concurrency or 1), name=command_text(command)
        )
        self._command = list(command)
        self._start_options = (cwd, env, stderr)
        self._max_line = max_line
        self._idle: list[_Child] = []
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        while self._idle:
            await end_group(self._idle.pop().process)

    async def _exchange(self, request: str) -> str:
        if not self._is_open:
            raise RuntimeError(f"{self.name} is not open; call ask within `async with helper:`")
        if "\n" in request:
            raise ValueError(f"a request must be a single line, got {request!r}")
        child = await self._child()
        try:
            answer = await child.exchange(request)
        except BaseException:
            # Kill the child: it might answer later, and that would be taken for the answer to the next request.
            await end_group(child.process)
            raise
        self._idle.append(child)
        if not self._is_open:
            await self.__aexit__(None, None, None)
        return answer

    async def _child(self) -> "_Child":
        """Return an idle child, or start a new one."""
        while self._idle:
            child = self._idle.pop()
            is_idle = False
            try:
                is_idle = await child.is_idle()
            finally:
                if not is_idle:
                    await end_group(child.process)
            if is_idle:
                return child
        return _Child(self._command, await start_command(self._command, *self._start_options), self._max_line)


class _Child:
    """A child of a `ProcessHelper`, with its buffered output."""

    def __init__(self, command: Command, process: Process, max_line: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.command = command
        self.process = process
        self.requests = process.stdin
        self.answers = BufferedByteReceiveStream(process.stdout)
        self.max_line = max_line

    async def is_idle(self) -> bool:
        """Return whether the child runs and has no unread output.

        Unread output would be taken for the answer to the next request. Output that is written after this check cannot
        be distinguished from an answer.
        """
        if self.process.returncode is not None or self.answers.buffer:
            return False
        written: list[bytes] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_receive_chunk, self.process.stdout, written)
            for _ in range(ROUNDS_TO_READ):
                await checkpoint()
            group.cancel_scope.cancel()
        return not written

    async def exchange(self, request: str) -> str:
        """Send a line, and return the line of the answer."""
        try:
            await self.requests.send(request.encode() + b"\n")
            line = await self.answers.receive_until(b"\n", self.max_line)
            answer = line.removesuffix(b"\r").decode()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead):
            raise HelperError(await self._no_answer_message()) from None
        except anyio.DelimiterNotFound:
            raise HelperError(self._too_long_message()) from None
        except UnicodeDecodeError as error:
            raise HelperError(f"{command_text(self.command)} answered with invalid UTF-8: {error}") from error
        if len(line) > self.max_line:
            raise HelperError(self._too_long_message())
        if self.answers.buffer:
            raise HelperError(
                f"{command_text(self.command)} answered with more than one line, starting with {answer!r}"
            )
        return answer

    def _too_long_message(self) -> str:
        return (
            f"{command_text(self.command)} answered with a line of more than {self.max_line} bytes; increase max_line"
        )

    async def _no_answer_message(self) -> str:
        # The child closed its output. It has exited, or will soon.
        with anyio.move_on_after(EXIT_SECONDS):
            await self.process.wait()
        if not _has_ended(self.process):
            return f"{command_text(self.command)} closed its output before answering"
        return f"{exit_message(self.command, await self.process.wait())} before answering"


async def _receive_chunk(stream: ByteReceiveStream | None, into: list[bytes]) -> None:
    assert stream is not None
    try:
        into.append(await stream.receive())
    except anyio.EndOfStream:
        into.append(b"")


def _has_ended(process: Process) -> bool:
    """Return whether a process has exited.

    On a busy machine, the event loop is notified late, so ask the operating system.
    """
    if process.returncode is not None or sys.platform != "linux":
        return process.returncode is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        # The event loop has just reaped it.
        return True
