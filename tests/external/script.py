"""An answerer that does as it is told."""

from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.lowlevel import checkpoint

__all__ = ["Entry", "Script", "forever"]

Entry = str | Exception | Callable[[], Awaitable[object]]
"""What an answerer does: answer, raise, or wait and then answer or raise what comes of that."""


class Script:
    """Answers as it is told, one entry for each request, the last for all more: a value, an error, or what to await."""

    def __init__(self, *entries: Entry) -> None:
        self.entries: Sequence[Entry] = entries
        self.requests: list[int] = []
        self.at_work = self.most = 0

    async def answer(self, question: int) -> str:
        """Answer one request."""
        entry = self.entries[0]
        self.entries = self.entries[1:] or [entry]
        self.requests.append(question)
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        try:
            result = entry if isinstance(entry, str | Exception) else await entry()
            await checkpoint()
        finally:
            self.at_work -= 1
        if isinstance(result, Exception):
            raise result
        return str(result)


async def forever() -> None:
    await anyio.sleep_forever()
