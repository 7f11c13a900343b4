"""`SseParser`: parses server-sent events."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["ServerSentEvent", "SseParser"]

LONGEST: Final = 1 << 24
"""Bytes of an event."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """An event of a stream."""

    kind: str
    """The field `event`; `message` if there is none."""
    data: str
    """The field `data`."""


class SseParser:
    r"""Parses a stream of server-sent events, as HTML defines them.

    >>> parser = SseParser()
    >>> list(parser.feed(b": comment\n\nevent: state\nda"))
    []
    >>> list(parser.feed(b"ta: {}\r\n\r\n"))
    [ServerSentEvent(kind='state', data='{}')]
    """

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}
        self._size = 0

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        """Iterate over the events that end in the next bytes of a stream.

        Raises:
            ValueError: if an event is too long.

        """
        # `bytes.splitlines` splits at the three kinds of line breaks only, unlike `str.splitlines`.
        lines = (self._rest + data).splitlines(keepends=True)
        # The second character of a line break may follow.
        is_open = bool(lines) and not lines[-1].endswith(b"\n")
        self._rest = lines.pop() if is_open else b""
        if len(self._rest) + self._size > LONGEST:
            raise ValueError(f"a server-sent event has more than {LONGEST:,} bytes")
        for line in lines:
            event = self._line(line.rstrip(b"\r\n").decode("utf-8", "replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> ServerSentEvent | None:
        if line:
            name, _, value = line.partition(":")
            self._size += len(line)
            if self._size > LONGEST:
                raise ValueError(f"a server-sent event has more than {LONGEST:,} bytes")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields, self._size = self._fields, {}, 0
        if "data" not in fields:
            return None
        return ServerSentEvent(fields.get("event", ["message"])[-1], "\n".join(fields["data"]))
