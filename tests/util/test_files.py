"""Files are replaced atomically; devices and pipes are written to directly."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from apass.instruments import TraceInstrument
from apass.util.files import PartFile, complete_together, completed_later, copy_whole, is_device, write_whole
from tests.helpers.folders import files
from tests.helpers.full_disk import file_size_limit


def test_pipe_receives_the_text(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, "a report")
        assert os.read(reader, 100) == b"a report"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_link_to_a_device_is_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    write_whole(link, "a report")
    assert link.readlink() == Path(os.devnull)


def test_open_descriptor_is_appended_to(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+") as log:
        print("before", file=log, flush=True)
        write_whole(Path(f"/dev/fd/{log.fileno()}"), "a report\n")
    assert (tmp_path / "log").read_text() == "before\na report\n"


def test_full_device_raises_os_error() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_whole(Path("/dev/full"), "a report")
    assert Path("/dev/full").is_char_device()


def test_regular_files_and_folders_are_not_devices(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    assert not is_device(tmp_path / "file")
    (tmp_path / "file").touch()
    assert not any(map(is_device, [tmp_path / "file", tmp_path / "link", tmp_path]))


def test_trace_instrument_rejects_a_device(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(os.devnull)
    with pytest.raises(OSError, match=r"TraceInstrument writes a file, and .*link' is a device; choose a file"):
        TraceInstrument(link)


def test_concurrent_writers_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    texts = [str(index) * 200_000 for index in range(4)]
    with ThreadPoolExecutor() as pool:
        writes = [pool.submit(write_whole, path, text) for text in texts * 20]
        while not all(write.done() for write in writes):
            assert not path.exists() or path.read_text() in texts
        for write in writes:
            write.result()
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def test_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".report.html.part").symlink_to(victim)
    (tmp_path / "report.html").symlink_to(victim)
    write_whole(tmp_path / "report.html", "a report")
    assert (victim.read_text(), (tmp_path / "report.html").read_text()) == ("precious", "a report")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_new_file_has_mode_of_umask(umask: int, mode: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "report.html", "a report")
    finally:
        os.umask(before)
    assert (tmp_path / "report.html").stat().st_mode & 0o777 == mode


def test_replaced_file_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.touch(mode=0o600)
    write_whole(path, "a report")
    assert path.stat().st_mode & 0o777 == 0o600


def test_full_disk_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with file_size_limit(1000), pytest.raises(OSError, match=r"File too large: '.*report\.html'"):
        write_whole(path, "a" * 2000)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_failed_rename_error_names_the_file_only(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IsADirectoryError, match=r"directory: '[^']*report\.html'$"):
        write_whole(tmp_path / "report.html", "a report")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_failed_callback_keeps_the_old_file(tmp_path: Path) -> None:
    def fail(files: object) -> None:
        raise ValueError("not now")

    (tmp_path / "report.html").write_text("before")
    with pytest.raises(ValueError, match="not now"):
        write_whole(tmp_path / "report.html", "a report", fail)
    assert (tmp_path / "report.html").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def written_later(work: Callable[[], None]) -> list[PartFile]:
    with completed_later() as parts:
        work()
    return parts


def test_files_completed_together_are_renamed_at_the_end(tmp_path: Path) -> None:
    groups = [written_later(partial(write_whole, tmp_path / name, name)) for name in ("a", "b")]
    assert [name.endswith(".part") for name in files(tmp_path)] == [True, True]
    assert complete_together(groups) == [None, None]
    assert [(name, (tmp_path / name).read_text()) for name in files(tmp_path)] == [("a", "a"), ("b", "b")]


def test_failed_block_leaves_no_file_behind(tmp_path: Path) -> None:
    def fail() -> None:
        write_whole(tmp_path / "a", "a")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        written_later(fail)
    assert files(tmp_path) == []


def test_file_that_cannot_be_renamed_fails_alone(tmp_path: Path) -> None:
    groups = [written_later(partial(write_whole, tmp_path / name, name)) for name in ("a", "b")]
    (tmp_path / "a").mkdir()
    failed, written = complete_together(groups)
    assert (isinstance(failed, OSError), written) == (True, None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert (tmp_path / "b").read_text() == "b"


def test_copy_error_names_the_file_that_failed(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as caught:
        copy_whole(tmp_path, tmp_path / "c")
    assert (caught.value.filename, files(tmp_path)) == (str(tmp_path), [])


def test_copy_has_the_bytes_of_its_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 10_000)
    copy_whole(tmp_path / "a", tmp_path / "new" / "b")
    assert (tmp_path / "new" / "b").read_bytes() == bytes(range(256)) * 10_000
    with pytest.raises(FileNotFoundError) as caught:
        copy_whole(tmp_path / "missing", tmp_path / "c")
    assert (caught.value.filename, (tmp_path / "c").exists()) == (str(tmp_path / "missing"), False)


@pytest.mark.parametrize(("durable", "waits"), [(True, 2), (False, 0)])
def test_only_durable_files_wait_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool, waits: int
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    write_whole(tmp_path / "a.txt", "text", durable=durable)
    assert ((tmp_path / "a.txt").read_text(), len(synced)) == ("text", waits)
