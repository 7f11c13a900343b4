"""Writing files so that nobody ever reads half of one."""

from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["Prepared", "write_whole"]

Prepared = Callable[[Mapping[Path, Path]], None]
"""Told of files that are whole and about to be renamed: where each will be, and where it is."""


def write_whole(path: Path, text: str | bytes, prepared: Prepared | None = None) -> None:
    """Write a text, or bytes, beside `path`, tell `prepared`, and rename it; folders that are missing are made.

    Raises:
        OSError: if it cannot be written; what was at `path` is then as it was.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(text.encode() if isinstance(text, str) else text)
        if prepared is not None:
            prepared({path: part})
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
