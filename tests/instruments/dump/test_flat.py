"""`DumpIR`: the files, their completeness, and what `refresh` removes."""

import os
import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

import apass
from apass.instruments import DumpIR

Module = dict[str, int]


@apass.module_pass(opt_level=0)
def Double(mod: Module, ctx: apass.PassContext) -> Module:
    return {name: 2 * value for name, value in mod.items()}


@apass.function_pass(opt_level=0)
async def Increment(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    return func + 1


PIPELINE = apass.Sequential([Double, Increment])


def names(folder: Path) -> list[str]:
    """Return the names in `folder`, including hidden ones."""
    return sorted(path.name for path in folder.iterdir())


def files(folder: Path) -> dict[str, str]:
    """Return the text of every file below `folder`, by relative path."""
    paths = (path for path in sorted(folder.rglob("*")) if not path.is_dir())
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}


@pytest.mark.anyio
async def test_each_pass_writes_the_next_file(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpIR(tmp_path / "new" / "dumps")]):
        await PIPELINE({"f": 1, "g": 2})
        await Double({"f": 3})
    assert files(tmp_path) == {
        "new/dumps/000_Double.txt": "f: 2\ng: 4\n",
        "new/dumps/001_Increment.txt": "f: 3\ng: 5\n",
        "new/dumps/002_sequential.txt": "f: 3\ng: 5\n",
        "new/dumps/003_Double.txt": "f: 6\n",
    }


@pytest.mark.anyio
async def test_each_module_has_a_folder_and_numbering(tmp_path: Path) -> None:
    modules: dict[str, Module] = {f"m{n}": {"f": n, "é": n} for n in range(100)}
    async with apass.PassContext(instruments=[DumpIR(str(tmp_path))]):
        await apass.optimize_all(modules, PIPELINE, limit=None)
    expected: dict[str, str] = {}
    for n, name in enumerate(modules):
        expected[f"{name}/000_Double.txt"] = f"f: {2 * n}\né: {2 * n}\n"
        expected[f"{name}/001_Increment.txt"] = f"f: {2 * n + 1}\né: {2 * n + 1}\n"
        expected[f"{name}/002_sequential.txt"] = f"f: {2 * n + 1}\né: {2 * n + 1}\n"
    assert files(tmp_path) == expected


@pytest.mark.anyio
async def test_concurrent_unnamed_modules_share_one_numbering(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpIR(tmp_path)]), anyio.create_task_group() as tasks:
        for n in range(100):
            tasks.start_soon(Double, {"f": n})
    dumped = files(tmp_path)
    assert sorted(dumped) == [f"{n:03d}_Double.txt" for n in range(100)]
    assert sorted(dumped.values()) == sorted(f"f: {2 * n}\n" for n in range(100))


@pytest.mark.anyio
async def test_folder_names_are_unique_and_inside_dump_dir(tmp_path: Path) -> None:
    module_names = [
        "a/b",
        "a_b",
        "a b",
        "..",
        ".",
        "",
        "../up",
        "/abs",
        "A_B",
        "x" * 300,
        "x" * 301,
        "000_A.txt",
        "nul\0",
    ]
    modules: dict[str, Module] = {name: {"f": n} for n, name in enumerate(module_names)}
    for _ in range(2):
        async with apass.PassContext(instruments=[DumpIR(tmp_path / "dumps")]):
            # One by one, because the first of two names that differ only in case gets the plain folder name.
            await apass.optimize_all(modules, Double, limit=1)
    folders = {
        "a_b": 1,
        "a_b~c14cddc0": 0,
        "a_b~c8687a08": 2,
        "A_B~6c1908f9": 8,
        "__~5ec1f7e7": 3,
        "_~cdb4ee2a": 4,
        "~e3b0c442": 5,
        "_._up~8c722b8a": 6,
        "_abs~e802dcc0": 7,
        f"{'x' * 100}~0d4e2ca9": 9,
        f"{'x' * 100}~e4c11e4f": 10,
        "000_A.txt~d4ce289c": 11,
        "nul_~cd0798f9": 12,
    }
    expected = {f"dumps/{folder}/000_Double.txt": f"f: {2 * n}\n" for folder, n in folders.items()}
    assert files(tmp_path) == expected


@pytest.mark.anyio
async def test_pass_names_become_valid_file_names(tmp_path: Path) -> None:
    for name in ("onnx.Fold", 'a/b\\c:"d"', "n" * 300):
        pass_: apass.Pass[Module] = apass.module_pass(lambda mod, ctx: mod, opt_level=0, name=name)
        async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
            await pass_({"f": 1})
    assert list(files(tmp_path)) == ["000_a_b_c__d_.txt", f"000_{'n' * 100}.txt", "000_onnx.Fold.txt"]


