"""Options that may stand alone, as in `--timing`, or have a value, as in `--timing=json`."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, get_args, get_type_hints

from typer.core import TyperCommand

__all__ = ["Alone", "command_with"]


@dataclass(frozen=True, slots=True)
class Alone:
    """What an option means that stands alone: a mark in the `Annotated` of its field, beside `typer.Option`.

    The option's value then needs a "=": what comes after a space is the next argument.
    """

    flag: str
    """The option as it stands on the command line."""
    value: str
    """What it means."""


def command_with(*kinds: type[Any]) -> type[TyperCommand]:
    """Return what makes a command, for `app.command(cls=...)`, whose options may stand alone where `kinds` mark them.

    Each of `kinds` is a dataclass whose fields are options.
    """
    means = {mark.flag: f"{mark.flag}={mark.value}" for kind in kinds for mark in _marks(kind)}

    class Command(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            return super().parse_args(ctx, _spelt_out(args, means.get))

    return Command


def _marks(kind: type[Any]) -> Iterator[Alone]:
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        yield from (mark for mark in get_args(hints[one.name]) if isinstance(mark, Alone))


def _spelt_out(args: list[str], meaning: Callable[[str], str | None]) -> list[str]:
    """Return the arguments with a value for each option that stands alone; what follows `--` is no option."""
    end = args.index("--") if "--" in args else len(args)
    return [meaning(one) or one for one in args[:end]] + args[end:]
