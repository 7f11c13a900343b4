"""Options of a command that are declared by dataclasses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from apass.cli.options import with_options


@dataclass(frozen=True)
class Colour:
    """A group of options."""

    colour: Annotated[str, typer.Option("--colour")] = "red"


@dataclass(frozen=True)
class Size:
    """Another group of options."""

    size: Annotated[int, typer.Option("--size")] = 3


def test_with_options_passes_instances_to_the_command() -> None:
    app, calls = typer.Typer(), list[tuple[str, Sequence[Any]]]()

    @app.command()
    @with_options(Colour, Size)
    def paint(target: str, *, options: Sequence[Any]) -> None:
        """Paint it."""
        calls.append((target, options))

    result = CliRunner().invoke(app, ["wall", "--size", "5"])
    assert (result.exit_code, calls) == (0, [("wall", (Colour("red"), Size(5)))])


def test_with_options_rejects_duplicate_options() -> None:
    with pytest.raises(TypeError, match=r"duplicate options: \['size'\]"):

        @with_options(Size, Size)
        def paint(options: Sequence[Any]) -> None:
            """Paint it."""
