"""`PrintsText`: base of instruments that print text; a worker prints to memory."""

import sys
from io import StringIO
from typing import TextIO

__all__ = ["PrintsText"]


class _Memory(StringIO):
    """A text in memory that will be printed elsewhere."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def __reduce__(self) -> tuple[type, tuple[bool]]:
        return type(self), (self._is_terminal,)

    def isatty(self) -> bool:
        """Return whether the text will be printed on a terminal, so that it needs escapes."""
        return self._is_terminal


class PrintsText:
    """An instrument that prints to a file.

    In a worker, its twin prints to memory. The original prints that text as a whole, when the module is finished.
    """

    _file: TextIO | None

    def memory(self) -> TextIO:
        """Return the file of the twin, which is a terminal if that of the original is."""
        return _Memory(self.output.isatty())

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
