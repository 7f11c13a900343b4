"""Atomic file writes: a reader sees the old contents or the new, never a part."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

__all__ = ["Prepared", "is_device", "write_whole"]

_DEVICE_FOLDERS: Final = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))
"""Folders whose entries are devices or open file descriptors."""

Prepared = Callable[[Mapping[Path, Path]], None]
"""Receives the files that are complete but not yet renamed: the temporary path of each, by its final path."""


def write_whole(path: Path, text: str | bytes, prepared: Prepared | None = None) -> None:
    """Write text or bytes to `path` atomically; create missing folders.

    The data goes to a temporary file beside `path`, which is renamed at the end. A terminal, a pipe or another device,
    such as `/dev/stdout`, is written to directly.

    Parameters:
        path: the file to write.
        text: the contents.
        prepared: called before the rename; not called for a device.

    Raises:
        OSError: if the file cannot be written. The previous file is then unchanged.

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
    """Return whether `path` must not be replaced: a device, pipe or open descriptor.

    >>> is_device(Path("/dev/stdout")), is_device(Path("report.html"))
    (True, False)
    """
    if not path.exists():
        return False
    # If standard output is redirected, /dev/stdout leads to a regular file, but other writers have it open.
    return not (path.is_file() or path.is_dir()) or path.absolute().parent in _DEVICE_FOLDERS
