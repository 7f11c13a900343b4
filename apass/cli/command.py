"""The classes of commands and of groups of commands."""

import inspect
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar, get_args

from typer.core import TyperCommand, TyperGroup

from apass.cli.options import FlagValue, ManyValues
from apass.cli.panels import PANELS
from apass.cli.settings_file import option_defaults
from apass.cli.usage import choices_of, flags_of, unknown_option, usage_errors_as_lines, wrong_choice
from apass.errors import InputError, did_you_mean

__all__ = ["Command", "Group"]

MarkT = TypeVar("MarkT")

_HELP: Final = {"-h", "--help"}

_IS_SHORT: Final = "apass.cli.command.is_short"
"""The key of the data of typer's context that is set for `-h`."""

_PLACES: Final = {panel: place for place, panel in enumerate((None, *PANELS))}
"""The order of the panels; options without a panel, and arguments, come first."""

_PIPELINE_FLAGS: Final = {"-passes": "llvm", "passes": "llvm", "-pass-pipeline": "mlir", "pass-pipeline": "mlir"}
"""The options of compilers that have a pipeline in their language, without their first dash."""

_WORD: Final = re.compile(r"-[A-Za-z][\w-]+(=.*)?", re.DOTALL)
"""A word after one dash, such as `-passes=A`, in place of the two of a long option."""


