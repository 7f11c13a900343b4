"""Files by which bodies in other processes say that they have begun."""

from collections.abc import Iterable
from pathlib import Path

import anyio


async def written_in(path: Path) -> str:
    """Return what a body has written there, once it has."""
    # A worker may have to start first, beside others that do.
    with anyio.fail_after(300):
        while not written([path]):  # noqa: ASYNC110  it is another process that writes
            await anyio.sleep(0.01)
    return written([path])[0]


async def pid_in(path: Path) -> int:
    """Return the process id that a body has written there, once it has."""
    return int(await written_in(path))


def written(paths: Iterable[Path]) -> list[str]:
    """Return what bodies have written there."""
    return [text for path in paths if path.exists() and (text := path.read_text())]
