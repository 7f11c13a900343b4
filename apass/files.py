"""Writing files so that nobody ever reads half of one."""

from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, text: str | bytes) -> None:
    """Write a text, or bytes, beside `path`, and rename it; folders that are missing are made.

    Raises:
        OSError: if it cannot be written; what was at `path` is then as it was.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_bytes(text.encode() if isinstance(text, str) else text)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
