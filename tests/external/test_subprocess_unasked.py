"""What a child writes unasked: never taken for an answer, as far as that can be told."""

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
    question = input()
    print(question, flush=True)
    with open(sys.argv[1]):
        print("by the way", flush=True)
    with open(sys.argv[2]):
        pass
"""


async def open_and_close(fifo: Path) -> None:
    """Let the child go on that waits for somebody at the other end."""
    await anyio.to_thread.run_sync(partial(fifo.write_text, ""))


async def test_what_is_left_of_the_last_question_does_not_answer_the_next_one(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    os.mkfifo(before)
    os.mkfifo(after)
    command = [sys.executable, "-c", f"import sys\n{CHATTY}", str(before), str(after)]
    async with ProcessHelper(command, Policy(timeout=60)) as helper:
        assert await helper.ask("a") == "a"
        await open_and_close(before)
        # Whoever comes here has written the remark.
        await open_and_close(after)
        assert await helper.ask("b") == "b"


async def test_a_child_that_writes_nothing_unasked_stays() -> None:
    command = [sys.executable, "-uc", "import os\nwhile True: print(input(), os.getpid())"]
    async with ProcessHelper(command, Policy(timeout=60)) as helper:
        answers = [await helper.ask(question) for question in "abcdefgh"]
    assert len({answer.split()[1] for answer in answers}) == 1


async def test_a_command_is_a_list() -> None:
    with pytest.raises(TypeError, match="a command is a list of a program and its arguments, not 'cat -u'"):
        ProcessHelper("cat -u")
    with pytest.raises(TypeError, match=r"not \[\]"):
        ProcessHelper([])
    with pytest.raises(TypeError, match="not 'cat'"):
        await run_process("cat")
