"""Files in which bodies in other processes record that they have started."""

from collections.abc import Iterable
from pathlib import Path

import anyio


async def written_in(path: Path) -> str:
    """Wait until a body has written to `path`, and return the text."""
    # Starting a worker can be slow while others start.
    with anyio.fail_after(300):
        while not written([path]):  # noqa: ASYNC110  another process writes
            await anyio.sleep(0.01)
    return written([path])[0]


async def pid_in(path: Path) -> int:
    """Wait until a body has written its process id to `path`, and return it."""
    return int(await written_in(path))


def written(paths: Iterable[Path]) -> list[str]:
    """Return the texts of those files that exist and are not empty."""
    return [text for path in paths if path.exists() and (text := path.read_text())]