class Group(TyperGroup):
    """A group of commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the group; an error is one line."""
        with usage_errors_as_lines(self, ctx, tuple(args)):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name; an unknown name is an error."""
        with usage_errors_as_lines(self, ctx, args):
            if args[0] not in self.commands and not ctx.resilient_parsing:
                hint = did_you_mean(args[0], self.commands) or f"; `{ctx.command_path} -h` lists all"
                raise InputError(f"no command is named {args[0]!r}{hint}")
            return super().resolve_command(ctx, args)


class Command(TyperCommand):
    """A command that supports `FlagValue` and `ManyValues`.

    Its options are in the order of `PANELS`, and its help begins with the examples.
    """

    common: ClassVar[Collection[str]] = ()
    """The names of the parameters of the options that `-h` shows, beside those without a panel; all if it is empty."""

    def __init__(self, name: str | None, **attributes: Any) -> None:
        super().__init__(name, **attributes)
        # The panels appear in the order of their first options.
        self.params.sort(key=lambda param: _PLACES.get(getattr(param, "rich_help_panel", None), len(_PLACES)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; of `-h`, with the common options only."""
        shown = copy(self)
        summary, *paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(self.help or ""))
        examples = (self.epilog or "").replace("\n\n", "\n  ")
        shown.help = "\n\n".join(filter(None, [summary, examples, *(" ".join(one.split()) for one in paragraphs)]))
        shown.epilog = None
        if self.common and _IS_SHORT in ctx.meta:
            shown.params = [
                one for one in self.params if one.name in self.common or getattr(one, "rich_help_panel", None) is None
            ]
            shown.epilog = f"`{ctx.command_path} --help` shows all options."
        super(Command, shown).format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options and arguments; an error is one line."""
        # Arguments after `--` are not options.
        end = args.index("--") if "--" in args else len(args)
        if "--help" not in args[:end] and "-h" in args[:end]:
            ctx.meta[_IS_SHORT] = True
        reader = _Reader(self, ctx)
        with usage_errors_as_lines(self, ctx, args):
            # The help is shown also with settings that are wrong.
            if not (ctx.resilient_parsing or _HELP & {*args[:end]}):
                ctx.default_map = option_defaults(ctx.command_path.split()[1:], reader.flags)
            args = [*reader.read(args[:end]), *args[end:]]
        # The parser empties its list.
        with usage_errors_as_lines(self, ctx, tuple(args)):
            return super().parse_args(ctx, args)


class _Reader:
    """Reads the options of one command, before typer does."""

    def __init__(self, command: Any, ctx: Any) -> None:
        self.flags: Final = flags_of(command, ctx)
        """The options by their names."""
        self._is_checked = not ctx.resilient_parsing
        """False for shell completion, whose last option has no value yet."""
        parameters = inspect.signature(command.callback, eval_str=True).parameters.values()
        self._annotations = [parameter.annotation for parameter in parameters]
        self._implied = {mark.flag: (mark, choices_of(hint)) for hint, mark in self._marks(FlagValue)}
        self._many = {mark.flag for _, mark in self._marks(ManyValues)}

    def _marks(self, mark_type: type[MarkT]) -> Iterator[tuple[Any, MarkT]]:
        for hint in self._annotations:
            yield from ((hint, mark) for mark in get_args(hint) if isinstance(mark, mark_type))

    def read(self, args: Sequence[str]) -> Iterator[str]:
        """Iterate over the arguments in the form that typer understands.

        Raises:
            InputError: if an option has no value, or is misspelt so that typer would take it for another one.

        """
        rest = deque(args)
        while rest:
            arg = self._translated(rest.popleft(), rest)
            if arg in self._implied:
                yield f"{arg}={self._value_or_implied(arg, rest)}"
            elif arg in self._many:
                # typer has no options with any number of values. Without one, it would take the next option for it.
                values = [rest.popleft() for _ in range(_index_of_option(rest))]
                yield from (f"{arg}={value}" for value in values or [""])
            else:
                yield arg
                if self._takes_value(arg):
                    yield from self._value_of(arg, rest)
                elif self._is_checked:
                    self._check_spelling(arg)

    def _translated(self, arg: str, rest: deque[str]) -> str:
        """Return `--pipeline=llvm:TEXT` for `-passes=TEXT`, and the like."""
        name, equals, value = arg.partition("=")
        language = _PIPELINE_FLAGS.get(name.removeprefix("-"), "")
        if not language or "--pipeline" not in self.flags or not (equals or rest):
            return arg
        return f"--pipeline={language}:{value if equals else rest.popleft()}"

    def _value_or_implied(self, flag: str, rest: deque[str]) -> str:
        """Return the value that follows an option, or the implied one."""
        mark, choices = self._implied[flag]
        # A model may be named like a value.
        if not rest or Path(rest[0]).exists():
            return mark.value
        if rest[0] in choices:
            return rest.popleft()
        if self._is_checked and did_you_mean(rest[0], choices):
            raise InputError(wrong_choice(flag, rest[0], choices))
        return mark.value

    def _takes_value(self, flag: str) -> bool:
        return flag in self.flags and not self.flags[flag].is_flag

    def _value_of(self, flag: str, rest: deque[str]) -> Iterator[str]:
        """Remove the value of an option from the arguments, and iterate over it."""
        if self._is_checked and (not rest or self._is_option(rest[0])):
            found = f", got the option {rest[0]!r}; write {flag}={rest[0]} if it is the value" if rest else ""
            example = self.flags[flag].metavar
            raise InputError(f"{flag} needs a value{f', {example}' if example else ''}{found}")
        if rest:
            yield rest.popleft()

    def _is_option(self, arg: str) -> bool:
        """Return whether an argument is an option of the command, possibly with a value."""
        return arg.partition("=")[0] in self.flags or (not arg.startswith("--") and arg[:2] in self.flags)

    def _check_spelling(self, arg: str) -> None:
        """Raise if typer would take a misspelt long option for a short one with a value."""
        name, equals, value = arg.partition("=")
        if equals and len(name) == 2 and self._takes_value(name):
            raise InputError(f"{name} takes its value without '=', got {arg!r}; write {name} {value}")
        if _WORD.fullmatch(arg) and (equals or f"-{name}" in self.flags):
            raise InputError(unknown_option(name, self.flags))


def _index_of_option(args: Sequence[str]) -> int:
    """Return the number of arguments before the first option."""
    return next((index for index, arg in enumerate(args) if arg.startswith("-")), len(args))