@pytest.mark.anyio
async def test_numbers_continue_after_999(tmp_path: Path) -> None:
    instrument = DumpIR(tmp_path)
    async with apass.PassContext(instruments=[instrument]):
        await apass.Sequential([Double] * 1001)({"f": 0})
    expected = [*(f"{n:03d}_Double.txt" for n in range(1001)), "1001_sequential.txt"]
    assert names(tmp_path) == sorted(expected)
    DumpIR(tmp_path, refresh=True)
    assert files(tmp_path) == {}


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_write_neither_blocks_the_loop_nor_is_cancelled(tmp_path: Path) -> None:
    # Opening a named pipe for writing blocks until it is opened for reading.
    pipe = tmp_path / "000_Double.txt"
    os.mkfifo(pipe)
    opened: list[tuple[str, int]] = []
    scope = anyio.CancelScope()

    def open_as(opener: str) -> None:
        opened.append((opener, os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)))

    async def dump() -> None:
        async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
            with scope:
                await PIPELINE({"f": 1})

    watchdog = threading.Timer(60, open_as, ["watchdog"])
    watchdog.start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dump)
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.lowlevel.checkpoint()
        open_as("loop")
        watchdog.cancel()
    assert [(opener, os.read(fd, 100)) for opener, fd in opened] == [("loop", b"f: 2\n")]
    os.close(opened[0][1])
    assert scope.cancelled_caught
    assert names(tmp_path) == ["000_Double.txt"]


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_finished_pass_is_dumped_after_cancellation(tmp_path: Path) -> None:
    scope = anyio.CancelScope()

    @apass.module_pass(opt_level=0)
    def CancelLate(mod: Module, ctx: apass.PassContext) -> Module:
        scope.cancel()
        return mod

    async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
        with scope:
            await apass.Sequential([CancelLate, Increment])({"f": 1})
    assert scope.cancelled_caught
    assert files(tmp_path) == {"000_CancelLate.txt": "f: 1\n"}


@pytest.mark.anyio
async def test_write_error_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "000_Double.txt").mkdir()
    async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
        with pytest.raises(OSError, match=r"000_Double\.txt") as caught:
            await Double({"f": 1})
    assert f"DumpIR could not write {str(tmp_path / '000_Double.txt')!r}" in caught.value.__notes__
    assert names(tmp_path) == ["000_Double.txt"]


@pytest.mark.anyio
async def test_module_without_text_raises_and_leaves_no_file(tmp_path: Path) -> None:
    pass_: apass.Pass[Any] = apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Keep")
    async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
        with pytest.raises(apass.errors.AdapterError, match="no IR adapter") as caught:
            await pass_(object())
        with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
            await pass_({"f": "\ud800"})
    assert f"DumpIR could not write {str(tmp_path / '000_Keep.txt')!r}" in caught.value.__notes__
    assert files(tmp_path) == {}


@pytest.mark.anyio
async def test_refresh_empties_folder_of_dumped_files(tmp_path: Path) -> None:
    async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
        await PIPELINE({"f": 1})
        await apass.optimize_all({"a": {"f": 1}, "b/c": {"f": 2}}, PIPELINE)
    (tmp_path / "a" / ".apass-0123456789abcdef.part").write_text("f:")
    async with apass.PassContext(instruments=[DumpIR(tmp_path, refresh=True)]):
        assert names(tmp_path) == []
        await Double({"f": 1})
    assert files(tmp_path) == {"000_Double.txt": "f: 2\n"}


@pytest.mark.anyio
async def test_files_are_overwritten_by_number_without_refresh(tmp_path: Path) -> None:
    for value, count in ((1, 2), (5, 1)):
        async with apass.PassContext(instruments=[DumpIR(tmp_path)]):
            for _ in range(count):
                await Double({"f": value})
    assert files(tmp_path) == {"000_Double.txt": "f: 10\n", "001_Double.txt": "f: 2\n"}


@pytest.mark.parametrize("foreign", ["notes.md", "00_A.txt", "000_A.py", "sub/notes.md", "sub/000_A.txt/000_A.txt"])
def test_refresh_removes_nothing_with_foreign_files(tmp_path: Path, foreign: str) -> None:
    for name in ("000_A.txt", "other/000_A.txt", foreign):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    before = files(tmp_path)
    with pytest.raises(FileExistsError, match=r"refresh=True would empty .* no file was removed"):
        DumpIR(tmp_path, refresh=True)
    assert files(tmp_path) == before


def test_refresh_does_not_follow_links(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "000_A.txt").write_text("content")
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    (dumps / "link").symlink_to(target)
    with pytest.raises(FileExistsError, match="'link' in it is no dumped file"):
        DumpIR(dumps, refresh=True)
    assert files(target) == {"000_A.txt": "content"}


def test_dump_dir_that_is_a_file_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    with pytest.raises(NotADirectoryError, match=r"DumpIR needs a folder, got the file '.*file'"):
        DumpIR(tmp_path / "file")


def test_refresh_accepts_a_missing_folder(tmp_path: Path) -> None:
    assert DumpIR(tmp_path / "new", refresh=True).dump_dir == tmp_path / "new"
    assert files(tmp_path) == {}
