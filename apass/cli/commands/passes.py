"""`apass passes`: what passes there are."""

from typing import Annotated

import typer
from rich.console import Console

from apass.cli.errors import complaints
from apass.cli.listing import describe_passes

__all__ = ["passes"]


def passes(
    name: Annotated[str | None, typer.Argument(help="Show one pass, with its options and its whole text.")] = None,
) -> None:
    """List passes with level, requirements, options and a line of documentation."""
    with complaints():
        out = Console(highlight=False, soft_wrap=True)
        for line in describe_passes(name):
            out.print(line)
