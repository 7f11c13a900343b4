"""Output of the commands, with control characters shown as escapes."""

import json
import os
from enum import Enum
from functools import partial
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape

from apass.cli.panels import OUTPUT
from apass.util.printable import LAYOUT, printable

__all__ = [
    "Color",
    "ColorOption",
    "FormatOption",
    "OutputFormat",
    "echo",
    "print_error",
    "print_json",
    "print_warning",
    "safe_markup",
    "safe_name",
]


class OutputFormat(Enum):
    """The format of standard output."""

    TEXT = "text"
    """Text for people."""
    JSON = "json"
    """Lines, each an object of JSON."""


_VARIABLES: Final = ("NO_COLOR", "FORCE_COLOR")
"""Variables of the environment that rich reads."""


class Color(Enum):
    """Whether the output has colours."""

    AUTO = "auto"
    """On a terminal, and as `NO_COLOR` and `FORCE_COLOR` require."""
    ALWAYS = "always"
    """Also in a pipe or a file."""
    NEVER = "never"
    """Nowhere."""


def _set_color(ctx: typer.Context, color: Color) -> Color:
    """Set the variables that rich reads, until the end of the command."""
    if color is not Color.AUTO:
        ctx.call_on_close(partial(_restore, {name: os.environ.get(name) for name in _VARIABLES}))
        for name in _VARIABLES:
            os.environ.pop(name, None)
        os.environ["FORCE_COLOR" if color is Color.ALWAYS else "NO_COLOR"] = "1"
    return color


def _restore(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


ColorOption = Annotated[
    Color,
    typer.Option(
        "--color",
        callback=_set_color,
        is_eager=True,
        help="Use colours on a terminal (auto), always or never.",
        rich_help_panel=OUTPUT,
    ),
]


FormatOption = Annotated[
    OutputFormat,
    typer.Option("--output-format", help="Print text, or lines of JSON.", rich_help_panel=OUTPUT),
]


def print_json(value: object) -> None:
    """Print a value as a line of JSON, in ASCII."""
    typer.echo(json.dumps(value))


def echo(text: str, *, end: str = "\n") -> None:
    """Print a text of several lines on standard output."""
    typer.echo(printable(text, LAYOUT) + end, nl=False)


def safe_markup(text: str) -> str:
    """Return rich's markup for a text of several lines, shown as it is."""
    return escape(printable(text, LAYOUT))


def safe_name(text: str) -> str:
    """Return rich's markup for a name, shown in one line as it is."""
    return escape(printable(text))


def print_error(text: str) -> None:
    """Print an error on standard error."""
    _print_line("bold red", text)


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    _print_line("bold yellow", f"warning: {text}")


def _print_line(style: str, text: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[{style}]apass:[/] {safe_markup(text)}")
