"""Children that answer: real ones, with grandchildren, of which none outlives a cancellation."""

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

from apass import BudgetExceededError, HelperError, PassContext, ServiceTimeoutError, function_pass
from apass.external import Backoff, Policy, ProcessHelper, Service, run_process
from apass.external.subprocess import END_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")]

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
"""A process that says over a socket that it is there, starts another of its kind, and stays or ends when all are."""


class Vigil:
    """Knows of processes that connected to it whether they live: a dead one's socket is closed by the system."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: list[SocketStream] = []
        self.all_here = anyio.Event()
        self.awaited = 0

    def command(self, generations: int, *more: str) -> list[str]:
        """Return the command of a process with so many generations below it."""
        self.awaited += generations + 1
        return [sys.executable, "-c", FAMILY, str(self.port), str(generations), FAMILY, *more]

    async def meet(self, stream: SocketStream) -> None:
        """Remember one that says that it is there."""
        async with stream:
            assert await stream.receive() == b"here\n"
            self.streams.append(stream)
            if len(self.streams) == self.awaited:
                self.all_here.set()
            await self.all_here.wait()
            with suppress(anyio.BrokenResourceError):
                await stream.send(b".")
            await anyio.sleep_forever()

    async def see_all_gone(self) -> None:
        """Return when none lives; TimeoutError if one does."""
        assert len(self.streams) == self.awaited
        with anyio.fail_after(60):
            for stream in self.streams:
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()


@asynccontextmanager
async def vigil() -> AsyncGenerator[Vigil]:
    """Listen on a port of its own."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        watch = Vigil(int(listener.extra(SocketAttribute.local_port)))
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, watch.meet)
            yield watch
            group.cancel_scope.cancel()


def echo(body: str) -> list[str]:
    """Return the command of a helper whose answer to `line` is what `body` makes of it."""
    code = f"import os, subprocess, sys, time\nfor line in sys.stdin:\n    line = line[:-1]\n    {body}\n"
    return [sys.executable, "-uc", code]


UPPER = echo("print(line.upper())")


async def test_a_one_shot_process_answers() -> None:
    assert await run_process([sys.executable, "-c", "print(input()[::-1])"], b"abc") == b"cba\n"


async def test_a_one_shot_process_gets_its_folder_and_environment(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd(), os.environ['WORD'])"
    answer = await run_process([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "WORD": "x"})
    folder, word = answer.decode().split()
    assert (await anyio.Path(folder).samefile(tmp_path), word) == (True, "x")


async def test_a_failed_process_tells_its_status_and_its_last_words() -> None:
    code = "import sys; sys.exit('no licence')"
    with pytest.raises(HelperError, match=r"ended with exit status 1; its last words:\nno licence$"):
        await run_process([sys.executable, "-c", code])


async def test_a_process_that_a_signal_ended_tells_which() -> None:
    with pytest.raises(HelperError, match=r"was ended by SIGKILL$"):
        await run_process([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])


async def test_more_than_a_pipe_holds_goes_through_both_ways() -> None:
    question = os.urandom(3_000_000)
    code = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    assert await run_process([sys.executable, "-c", code], question) == question


async def test_a_process_need_not_read_its_question() -> None:
    assert await run_process([sys.executable, "-c", "print(5)"], b"x" * 1_000_000) == b"5\n"


@pytest.mark.parametrize("command", ["ls -l", b"ls", []])
async def test_a_command_is_a_list(command: Any) -> None:
    with pytest.raises(TypeError, match="a command is a list of a program and its arguments"):
        await run_process(command)


async def test_a_program_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await run_process([tmp_path / "nothing"])
    async with ProcessHelper([tmp_path / "nothing"]) as helper:
        with pytest.raises(FileNotFoundError):
            await helper.ask("x")


async def test_after_a_cancellation_of_a_one_shot_process_its_whole_group_is_gone() -> None:
    async with vigil() as watch, anyio.create_task_group() as group:
        group.start_soon(run_process, watch.command(3))
        await watch.all_here.wait()
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await watch.see_all_gone()


PATIENCE = (1, 4, 16, 64)
"""Seconds in which processes are there: first of a machine that is not busy, then of one that is."""


async def test_after_a_timeout_of_a_one_shot_process_its_whole_group_is_gone() -> None:
    for seconds in PATIENCE:
        async with vigil() as watch:
            ask = partial(run_process, watch.command(2))
            with pytest.raises(ServiceTimeoutError):
                await Service[bytes, bytes](ask, Policy(timeout=seconds)).ask(b"x")
            if watch.all_here.is_set():
                await watch.see_all_gone()
                return
    raise AssertionError("the processes did not come")


async def test_what_a_one_shot_process_leaves_behind_does_not_hold_up_its_answer_and_is_killed() -> None:
    async with vigil() as watch:
        with anyio.fail_after(60):
            assert await run_process(watch.command(1, "ends")) == b""
        await watch.see_all_gone()


async def test_a_helper_is_one_child_that_is_asked_again_and_again() -> None:
    async with ProcessHelper(echo("print(os.getpid(), line)")) as helper:
        answers = [await helper.ask(f"line {index}") for index in range(50)]
    pids = {answer.split()[0] for answer in answers}
    assert (len(pids), [answer.split(" ", 1)[1] for answer in answers]) == (1, [f"line {index}" for index in range(50)])


