"""The Typer application: its commands, each imported when it is used."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand

from apass.cli.command import Group
from apass.cli.exit_status import INTERRUPTED
from apass.cli.loading import import_errors_as_lines

__all__ = ["COMMANDS", "GROUPS", "LOAD_HELP", "app", "load_command", "main"]

GROUPS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "Optimize": {
            "opt": "Optimize models concurrently, and write the results.",
            "passes": "List the passes with level, requirements, options and a summary.",
            "plan": "Print the passes that would run, in order, and the reason for each skipped pass.",
            "search": "Find the best pipeline of a space for each model, and write the results.",
            "convert": "Write a model as a file of another format, by the passes that convert it.",
            "cache": "Show, explain or delete the results that `apass opt --cache` stores.",
        },
        "Compare and debug": {
            "diff": "Compare two recorded runs, or two pipelines on some models.",
            "blame": "Print which pass made each node of the result, and which passes changed it.",
            "bisect": "Find the first pass, and its function, that makes a check of the model fail.",
            "replay": "Run the failed pass of a reproducer on the recorded module and context.",
            "reduce": "Write a smaller model and pipeline that fail, or that a check rejects.",
            "debug": "Step through a pipeline in the terminal, and change modules on the way.",
            "stress": "Search for an order of the steps of concurrent bodies that changes the result.",
        },
        "Use the command line of a compiler": {
            "llvm-opt": "Run the command line of LLVM's opt, and show what its passes do.",
            "mlir-opt": "Run the command line of mlir-opt, and show what its passes do.",
            "xdsl-opt": "Run the command line of xdsl-opt, with the passes as those of apass.",
        },
        "Use a server": {
            "serve": "Serve jobs over HTTP, until Ctrl-C or SIGTERM.",
            "submit": "Optimize models on a server, and write the results.",
            "jobs": "List, show, cancel, repeat or remove the jobs of a server, and get their results.",
        },
    }
)
"""The commands by purpose, each a module in `apass.cli.commands`, and their lines in `apass --help`."""

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {name: line for group in GROUPS.values() for name, line in group.items()}
)
"""The lines of all commands."""


def load_command(name: str) -> Any:
    """Import a command, and return it as typer's command or group."""
    with import_errors_as_lines():
        module = import_module(f"apass.cli.commands.{name.replace('-', '_')}")
    return typer.main.get_command(module.app)


class _Commands(Group):
    """The commands of `COMMANDS`, of which only the one that runs is imported."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        # These make the list of `--help`, and suggestions for misspelt names.
        self.commands = {
            name: TyperCommand(name, help=line, rich_help_panel=title)
            for title, group in GROUPS.items()
            for name, line in group.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_command(name), rest


LOAD_HELP: Final = "Import this Python file or module first, which registers passes or IRs; may be repeated."
"""The help text of `--load`, an option of `apass` and of each command that uses passes."""

app: Final = typer.Typer(
    name="apass",
    cls=_Commands,
    help="Async compiler passes: optimize many models concurrently in one event loop.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        # Reading the version takes milliseconds, which the other commands need not spend.
        from apass.util.version import __version__

        typer.echo(f"apass {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    # Each command reads this value, with that of its own option.
    load: Annotated[list[str] | None, typer.Option("--load", metavar="FILE", help=LOAD_HELP)] = None,
) -> None: ...


def main() -> None:
    """Run the command line, and exit."""
    try:
        app(prog_name="apass")
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
