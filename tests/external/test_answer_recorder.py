"""`AnswerRecorder` and replays, with child processes and in workers."""

import sys
from pathlib import Path

import pytest

import apass
from apass import PassContext, optimize_all
from apass.executors import Executor, ProcessExecutor, ThreadExecutor
from apass.external import ProcessHelper, Service, run_process
from apass.external.answers.format import ANSWERS_FILE
from apass.instruments import AnswerRecorder, AnswerReplayer
from tests.executors.asking_children import AskChild, Module

pytestmark = [pytest.mark.anyio, pytest.mark.process]


async def test_child_processes_are_not_started_in_a_replay(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = f"import sys; open({str(started)!r}, 'a').write('x'); print(sys.stdin.read()[::-1])"
    loop = f"open({str(started)!r}, 'a').write('y')\nwhile True: print(input().upper())"

    async def both() -> tuple[bytes, str]:
        async with ProcessHelper([sys.executable, "-uc", loop]) as helper:
            return await run_process([sys.executable, "-c", program], b"abc"), await helper.ask("abc")

    async with PassContext(instruments=[AnswerRecorder(tmp_path / "answers")]):
        assert await both() == (b"cba\n", "ABC")
    async with PassContext(instruments=[AnswerReplayer(tmp_path / "answers")]):
        assert await both() == (b"cba\n", "ABC")
    assert sorted(started.read_text()) == ["x", "y"]


@pytest.mark.slow
@pytest.mark.parametrize("executor", [None, ThreadExecutor(workers=2), ProcessExecutor(workers=2)], ids=repr)
async def test_workers_record_and_replay(executor: Executor | None, tmp_path: Path) -> None:
    modules: dict[str, Module] = {"one": {"f": "a", "g": "b"}, "two": {"f": "c"}}
    expected = {"one": {"f": "A", "g": "B"}, "two": {"f": "C"}}
    counts = tmp_path / "counts"
    pass_ = AskChild(str(counts))
    async with PassContext(instruments=[AnswerRecorder(tmp_path / "answers")]):
        assert await optimize_all(modules, pass_, executor=executor) == expected
    asked = counts.read_text()
    assert sorted(asked) == ["a", "b", "c"]
    async with PassContext(instruments=[AnswerReplayer(tmp_path / "answers")]):
        assert await optimize_all(modules, pass_, executor=executor) == expected
    assert counts.read_text() == asked


async def test_context_entered_by_many_tasks_has_one_file(tmp_path: Path) -> None:
    recorder = AnswerRecorder(tmp_path)
    ctx = PassContext(instruments=[recorder])
    async with ctx:
        async with ctx:
            await apass.answer_of("board", 1, _one)
        await apass.answer_of("board", 2, _one)
    async with ctx:
        await apass.answer_of("board", 3, _one)
    assert len(AnswerReplayer(tmp_path)) == 3
    assert recorder.path == tmp_path / ANSWERS_FILE


async def _one() -> int:
    return 1


async def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for folder, reason in {file / "folder": "Not a directory", file: "File exists"}.items():
        with pytest.raises(apass.errors.AnswersError, match=f"cannot record answers in {folder}: {reason}"):
            async with PassContext(instruments=[AnswerRecorder(folder)]):
                pass


async def test_service_of_a_compiler_is_not_recorded(tmp_path: Path) -> None:
    asked: list[int] = []

    async def compile_it(request: int) -> int:
        asked.append(request)
        return request

    service = Service(compile_it, is_recorded=False)
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        assert await service.ask(1) == 1
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        assert await service.ask(1) == 1
    assert (asked, len(AnswerReplayer(tmp_path))) == ([1, 1], 0)