async def test_as_many_children_as_the_policy_says_answer_at_once() -> None:
    answers: list[str] = []
    async with ProcessHelper(echo("print(os.getpid(), line)"), Policy(concurrency=3)) as helper:

        async def ask(index: int) -> None:
            answers.append(await helper.ask(str(index)))

        async with anyio.create_task_group() as group:
            for index in range(60):
                group.start_soon(ask, index)
    assert len({answer.split()[0] for answer in answers}) <= 3
    assert sorted(int(answer.split()[1]) for answer in answers) == list(range(60))


async def test_a_child_that_is_cancelled_at_a_question_never_answers_the_next_one() -> None:
    async with ProcessHelper(echo("time.sleep(float(line) if line[0] == '0' else 0) or print(line)")) as helper:
        assert await helper.ask("first") == "first"
        with anyio.move_on_after(0.05):
            await helper.ask("0.5")
        with anyio.fail_after(60):
            assert await helper.ask("third") == "third"


async def test_a_child_that_dies_is_replaced_and_its_question_asked_again(tmp_path: Path) -> None:
    mark = str(tmp_path / "died")
    body = f"line == 'die' and not os.path.exists({mark!r}) and open({mark!r}, 'x') and sys.exit(7); print(line)"
    policy = Policy(attempts=2, backoff=Backoff(initial=0, jitter=0))
    async with ProcessHelper(echo(body), policy) as helper:
        assert [await helper.ask(line) for line in ("a", "die", "b")] == ["a", "die", "b"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("sys.exit(3)", "ended with exit status 3, and had not answered"),
        ("os.kill(os.getpid(), 15)", "was ended by SIGTERM, and had not answered"),
        ("os.close(1) or time.sleep(60)", "closed its output and had not answered"),
        ("print('x' * 5000)", "answered more than 1000 bytes in a line"),
        ("os.write(1, b'\\xff\\n')", "answered what is no UTF-8"),
        ("os.write(1, b'one\\ntwo\\n')", "answered more than one line: 'one' and then more"),
    ],
)
async def test_a_child_that_does_not_answer_with_a_line_is_an_error(body: str, says: str) -> None:
    async with ProcessHelper(echo(body), max_line=1000) as helper:
        with pytest.raises(HelperError, match=says):
            await helper.ask("x")


async def test_how_a_child_ended_is_told_though_the_event_loop_learns_of_it_late(
    anyio_backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = import_module(f"anyio._backends._{anyio_backend}").Process
    wait = kind.wait

    async def wait_long(process: Any) -> int:
        await anyio.sleep(2 * END_SECONDS)
        return int(await wait(process))

    monkeypatch.setattr(kind, "wait", wait_long)
    async with ProcessHelper(echo("sys.exit(3)")) as helper:
        with pytest.raises(HelperError, match="ended with exit status 3, and had not answered"):
            await helper.ask("x")


async def test_a_question_is_one_line_and_the_helper_must_be_open() -> None:
    helper = ProcessHelper(UPPER)
    with pytest.raises(RuntimeError, match="is not open; ask it within `async with helper:`"):
        await helper.ask("x")
    async with helper:
        with pytest.raises(ValueError, match="a question is one line"):
            await helper.ask("a\nb")
        assert await helper.ask("ok") == "OK"


@pytest.mark.parametrize("how", ["timeout", "cancel", "budget", "close"])
async def test_of_a_helper_that_is_stopped_the_whole_group_is_gone(how: str) -> None:
    for seconds in PATIENCE if how == "timeout" else [60]:
        async with vigil() as watch:
            family = watch.command(2)
            body = f"subprocess.Popen({family!r}) and print('started') if line == 'start' else time.sleep(600)"
            async with ProcessHelper(echo(body), Policy(timeout=seconds)) as helper:
                try:
                    assert await helper.ask("start") == "started"
                except ServiceTimeoutError:
                    continue
                await watch.all_here.wait()
                if how != "close":
                    await hang(helper, how)
                    await watch.see_all_gone()
            await watch.see_all_gone()
            return
    raise AssertionError("the helper did not start")


async def hang(helper: ProcessHelper, how: str) -> None:
    """Ask what is never answered, and be cut off."""
    before = helper.counts.attempts
    # On a machine that stalls the time may be over before the child is asked.
    while helper.counts.attempts == before:
        if how == "cancel":
            with anyio.move_on_after(0.05):
                await helper.ask("hang")
            continue
        async with PassContext(deadline=0.05 if how == "budget" else None):
            with pytest.raises((ServiceTimeoutError, BudgetExceededError)):
                await helper.ask("hang")


async def test_a_pass_may_ask_a_helper_for_each_function() -> None:
    async with ProcessHelper(UPPER, Policy(concurrency=2)) as helper:

        @function_pass(opt_level=0)
        async def Shout(func: str, mod: dict[str, str], ctx: PassContext) -> str:
            return await helper.ask(func)

        mod = {f"f{index}": f"body {index}" for index in range(100)}
        assert await Shout(mod) == {name: func.upper() for name, func in mod.items()}
