"""The command line: its commands and what is said of it as a whole."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from apass.cli.alone import command_with
from apass.cli.commands.bisect import bisect
from apass.cli.commands.cache import cache
from apass.cli.commands.opt import opt
from apass.cli.commands.passes import passes
from apass.cli.commands.plan import plan
from apass.cli.commands.reduce import reduce
from apass.cli.commands.replay import replay
from apass.cli.instruments import WATCHES

__all__ = ["app", "main"]

app = typer.Typer(
    name="apass",
    help="Compiler passes that wait: optimize many models concurrently in one event loop.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"apass {version('apass')}")
        raise typer.Exit


@app.callback()
def _root(
    _version_asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


app.command("opt", cls=command_with(*WATCHES))(opt)
app.command("passes")(passes)
app.add_typer(cache, name="cache")
app.command("bisect")(bisect)
app.command("plan")(plan)
app.command("replay")(replay)
app.command("reduce")(reduce)


def main() -> None:
    """Run the command line; the entry point `apass`, and `python -m apass`."""
    # For `package.module:name` in a pipeline; last, so that a file there takes no other module's place.
    sys.path.append(str(Path.cwd()))
    app(prog_name="apass")
