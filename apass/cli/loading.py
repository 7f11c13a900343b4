"""Imports of the command line, with failures as a line and an exit status."""

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager

from apass.cli.exit_status import INTERRUPTED

__all__ = ["collect_seldom", "import_errors_as_lines"]


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


def collect_seldom() -> None:
    """Enable the garbage collector for objects that are created later.

    If it is enabled already, this does nothing.
    """
    if not gc.isenabled():
        gc.freeze()
        # Models are made of hundreds of thousands of objects. With Python's thresholds, the collector would take a
        # sixth of the time of a run.
        gc.set_threshold(20_000, 10, 10)
        gc.enable()
