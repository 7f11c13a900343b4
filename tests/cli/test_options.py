"""Options of a command that come from dataclasses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from apass.cli.options import with_options


@dataclass(frozen=True)
class Colour:
    """One group of options."""

    colour: Annotated[str, typer.Option("--colour")] = "red"


@dataclass(frozen=True)
class Size:
    """Another one."""

    size: Annotated[int, typer.Option("--size")] = 3


def test_each_field_is_an_option_and_the_command_gets_the_instances() -> None:
    app, seen = typer.Typer(), list[tuple[str, Sequence[Any]]]()

    @app.command()
    @with_options(Colour, Size)
    def paint(what: str, *, options: Sequence[Any]) -> None:
        """Paint it."""
        seen.append((what, options))

    result = CliRunner().invoke(app, ["wall", "--size", "5"])
    assert (result.exit_code, seen) == (0, [("wall", (Colour("red"), Size(5)))])


def test_an_option_of_two_groups_is_an_error_at_once() -> None:
    with pytest.raises(TypeError, match=r"options named twice: \['size'\]"):

        @with_options(Size, Size)
        def paint(options: Sequence[Any]) -> None:
            """Paint it."""
