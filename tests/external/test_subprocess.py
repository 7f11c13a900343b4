"""Helper processes with descendants, which must not survive a cancellation."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from apass import PassContext, function_pass
from apass.errors import BudgetExceededError, HelperError, ServiceTimeoutError
from apass.external import Backoff, Policy, ProcessHelper, Service, run_process
from apass.external.subprocess import EXIT_SECONDS

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups"),
    pytest.mark.process,
]

FAMILY = """
import os, socket, subprocess, sys, time
here = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
here.sendall(b"here\\n")
depth = int(sys.argv[2])
if depth:
    subprocess.Popen([sys.executable, "-c", sys.argv[3], sys.argv[1], str(depth - 1), sys.argv[3]])
if "ends" in sys.argv[4:]:
    here.recv(1)
    sys.exit()
time.sleep(600)
"""
"""Script of a process that reports to a socket and starts a descendant.

It then sleeps, or exits when all processes have started.
"""


class FamilyWatch:
    """Watches processes that connect to it.

    The operating system closes the socket of a process that has exited.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: list[SocketStream] = []
        self.all_started = anyio.Event()
        self.expected = 0

    def command(self, generations: int, *more: str) -> list[str]:
        """Return the command of a process with this many generations of descendants."""
        self.expected += generations + 1
        return [sys.executable, "-c", FAMILY, str(self.port), str(generations), FAMILY, *more]

    async def register(self, stream: SocketStream) -> None:
        """Register a process that reports its start."""
        async with stream:
            assert await stream.receive() == b"here\n"
            self.streams.append(stream)
            if len(self.streams) == self.expected:
                self.all_started.set()
            await self.all_started.wait()
            with suppress(anyio.BrokenResourceError):
                await stream.send(b".")
            await anyio.sleep_forever()

    async def wait_until_all_exited(self) -> None:
        """Wait until all processes have exited; TimeoutError if one has not."""
        assert len(self.streams) == self.expected
        with anyio.fail_after(60):
            for stream in self.streams:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()


