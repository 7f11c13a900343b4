"""Children that answer: `ProcessHelper` asks one that stays, line by line; `run_process` runs one for one question."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import Signals
from subprocess import PIPE
from types import TracebackType
from typing import Final, Self

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.lowlevel import checkpoint
from anyio.streams.buffered import BufferedByteReceiveStream

from apass.concurrency.processes.group import Stream, end_group, kill_group, start_group
from apass.errors import HelperError
from apass.external.policy import Policy
from apass.external.service import Service

__all__ = ["ProcessHelper", "run_process"]

Command = Sequence[str | Path]
"""A program and its arguments; no shell is between."""
END_SECONDS: Final = 0.2
"""How long a child that has closed its output may take to end."""
ROUNDS_TO_READ: Final = 5
"""In so many rounds of the event loop a task that is started reads what there is to read."""


async def run_process(
    command: Command, question: bytes = b"", *, cwd: str | Path | None = None, env: Mapping[str, str] | None = None
) -> bytes:
    r"""Run a command, write `question` to it, and return what it wrote when it has ended.

    It is the leader of a group of processes of its own. When it has ended, and when the call is cancelled or out of
    time, what is left of the group is killed: nothing that it started outlives the call.

    Parameters:
        command: the program and its arguments.
        question: what it reads on standard input.
        cwd: the folder to run it in.
        env: its environment, in place of this process's own.

    Raises:
        HelperError: if its exit status is not 0; the message has the last of what it wrote to standard error.
        OSError: if it cannot be started.

    >>> import sys
    >>> async def main():
    ...     return await run_process([sys.executable, "-c", "print(input()[::-1])"], b"abc")
    >>> anyio.run(main)
    b'cba\n'

    """
    process = await _start(command, cwd, env, PIPE)
    answer, complaint = bytearray(), bytearray()
    try:
        async with anyio.create_task_group() as readers:
            readers.start_soon(_collect, process.stdout, answer)
            readers.start_soon(_collect, process.stderr, complaint)
            await _feed(process, question)
            await process.wait()
            # What it left behind may hold the pipes open for ever.
            kill_group(process)
    finally:
        await end_group(process)
    if process.returncode:
        raise HelperError(f"{_ended(command, process.returncode)}{_last_words(bytes(complaint))}")
    return bytes(answer)


class ProcessHelper(Service[str, str]):
    """Children that read a line and answer with a line; `await helper.ask(line)`, within `async with`.

    A child is started when it is first needed and then asked again and again, one question at a time; there are at most
    `policy.concurrency` of them (1 by default). Each leads a group of processes of its own. A child that is
    cancelled or out of time at a question, that ends, or that answers what is no line is killed with its whole group,
    and the next question gets a new one. So are all when the block ends.

    Parameters:
        command: the program and its arguments; it must flush each answer.
        policy: how to ask (see `Policy`).
        cwd: the folder to run it in.
        env: its environment, in place of this process's own.
        stderr: where its standard error goes; by default to that of this process.
        max_line: the most bytes of one answer.

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
        _check_command(command)
        policy = policy or Policy()
        super().__init__(self._exchange, replace(policy, concurrency=policy.concurrency or 1), name=_shown(command))
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

    async def _exchange(self, question: str) -> str:
        if not self._is_open:
            raise RuntimeError(f"{self.name} is not open; ask it within `async with helper:`")
        if "\n" in question:
            raise ValueError(f"a question is one line, but this one has several: {question!r}")
        child = await self._child()
        try:
            answer = await child.exchange(question)
        except BaseException:
            # It may answer later, and then to the wrong question.
            await end_group(child.process)
            raise
        self._idle.append(child)
        if not self._is_open:
            await self.__aexit__(None, None, None)
        return answer

    async def _child(self) -> "_Child":
        """Return a child that is at rest, a new one if there is none."""
        while self._idle:
            child = self._idle.pop()
            is_at_rest = False
            try:
                is_at_rest = await child.is_at_rest()
            finally:
                if not is_at_rest:
                    await end_group(child.process)
            if is_at_rest:
                return child
        return _Child(self._command, await _start(self._command, *self._start_options), self._max_line)


