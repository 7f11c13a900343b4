"""Errors about options and arguments, as one line each."""

import inspect
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, cast, get_args, get_origin

import typer
from typer.models import ParameterInfo

from apass.cli.exit_status import MISUSED
from apass.cli.terminal import print_error
from apass.errors import InputError, did_you_mean

__all__ = ["choices_of", "flags_of", "unknown_option", "usage_errors_as_lines", "wrong_choice"]

_USAGE_ERROR: Final = cast("type[Exception]", typer.BadParameter.__mro__[1])
"""The base class of errors about the command line, which typer does not export."""

_SYNONYMS: Final = {"--passes": "--pipeline", "--pass-pipeline": "--pipeline"}
"""The options of `opt` of LLVM and of `mlir-opt` that have another name."""


@contextmanager
def usage_errors_as_lines(command: Any, ctx: Any, args: Sequence[str]) -> Generator[None]:
    """Turn an error about the arguments of a command into a line and an exit status."""
    try:
        yield
    except InputError as error:
        text = str(error)
    except _USAGE_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # it has printed the help
            raise
        text = _text_of(command, ctx, args, error)
    else:
        return
    print_error(text)
    raise typer.Exit(MISUSED)


def flags_of(command: Any, ctx: Any) -> dict[str, Any]:
    """Return the options of a command by each of their names."""
    options = [param for param in command.get_params(ctx) if param.param_type_name == "option"]
    return {flag: option for option in options for flag in (*option.opts, *option.secondary_opts)}


def _value_type(annotation: Any) -> Any:
    """Return the type of one value of a parameter, without `Annotated`, None and list."""
    while (origin := get_origin(annotation)) in (Annotated, Union, UnionType, list):
        inner = get_args(annotation)
        annotation = next(item for item in inner if item is not NoneType) if origin in (Union, UnionType) else inner[0]
    return annotation


def choices_of(annotation: Any) -> list[str]:
    """Return the values that a parameter accepts; none if they are not listed."""
    kind = _value_type(annotation)
    return [str(member.value) for member in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def unknown_option(name: str, flags: dict[str, Any]) -> str:
    """Return the message about an unknown option."""
    long = f"--{name.lstrip('-')}"
    synonym = _SYNONYMS.get(long)
    if synonym in flags:
        return f"no option is named {name!r}; did you mean {synonym!r}?"
    hint = did_you_mean(long, [flag for flag in flags if flag.startswith("--")]) or "; --help lists all"
    return f"no option is named {name!r}{hint}"


def wrong_choice(name: str, value: object, choices: Sequence[str]) -> str:
    """Return the message about a value that is not one of the choices."""
    expected = f"{', '.join(choices[:-1])} or {choices[-1]}"
    return f"{name} must be {expected}, got {value!r}{did_you_mean(str(value), choices)}"


def _text_of(command: Any, ctx: Any, args: Sequence[str], error: Any) -> str:
    param, kind = getattr(error, "param", None), type(error).__name__
    usage = f"; `{ctx.command_path} -h` shows the usage"
    if kind == "NoSuchOption":
        # click names the first letter of `-dash.onnx`.
        word = next((arg for arg in args if arg.startswith(error.option_name)), error.option_name)
        message = unknown_option(word.partition("=")[0], flags_of(command, ctx))
        is_file = not word.startswith("--") and Path(word).is_file()
        return f"{message}; to name the file, write ./{word}" if is_file else message
    if kind == "MissingParameter":
        return f"{_name_of(param)} is missing{usage}"
    if param is not None:
        return "".join(_wrong_value(command, ctx, args, param)) or f"{_name_of(param)}: {_own(error.message)}"
    extra = re.search(r"extra arguments?(?:\(s\))? \((.*)\)", error.message, re.DOTALL)
    return f"unexpected argument {extra[1]!r}{usage}" if extra else _own(error.message)


def _wrong_value(command: Any, ctx: Any, args: Sequence[str], param: Any) -> Iterator[str]:
    """Iterate over the parts of the message about the value of a parameter.

    There are none if its type accepts any text.
    """
    annotation = inspect.signature(command.callback, eval_str=True).parameters[param.name].annotation
    kind, choices = _value_type(annotation), choices_of(annotation)
    if not choices and kind not in (int, float):
        return
    given: Any = command.make_parser(ctx).parse_args(args=list(args))[0].get(param.name)
    place = "" if given is not None else " in the settings file"
    if given is None:
        given = ctx.lookup_default(param.name)
    values = cast("Sequence[Any]", given if isinstance(given, list | tuple) else [given])
    value = next((value for value in values if value not in choices), None)
    name = _name_of(param)
    yield (
        wrong_choice(name, value, choices)
        if choices
        else (f"{name} must be {_number(kind, annotation, param)}, got {value!r}")
    )
    yield place


def _number(kind: type[Any], annotation: Any, param: Any) -> str:
    """Return the words for a number with its unit and bounds."""
    info = next(mark for mark in get_args(annotation) if isinstance(mark, ParameterInfo))
    words = "an integer" if kind is int else "a number"
    unit = " of seconds" if param.metavar == "SECONDS" else ""
    bounds = [f"{word} {bound}" for word, bound in (("least", info.min), ("most", info.max)) if bound is not None]
    return f"{words}{unit}{' of at ' if bounds else ''}{' and at '.join(bounds)}"


def _name_of(param: Any) -> str:
    """Return the longest name of an option, or the name of an argument in the usage."""
    return max(param.opts, key=len) if param.param_type_name == "option" else str(param.metavar or param.name)


def _own(message: str) -> str:
    """Return the message of a library in the style of apass."""
    return f"{message[:1].lower()}{message[1:]}".rstrip(".")
