"""Files are replaced atomically; devices and pipes are written to directly."""

import os
from pathlib import Path

import pytest

from apass.instruments import TraceInstrument
from apass.util.files import is_device, write_whole


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
    with pytest.raises(OSError, match="No space left on device"):
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
