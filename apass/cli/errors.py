"""What goes wrong as a line on standard error and an exit status, without a traceback."""

import errno
import os
import sys
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

import typer
from rich.console import Console
from rich.markup import escape

from apass.errors import ApassError, JournalWarning, StoreWarning, UnmatchedPassNameWarning

__all__ = ["FAILED", "INTERRUPTED", "MISUSED", "complaints", "warnings_as_lines"]

FAILED: Final = 1
"""Exit status when a model failed; the others were written."""
MISUSED: Final = 2
"""Exit status when nothing was begun: an option, a file or a pass that is not there."""
INTERRUPTED: Final = 130
"""Exit status after Ctrl-C."""

_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a stream says whose file or device takes no more."""


@contextmanager
def complaints() -> Generator[None]:
    """Turn an error of apass, an interrupt, and output that cannot be written, into a line and an exit status."""
    try:
        yield
    except ApassError as error:
        _say("bold red", str(error))
        raise typer.Exit(MISUSED) from None
    except KeyboardInterrupt:
        _say("bold red", "interrupted; every file that was written is whole")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Nobody reads the output any more.
        _leave_output()
        raise typer.Exit(FAILED) from None
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _say("bold red", f"cannot write the output: {error.strerror}")
        _leave_output()
        raise typer.Exit(FAILED) from None


@contextmanager
def warnings_as_lines() -> Generator[None]:
    """Show each warning as one line, without the place in the source that Python adds."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        _say("bold yellow", f"warning: {message}")

    with warnings.catch_warnings():
        for kind in (UnmatchedPassNameWarning, JournalWarning, StoreWarning):
            warnings.simplefilter("always", kind)
        # Assigned, not passed: Python has no other place for it. `catch_warnings` puts the old one back.
        warnings.showwarning = show
        yield


def _leave_output() -> None:
    """Let what is still to be written go nowhere: Python would complain when it flushes it at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(style: str, text: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[{style}]apass:[/] {escape(text)}")
