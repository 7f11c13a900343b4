"""`Attempts`: the outcomes of a reduction, in memory and in a file."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from apass.util.files import read_regular, write_whole

__all__ = ["Attempts", "digest_of"]

FORMAT: Final = 1
"""Version of the format of the file."""


def digest_of(*parts: bytes) -> str:
    """Return a text that identifies a sequence of bytes."""
    return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()


class Attempts:
    """Whether each module and pipeline that was tried failed in the same way.

    With a file, the outcomes of an interrupted search are known to the next one. Each outcome is a line, and a last
    line that was not written to its end is left out. The file of another search is replaced.

    Parameters:
        path: the file; None to keep the outcomes in memory only.
        search: what identifies the search.

    """

    def __init__(self, path: Path | None, search: str) -> None:
        self._path = path
        self._header: Final = {"format": FORMAT, "search": search}
        self._outcomes = {} if path is None else _read(path, self._header)
        self.known: Final = len(self._outcomes)
        """Number of outcomes of the interrupted search."""
        self._is_written = False

    def get(self, digest: str) -> bool | None:
        """Return the outcome of an attempt; None if it is unknown."""
        return self._outcomes.get(digest)

    def add(self, digest: str, fails: bool) -> None:
        """Keep the outcome of an attempt.

        Raises:
            OSError: if it cannot be written.

        """
        self._outcomes[digest] = fails
        if self._path is None:
            return
        if not self._is_written:
            # Without what an interrupted process may have left of its last line.
            lines = [json.dumps(self._header), *map(_line, self._outcomes.items())]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_symlink() or not self._path.is_file():
                # Opening a pipe would wait for a reader.
                self._path.unlink(missing_ok=True)
            write_whole(self._path, "\n".join([*lines, ""]), durable=False)
            self._is_written = True
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line((digest, fails)) + "\n")

    def discard(self) -> None:
        """Remove the file; the search has ended."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _line(outcome: tuple[str, bool]) -> str:
    return json.dumps({"tried": outcome[0], "fails": outcome[1]})


def _read(path: Path, header: Mapping[str, object]) -> dict[str, bool]:
    """Return the outcomes in a file; none if it belongs to another search."""
    outcomes: dict[str, bool] = {}
    try:
        lines = read_regular(path).decode().splitlines()
        if json.loads(lines[0]) != header:
            return {}
        for line in lines[1:]:
            values: Any = json.loads(line)
            if not (isinstance(values["tried"], str) and isinstance(values["fails"], bool)):
                break
            outcomes[values["tried"]] = values["fails"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # no file, or the rest is damaged
        return outcomes
    return outcomes
