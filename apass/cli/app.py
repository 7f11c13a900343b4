"""The Typer application: its commands and its global options."""

from importlib.metadata import version
from typing import Annotated, Final

import typer

from apass.cli.commands.bisect import bisect
from apass.cli.commands.cache import cache
from apass.cli.commands.opt import opt
from apass.cli.commands.passes import passes
from apass.cli.commands.plan import plan
from apass.cli.commands.reduce import reduce
from apass.cli.commands.replay import replay
from apass.cli.errors import INTERRUPTED
from apass.cli.instruments import OBSERVER_OPTIONS
from apass.cli.options import command_with

__all__ = ["app", "main"]

app: Final = typer.Typer(
    name="apass",
    help="Async compiler passes: optimize many models concurrently in one event loop.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"apass {version('apass')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


app.command("opt", cls=command_with(*OBSERVER_OPTIONS))(opt)
app.command("passes")(passes)
app.add_typer(cache, name="cache")
app.command("bisect")(bisect)
app.command("plan")(plan)
app.command("replay")(replay)
app.command("reduce")(reduce)


def main() -> None:
    """Run the command line, and exit."""
    try:
        app(prog_name="apass")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
