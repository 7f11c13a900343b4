"""A scripted helper."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Entry", "Script", "forever"]

Entry = str | Exception | Callable[[], Awaitable[object]]
"""A step of a script: an answer, an error, or a function that is awaited for one."""


class Script:
    """A helper that performs one entry of its script for each request.

    The last entry is repeated.
    """

    def __init__(self, *entries: Entry) -> None:
        self.entries: Sequence[Entry] = entries
        self.requests: list[int] = []
        self.running = self.most = 0

    async def answer(self, request: int) -> str:
        """Answer one request."""
        entry = self.entries[0]
        self.entries = self.entries[1:] or [entry]
        self.requests.append(request)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            result = entry if isinstance(entry, str | Exception) else await entry()
            await checkpoint()
        finally:
            self.running -= 1
        if isinstance(result, Exception):
            raise result
        return str(result)


async def forever() -> None:
    await anyio.sleep_forever()
