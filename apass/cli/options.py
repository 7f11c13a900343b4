"""Options of a command that are declared by dataclasses: each field is one option."""

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields
from functools import wraps
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from typer.models import OptionInfo

__all__ = ["FlagValue", "ManyValues", "options_in_use", "with_options"]

R = TypeVar("R")


def with_options(*kinds: type[Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the fields of each dataclass as options.

    The command receives the instances as a tuple in its argument `options`. A class may have a `PANEL`: the heading of
    its options in the help, unless an option has another one.

    Raises:
        TypeError: if two dataclasses, or one and the command itself, have a parameter of the same name.

    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        signature = inspect.signature(command, eval_str=True)
        parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "options"]
        parameters += [parameter for kind in kinds for parameter in _parameters(kind)]
        names = [parameter.name for parameter in parameters]
        if len(set(names)) < len(names):
            raise TypeError(f"duplicate options: {sorted({name for name in names if names.count(name) > 1})}")

        @wraps(command)
        def run(**values: Any) -> R:
            options = tuple(kind(**{field.name: values.pop(field.name) for field in fields(kind)}) for kind in kinds)
            return command(**values, options=options)

        # Typer reads the signature and the annotations of the function that it registers.
        run.__dict__["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def options_in_use(options: Any) -> list[str]:
    """Return the names of the options that differ from their defaults, as `--name`."""
    names = [field.name for field in fields(options) if getattr(options, field.name) != field.default]
    kind: type[Any] = options.__class__
    hints = get_type_hints(kind, include_extras=True) if names else {}
    return [_flag(name, hints[name]) for name in names]


def _flag(name: str, hint: Any) -> str:
    """Return the long name of an option: the declared one, or that of the field."""
    # Within `Annotated`, typer keeps the first name in `default`.
    marks = [mark for mark in get_args(hint) if isinstance(mark, OptionInfo)]
    declared = [str(flag) for mark in marks for flag in (mark.default, *(mark.param_decls or ()))]
    return next((flag for flag in declared if flag.startswith("--")), f"--{name.replace('_', '-')}")


def _parameters(kind: type[Any]) -> Sequence[inspect.Parameter]:
    """Return the fields of a dataclass as keyword-only parameters.

    One without a default is required.
    """
    hints = get_type_hints(kind, include_extras=True)
    panel: str | None = getattr(kind, "PANEL", None)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=_in_panel(hints[field.name], panel),
        )
        for field in fields(kind)
    ]


def _in_panel(hint: Any, panel: str | None) -> Any:
    """Return a type with its option, which has a panel."""
    kind, *marks = get_args(hint)
    for index, mark in enumerate(marks):
        if isinstance(mark, OptionInfo) and mark.rich_help_panel is None:
            # Other commands may have the same option elsewhere.
            marks[index] = copy(mark)
            marks[index].rich_help_panel = panel
    return Annotated[kind, *marks]


@dataclass(frozen=True, slots=True)
class FlagValue:
    """The value of an option written alone: `--timing` means `--timing=tree`.

    It is added to the `Annotated` of the option's field, beside `typer.Option`. The type of the field is an Enum. A
    value of it may follow after a space, unless a file has its name: `--timing list` means `--timing=list`.
    """

    flag: str
    """The option as written on the command line."""
    value: str
    """The value that it implies."""


@dataclass(frozen=True, slots=True)
class ManyValues:
    """Allows several values after an option.

    `--compare A B` means `--compare=A --compare=B`. The values end at the next option. It is added to the `Annotated`
    of the option's field, beside `typer.Option`.
    """

    flag: str
    """The option as written on the command line."""
