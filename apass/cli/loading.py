"""Imports of the command line, with failures as a line and an exit status."""

import sys
from collections.abc import Generator
from contextlib import contextmanager

from apass.cli.exit_status import INTERRUPTED

__all__ = ["import_errors_as_lines"]


@contextmanager
def import_errors_as_lines() -> Generator[None]:
    """Turn Ctrl-C and a missing library into a line and an exit status."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("rich", "typer"):
            raise
        raise SystemExit(f"apass: the command line needs typer and rich ({error}): pip install 'apass[cli]'") from error
    except KeyboardInterrupt:
        # As later, with `apass.cli.errors`; nothing was begun.
        sys.stderr.write("apass: interrupted\n")
        raise SystemExit(INTERRUPTED) from None
