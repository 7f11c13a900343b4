"""`Trail`: which pass a worker runs, readable after its death."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_run, whereabouts_of

__all__ = ["Trail", "trail_file"]


class Trail:
    """An instrument that writes to a file which pass, or function, was started last.

    Work that has lost a worker is sent once more with a trail. It costs a file for each pass, so other work has none.

    Parameters:
        path: the file.

    """

    reads_modules = False
    """Instrument that ignores modules."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def run_before_pass(self, _mod: Any, _info: PassInfo) -> None:
        """Note the pass."""
        self._note(current_run())

    def run_after_pass(self, _mod: Any, _info: PassInfo) -> None:
        """Note the pass that goes on."""
        run = current_run()
        self._note(None if run is None else run.parent)

    def run_before_function(self, _func: Any, run: Run) -> None:
        """Note the function."""
        self._note(run)

    def _note(self, run: Run | None) -> None:
        self._path.write_text("" if run is None else whereabouts_of(run), encoding="utf-8")


@contextmanager
def trail_file() -> Generator[Path]:
    """Create a temporary file for a trail."""
    with tempfile.NamedTemporaryFile(prefix="apass-", suffix=".txt") as file:
        yield Path(file.name)
