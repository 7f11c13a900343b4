"""Writing files so that nobody ever reads half of one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

__all__ = ["Prepared", "is_device", "write_whole"]

_OF_DEVICES: Final = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""Folders in which names stand for what is open, or for a device."""

Prepared = Callable[[Mapping[Path, Path]], None]
"""Told of files that are whole and about to be renamed: where each will be, and where it is."""


def write_whole(path: Path, text: str | bytes, prepared: Prepared | None = None) -> None:
    """Write a text, or bytes, beside `path`, tell `prepared`, and rename it; folders that are missing are made.

    A terminal, a pipe or another device, such as `/dev/stdout`, is written to as it is, and `prepared` is not told.

    Raises:
        OSError: if it cannot be written; what was at `path` is then as it was.

    """
    data = text.encode() if isinstance(text, str) else text
    if is_device(path):
        with path.open("ab") as device:
            device.write(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(data)
        if prepared is not None:
            prepared({path: part})
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def is_device(path: Path) -> bool:
    """Tell whether `path` stands for something that is no file of its own, and that no file may take the place of.

    >>> is_device(Path("/dev/stdout")), is_device(Path("report.html"))
    (True, False)
    """
    if not path.exists():
        return False
    # What /dev/stdout leads to may be a file like any other, but others are writing to it.
    return not (path.is_file() or path.is_dir()) or path.absolute().parent in _OF_DEVICES
