"""Unrequested output of a child is not taken for an answer."""

import os
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from apass.external import Policy, ProcessHelper, run_process

pytestmark = pytest.mark.anyio

CHATTY = """
while True:
    request = input()
    print(request, flush=True)
    with open(sys.argv[1]):
        print("extra", flush=True)
    with open(sys.argv[2]):
        pass
"""


async def open_and_close(fifo: Path) -> None:
    """Unblock the child, which waits at the other end of the fifo."""
    await anyio.to_thread.run_sync(partial(fifo.write_text, ""))


@pytest.mark.process
async def test_leftover_output_does_not_answer_the_next_request(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    os.mkfifo(before)
    os.mkfifo(after)
    command = [sys.executable, "-c", f"import sys\n{CHATTY}", str(before), str(after)]
    async with ProcessHelper(command, Policy(timeout=60)) as helper:
        assert await helper.ask("a") == "a"
        await open_and_close(before)
        # The child opens this fifo only after it has written the extra line.
        await open_and_close(after)
        assert await helper.ask("b") == "b"


@pytest.mark.process
async def test_child_without_extra_output_is_reused() -> None:
    command = [sys.executable, "-uc", "import os\nwhile True: print(input(), os.getpid())"]
    async with ProcessHelper(command, Policy(timeout=60)) as helper:
        answers = [await helper.ask(request) for request in "abcdefgh"]
    assert len({answer.split()[1] for answer in answers}) == 1


async def test_command_must_be_a_list() -> None:
    with pytest.raises(TypeError, match="a command must be a list of a program and its arguments, got 'cat -u'"):
        ProcessHelper("cat -u")
    with pytest.raises(TypeError, match=r"got \[\]"):
        ProcessHelper([])
    with pytest.raises(TypeError, match="got 'cat'"):
        await run_process("cat")