@asynccontextmanager
async def watch_family() -> AsyncGenerator[FamilyWatch]:
    """Listen for processes on a free port."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        watch = FamilyWatch(int(listener.extra(SocketAttribute.local_port)))
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, watch.register)
            yield watch
            group.cancel_scope.cancel()


def echo(body: str) -> list[str]:
    """Return the command of a helper that runs `body` for each line."""
    code = f"import os, subprocess, sys, time\nfor line in sys.stdin:\n    line = line[:-1]\n    {body}\n"
    return [sys.executable, "-uc", code]


UPPER = echo("print(line.upper())")


async def test_run_process_returns_the_output() -> None:
    assert await run_process([sys.executable, "-c", "print(input()[::-1])"], b"abc") == b"cba\n"


async def test_run_process_sets_directory_and_environment(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ['WORD'])"
    answer = await run_process([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "WORD": "x"})
    folder, word = answer.decode().split()
    assert (await anyio.Path(folder).samefile(tmp_path), word) == (True, "x")


async def test_failed_process_error_contains_status_and_stderr() -> None:
    code = "import sys; sys.exit('no licence')"
    with pytest.raises(HelperError, match=r"exited with status 1; the end of its standard error:\nno licence$"):
        await run_process([sys.executable, "-c", code])


async def test_killed_process_error_names_the_signal() -> None:
    with pytest.raises(HelperError, match=r"was killed by SIGKILL$"):
        await run_process([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])


async def test_input_and_output_may_exceed_a_pipe() -> None:
    data = os.urandom(3_000_000)
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert await run_process([sys.executable, "-c", code], data) == data


async def test_process_may_ignore_its_input() -> None:
    assert await run_process([sys.executable, "-c", "print(5)"], b"x" * 1_000_000) == b"5\n"


@pytest.mark.parametrize("command", ["ls -l", b"ls", []])
async def test_command_must_be_a_list(command: Any) -> None:
    with pytest.raises(TypeError, match="a command must be a list of a program and its arguments"):
        await run_process(command)


async def test_missing_program_raises_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_process([tmp_path / "nothing"])
    async with ProcessHelper([tmp_path / "nothing"]) as helper:
        with pytest.raises(FileNotFoundError):
            await helper.ask("x")


@pytest.mark.network
async def test_cancelled_run_process_kills_its_group() -> None:
    async with watch_family() as watch, anyio.create_task_group() as group:
        group.start_soon(run_process, watch.command(3))
        await watch.all_started.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await watch.wait_until_all_exited()


TIMEOUTS = (1, 4, 16, 64)
"""Timeouts in seconds in which processes can start: first for a fast machine."""


@pytest.mark.network
@pytest.mark.slow
async def test_timed_out_run_process_kills_its_group() -> None:
    for seconds in TIMEOUTS:
        async with watch_family() as watch:
            ask = partial(run_process, watch.command(2))
            with pytest.raises(ServiceTimeoutError):
                await Service[bytes, bytes](ask, Policy(timeout=seconds)).ask(b"x")
            if watch.all_started.is_set():
                await watch.wait_until_all_exited()
                return
    raise AssertionError("the processes did not start")


@pytest.mark.network
async def test_run_process_kills_descendants_when_process_exits() -> None:
    async with watch_family() as watch:
        with anyio.fail_after(60):
            assert await run_process(watch.command(1, "ends")) == b""
        await watch.wait_until_all_exited()


async def test_helper_reuses_one_child() -> None:
    async with ProcessHelper(echo("print(os.getpid(), line)")) as helper:
        answers = [await helper.ask(f"line {index}") for index in range(50)]
    pids = {answer.split()[0] for answer in answers}
    assert (len(pids), [answer.split(" ", 1)[1] for answer in answers]) == (1, [f"line {index}" for index in range(50)])


async def test_concurrency_limits_the_number_of_children() -> None:
    answers: list[str] = []
    async with ProcessHelper(echo("print(os.getpid(), line)"), Policy(concurrency=3)) as helper:

        async def ask(index: int) -> None:
            answers.append(await helper.ask(str(index)))

        async with anyio.create_task_group() as group:
            for index in range(60):
                group.start_soon(ask, index)
    assert len({answer.split()[0] for answer in answers}) <= 3
    assert sorted(int(answer.split()[1]) for answer in answers) == list(range(60))


async def test_cancelled_child_does_not_answer_the_next_request() -> None:
    async with ProcessHelper(echo("time.sleep(float(line) if line[0] == '0' else 0) or print(line)")) as helper:
        assert await helper.ask("first") == "first"
        with anyio.move_on_after(0.05):
            await helper.ask("0.5")
        with anyio.fail_after(60):
            assert await helper.ask("third") == "third"


async def test_dead_child_is_replaced_and_request_retried(tmp_path: Path) -> None:
    mark = str(tmp_path / "died")
    body = f"line == 'die' and not os.path.exists({mark!r}) and open({mark!r}, 'x') and sys.exit(7); print(line)"
    policy = Policy(attempts=2, backoff=Backoff(initial=0, jitter=0))
    async with ProcessHelper(echo(body), policy) as helper:
        assert [await helper.ask(line) for line in ("a", "die", "b")] == ["a", "die", "b"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.exit(3)", "exited with status 3 before answering"),
        ("os.kill(os.getpid(), 15)", "was killed by SIGTERM before answering"),
        ("os.close(1) or time.sleep(60)", "closed its output before answering"),
        ("print('x' * 5000)", "answered with a line of more than 1000 bytes"),
        ("os.write(1, b'\\xff\\n')", "answered with invalid UTF-8"),
        ("os.write(1, b'one\\ntwo\\n')", "answered with more than one line, starting with 'one'"),
    ],
)
async def test_child_without_a_valid_line_raises(body: str, message: str) -> None:
    async with ProcessHelper(echo(body), max_line=1000) as helper:
        with pytest.raises(HelperError, match=message):
            await helper.ask("x")


@pytest.mark.slow
async def test_exit_status_is_reported_when_loop_lags(anyio_backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = import_module(f"anyio._backends._{anyio_backend}").Process
    wait = kind.wait

    async def wait_long(process: Any) -> int:
        await anyio.sleep(2 * EXIT_SECONDS)
        return int(await wait(process))

    monkeypatch.setattr(kind, "wait", wait_long)
    async with ProcessHelper(echo("sys.exit(3)")) as helper:
        with pytest.raises(HelperError, match="exited with status 3 before answering"):
            await helper.ask("x")


async def test_request_must_be_a_line_to_open_helper() -> None:
    helper = ProcessHelper(UPPER)
    with pytest.raises(RuntimeError, match="is not open; call ask within `async with helper:`"):
        await helper.ask("x")
    async with helper:
        with pytest.raises(ValueError, match="a request must be a single line"):
            await helper.ask("a\nb")
        assert await helper.ask("ok") == "OK"


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("reason", ["timeout", "cancel", "budget", "close"])
async def test_stopped_helper_kills_its_group(reason: str) -> None:
    for seconds in TIMEOUTS if reason == "timeout" else [60]:
        async with watch_family() as watch:
            family = watch.command(2)
            body = f"subprocess.Popen({family!r}) and print('started') if line == 'start' else time.sleep(600)"
            async with ProcessHelper(echo(body), Policy(timeout=seconds)) as helper:
                try:
                    assert await helper.ask("start") == "started"
                except ServiceTimeoutError:
                    continue
                await watch.all_started.wait()
                if reason != "close":
                    await hang(helper, reason)
                    await watch.wait_until_all_exited()
            await watch.wait_until_all_exited()
            return
    raise AssertionError("the helper did not start")


async def hang(helper: ProcessHelper, reason: str) -> None:
    """Make a request that is never answered, and that is cut off."""
    before = helper.counts.attempts
    # On a slow machine, the time may be over before the child receives the request.
    while helper.counts.attempts == before:
        if reason == "cancel":
            with anyio.move_on_after(0.05):
                await helper.ask("hang")
            continue
        async with PassContext(deadline=0.05 if reason == "budget" else None):
            with pytest.raises((ServiceTimeoutError, BudgetExceededError)):
                await helper.ask("hang")


async def test_pass_may_call_helper_for_each_function() -> None:
    async with ProcessHelper(UPPER, Policy(concurrency=2)) as helper:

        @function_pass(opt_level=0)
        async def Shout(func: str, mod: dict[str, str], ctx: PassContext) -> str:
            return await helper.ask(func)

        mod = {f"f{index}": f"body {index}" for index in range(100)}
        assert await Shout(mod) == {name: func.upper() for name, func in mod.items()}
