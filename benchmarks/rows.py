"""`RowFile`: results in a file of JSON lines, from which a benchmark continues."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["RowError", "RowFile"]

RowT = TypeVar("RowT", bound="DataclassInstance")


class RowError(Exception):
    """A file that has other lines than rows."""


class RowFile(Generic[RowT]):
    """A file of JSON lines to which rows are appended as they come.

    Parameters:
        path: the file, whose folder is made; None keeps nothing.
        make: returns the row of values from JSON.

    """

    def __init__(self, path: Path | None, make: Callable[[dict[str, Any]], RowT]) -> None:
        self._path = path
        self._make = make
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)

    def read(self) -> list[RowT]:
        """Return the rows, and cut off a last line that was not finished.

        Raises:
            RowError: if a line is not a row.

        """
        rows: list[RowT] = []
        if self._path is None or not self._path.exists():
            return rows
        text = self._path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            try:
                rows.append(self._make(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                # A line with its end was not cut off: the file is another one, and stays as it is.
                if number < len(lines) or text.endswith("\n"):
                    raise RowError(f"line {number} of {self._path} is not a row: {error}") from error
                new = self._path.with_name(f"{self._path.name}.new")
                new.write_text("".join(f"{each}\n" for each in lines[:-1]), encoding="utf-8")
                new.replace(self._path)
        return rows

    def append(self, rows: Sequence[RowT]) -> None:
        """Write rows at the end."""
        if self._path is None:
            return
        with self._path.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(asdict(row))}\n" for row in rows)
