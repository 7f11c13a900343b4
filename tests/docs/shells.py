"""Command lines of documentation: those of other compilers, and those of apass."""

import io
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from shutil import which
from typing import Any, cast
from unittest.mock import patch

import pytest
from xdsl.xdsl_opt_main import xDSLOptMain

from apass.adapters.programs import MLIR_OPT, OPT
from apass.errors import MissingExtraError
from tests.helpers.command_line import apass

__all__ = ["MissingToolError", "Shell"]


class MissingToolError(Exception):
    """A program is not installed."""


class Shell:
    """Runs command lines in a folder.

    Parameters:
        folder: the working directory.
        monkeypatch: sets the working directory and variables.

    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._tools = folder / "tools"
        self._tools.mkdir()
        for tool, names in ((OPT, ("opt", "llvm-reduce", "clang")), (MLIR_OPT, ("mlir-opt", "mlir-reduce"))):
            with suppress(MissingExtraError):
                program = tool.find()
                for name in names:
                    found = tool.sibling(program, name)
                    if found is not None:
                        self._tools.joinpath(name).symlink_to(found)
        monkeypatch.chdir(folder)

    def native(self, command: str) -> str:
        """Return what a command line of another compiler prints, on both streams.

        Raises:
            MissingToolError: if the program is not installed.

        """
        words, stdin = _words(command)
        if words[0] == "xdsl-opt":
            return _xdsl_opt(words[1:], stdin)
        if which(str(self._tools / words[0])) is None:
            raise MissingToolError(words[0])
        done = subprocess.run(
            [self._tools / words[0], *words[1:]],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.stdout

    def ours(self, command: str) -> str:
        """Return what a command line of apass prints, on both streams."""
        words, stdin = _words(command)
        # A row of a table has the variables among the options.
        variables = [word for word in words if word.startswith("APASS_")]
        rest = [word for word in words if word not in variables]
        with self._monkeypatch.context() as patched:
            for variable in variables:
                name, _, value = variable.partition("=")
                patched.setenv(name, value)
            return apass(*rest[1:], stdin=stdin.encode()).output

    def text(self, name: str) -> str:
        """Return the text of a file."""
        return self.folder.joinpath(name).read_text()


def _words(command: str) -> tuple[list[str], str]:
    """Return the words of a command line, and its standard input."""
    line, _, source = command.partition(" < ")
    return shlex.split(line), Path(source).read_text() if source else ""


def _xdsl_opt(arguments: Sequence[str], stdin: str) -> str:
    printed = io.StringIO()
    with (
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        try:
            cast("Any", xDSLOptMain(args=arguments)).run()
        except SystemExit:
            pass
        except Exception as error:  # it ends with a traceback
            print(error)
    return printed.getvalue()
