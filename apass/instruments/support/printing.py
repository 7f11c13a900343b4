"""`PrintsText`: base of instruments that print text; a worker prints to memory."""

import sys
from io import StringIO
from typing import TextIO

__all__ = ["PrintsText"]


class PrintsText:
    """An instrument that prints to a file.

    In a worker, its twin prints to a `StringIO`. The original prints that text as a whole, when the module is finished.
    """

    _file: TextIO | None

    @property
    def output(self) -> TextIO:
        """The file, or the current standard output."""
        return sys.stdout if self._file is None else self._file

    def worker_records(self) -> str:
        """Return the text, for `merge_records` of the original."""
        return self._file.getvalue() if isinstance(self._file, StringIO) else ""

    def merge_records(self, records: str) -> None:
        """Print the text of a twin."""
        if records:
            self.output.write(records)
