"""A real terminal for a program: tmux gives it keys, and captures its screen."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.helpers.repository import ROOT

__all__ = ["TMUX", "Terminal"]

TMUX: Final = shutil.which("tmux")
"""The program, None if it is not installed."""

_LIMIT: Final = 60.0
"""Seconds after which a text that does not appear is an error."""


class Terminal:
    """A terminal in which a program runs; at the end of `with`, it is closed.

    Parameters:
        folder: where the socket of tmux is, and where the program runs.
        command: the words of the program.
        env: further variables of its environment.
        size: columns and rows.

    """

    def __init__(
        self, folder: Path, command: Sequence[str], env: Mapping[str, str], size: tuple[int, int] = (100, 30)
    ) -> None:
        assert TMUX is not None, "tmux is installed"
        # A socket has at most 107 characters, so it is named from its folder.
        self._folder = folder
        self._tmux = [TMUX, "-u", "-f", os.devnull, "-S", "tmux"]
        variables = {"LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT), **env}
        # The shell stays, to show what the terminal is like at the end.
        line = f"{shlex.join(command)}; echo status $?; exec cat"
        columns, rows = map(str, size)
        self._call("new-session", "-d", "-x", columns, "-y", rows, "sh", "-c", line, env={**os.environ, **variables})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call("kill-server")

    @property
    def screen(self) -> str:
        """The text on the screen."""
        return self._call("capture-pane", "-p")

    @property
    def is_alternate(self) -> bool:
        """Whether a program has taken the whole screen."""
        return self._call("display-message", "-p", "#{alternate_on}").strip() == "1"

    @property
    def pid(self) -> int:
        """The process of the shell that runs the program."""
        return int(self._call("display-message", "-p", "#{pane_pid}"))

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._call("send-keys", *keys)

    def wait_for(self, *texts: str) -> str:
        """Return the screen as soon as it contains all texts: it is drawn in parts."""
        end = time.monotonic() + _LIMIT
        while True:
            screen = self.screen
            if all(text in screen for text in texts):
                return screen
            assert time.monotonic() < end, f"{texts} did not appear in {_LIMIT} s on:\n{screen}"
            time.sleep(0.05)

    def _call(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        return subprocess.run(
            [*self._tmux, *words], cwd=self._folder, env=env, check=True, capture_output=True, text=True
        ).stdout
