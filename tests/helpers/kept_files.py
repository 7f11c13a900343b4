"""Files that tests keep between runs: downloads and slow results."""

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["kept", "kept_folder"]


def kept_folder() -> Path:
    """Return the folder of the kept files.

    It is `APASS_TEST_DOWNLOADS`, or by default `apass-tests` in the cache folder of the user.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "apass-tests"
    folder = Path(os.environ.get("APASS_TEST_DOWNLOADS", cache))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def kept(name: str, create: Callable[[], bytes]) -> bytes:
    """Return the contents of a kept file, which `create` returns for a new one."""
    path = kept_folder() / name
    if not path.exists():
        # Another process must not read a part of the file.
        part = path.with_name(f"{name}.{os.getpid()}")
        part.write_bytes(create())
        part.replace(path)
    return path.read_bytes()