class _Child:
    """One child of a `ProcessHelper`, and what it has written so far."""

    def __init__(self, command: Command, process: Process, max_line: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.command = command
        self.process = process
        self.requests = process.stdin
        self.answers = BufferedByteReceiveStream(process.stdout)
        self.max_line = max_line

    async def is_at_rest(self) -> bool:
        """Tell whether it runs and has written nothing unasked, which would pass for the answer to what is asked next.

        What it writes later than this nobody can tell from an answer.
        """
        if self.process.returncode is not None or self.answers.buffer:
            return False
        written: list[bytes] = []
        async with anyio.create_task_group() as group:
            group.start_soon(_collect_one, self.process.stdout, written)
            for _ in range(ROUNDS_TO_READ):
                await checkpoint()
            group.cancel_scope.cancel()
        return not written

    async def exchange(self, question: str) -> str:
        """Write a line and return the line that comes back."""
        try:
            await self.requests.send(question.encode() + b"\n")
            line = await self.answers.receive_until(b"\n", self.max_line)
            answer = line.removesuffix(b"\r").decode()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead):
            raise HelperError(await self._why_no_answer()) from None
        except anyio.DelimiterNotFound:
            raise HelperError(self._too_long()) from None
        except UnicodeDecodeError as error:
            raise HelperError(f"{_shown(self.command)} answered what is no UTF-8: {error}") from error
        if len(line) > self.max_line:
            raise HelperError(self._too_long())
        if self.answers.buffer:
            raise HelperError(f"{_shown(self.command)} answered more than one line: {answer!r} and then more")
        return answer

    def _too_long(self) -> str:
        return f"{_shown(self.command)} answered more than {self.max_line} bytes in a line"

    async def _why_no_answer(self) -> str:
        # It closed its output: it has ended or is about to.
        with anyio.move_on_after(END_SECONDS):
            await self.process.wait()
        if not _has_ended(self.process):
            return f"{_shown(self.command)} closed its output and had not answered"
        return f"{_ended(self.command, await self.process.wait())}, and had not answered"


def _check_command(command: object) -> None:
    if isinstance(command, str | bytes) or not command:
        raise TypeError(f"a command is a list of a program and its arguments, not {command!r}")


async def _start(command: Command, cwd: str | Path | None, env: Mapping[str, str] | None, stderr: Stream) -> Process:
    _check_command(command)
    words = [os.fspath(word) for word in command]
    return await start_group(words, stdin=PIPE, stdout=PIPE, stderr=stderr, cwd=cwd, env=env)


async def _feed(process: Process, question: bytes) -> None:
    assert process.stdin is not None
    # It need not read all, or anything.
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(question)
    await process.stdin.aclose()


async def _collect_one(stream: ByteReceiveStream | None, into: list[bytes]) -> None:
    assert stream is not None
    try:
        into.append(await stream.receive())
    except anyio.EndOfStream:
        into.append(b"")


async def _collect(stream: ByteReceiveStream | None, into: bytearray) -> None:
    assert stream is not None
    async for chunk in stream:
        into += chunk


def _has_ended(process: Process) -> bool:
    """Tell whether a process has ended, which on a busy machine the event loop learns late."""
    if process.returncode is not None or sys.platform != "linux":
        return process.returncode is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        # The event loop has just learned of it.
        return True


def _shown(command: Command) -> str:
    return shlex.join(map(str, command))


def _ended(command: Command, status: int) -> str:
    how = f"was ended by {Signals(-status).name}" if status < 0 else f"ended with exit status {status}"
    return f"{_shown(command)} {how}"


def _last_words(complaint: bytes) -> str:
    lines = complaint.decode(errors="backslashreplace").rstrip().splitlines()[-5:]
    return "; its last words:\n" + "\n".join(lines) if lines else ""
