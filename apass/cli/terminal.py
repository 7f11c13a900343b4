"""Output of the commands, with control characters shown as escapes."""

import typer
from rich.markup import escape

from apass.util.printable import LAYOUT, printable

__all__ = ["echo", "safe_markup", "safe_name"]


def echo(text: str, *, end: str = "\n") -> None:
    """Print a text of several lines on standard output."""
    typer.echo(printable(text, LAYOUT) + end, nl=False)


def safe_markup(text: str) -> str:
    """Return rich's markup for a text of several lines, shown as it is."""
    return escape(printable(text, LAYOUT))


def safe_name(text: str) -> str:
    """Return rich's markup for a name, shown in one line as it is."""
    return escape(printable(text))
