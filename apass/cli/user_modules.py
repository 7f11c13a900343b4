"""The modules of the user that a command loads first.

They are named by settings files, by an environment variable and by the option `--load`, in this order.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Final, cast

import typer

from apass.cli.app import COMMANDS, LOAD_HELP
from apass.cli.errors import errors_as_lines
from apass.cli.settings_file import find_settings, settings_in
from apass.errors import InputError, did_you_mean
from apass.loading.user_modules import load_user_module

__all__ = ["LoadOption", "load_user_modules"]

VARIABLE: Final = "APASS_LOAD"
"""Environment variable with files and modules, separated like the folders of PATH."""


def load_user_modules(options: Sequence[str]) -> None:
    """Import the modules of the settings, of the environment and of `--load`.

    A failure is a line on standard error and an exit status. What the modules print goes to standard error, because
    standard output may be that of a model.
    """
    with errors_as_lines(), redirect_stdout(sys.stderr):
        path = find_settings(Path.cwd())
        if path is not None:
            for source in _sources_in(path):
                load_user_module(source, path.parent)
        for source in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
            load_user_module(source)
        for source in options:
            load_user_module(source)


def _sources_in(path: Path) -> Iterable[str]:
    """Return the files and modules that a settings file names."""
    table = settings_in(path) or {}
    for key in table:
        if key != "load" and key not in COMMANDS:
            hint = did_you_mean(key, ["load", *COMMANDS], listing="expected load or the table of a command: ")
            raise InputError(f"{path} has the unknown setting {key!r} of apass{hint}")
    return list(_checked_sources(path, table.get("load", [])))


def _checked_sources(path: Path, sources: object) -> Iterator[str]:
    if not isinstance(sources, list):
        raise InputError(f"{path}: load must be a list of files and modules, got {sources!r}")
    for source in cast("list[object]", sources):
        if not isinstance(source, str) or not source:
            raise InputError(f"{path}: load must be a list of files and modules, but contains {source!r}")
        yield source


def _load(ctx: typer.Context, values: list[str] | None) -> None:
    """Load the modules of the user, unless the command line is only being completed."""
    if not ctx.resilient_parsing:
        load_user_modules([*(ctx.find_root().params.get("load") or ()), *(values or ())])


LoadOption = Annotated[
    list[str] | None,
    # Eager: the modules define what other options name. `--help` is eager too, and ends the command before.
    typer.Option("--load", metavar="FILE", help=LOAD_HELP, is_eager=True, expose_value=False, callback=_load),
]
"""The option of a command; the command itself does not receive its value."""
