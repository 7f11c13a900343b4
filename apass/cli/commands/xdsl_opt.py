"""`apass xdsl-opt`: takes the command lines of `xdsl-opt`."""

from collections.abc import Sequence
from contextvars import copy_context
from typing import Final

import typer

from apass.cli.errors import errors_as_lines
from apass.cli.tool_command import NativeArguments, ToolCommand, split_arguments
from apass.cli.user_modules import load_user_modules

__all__ = ["app"]

app: Final = typer.Typer(add_completion=False)


@app.command("xdsl-opt", cls=ToolCommand)
def xdsl_opt(*, arguments: NativeArguments = None) -> None:
    """Run the command line of xdsl-opt, with the passes as those of apass.

    Options of `apass opt` that xdsl-opt does not have, such as `--timing` or `--report r.html`, observe the passes.
    With `--load FILE`, the dialects and passes that the file registers are known.
    """
    with errors_as_lines():
        loaded, rest = _without_load(arguments or ())
        load_user_modules(loaded)
        # xDSL takes a second to import, and an error of a loaded file comes first.
        from apass.cli.xdsl_main import listed_options, run_xdsl

        native, own = split_arguments(rest, listed_options)
        # The name of the module is set for this run alone.
        status = copy_context().run(run_xdsl, native, own)
    raise typer.Exit(status)


def _without_load(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the values of `--load`, and the other arguments."""
    loaded, others = list[str](), list[str]()
    rest = iter(arguments)
    for argument in rest:
        if argument == "--load":
            loaded += [next(rest, "")]
        elif argument.startswith("--load="):
            loaded.append(argument.partition("=")[2])
        else:
            others.append(argument)
    return loaded, others
