"""The list of passes for `apass passes`."""

import inspect
from collections.abc import Iterator
from typing import Any

from rich.markup import escape

from apass.core.pass_factories import PROVIDERS, find_factory
from apass.errors import ApassError, PassDefinitionError
from apass.passes.registry import get_pass, list_passes, pass_options
from apass.util.typed_values import type_name, write

__all__ = ["describe_passes"]


def describe_passes(only: str | None = None) -> Iterator[str]:
    """Give the lines that describe the passes, in rich's markup: level, requirements, documentation, options.

    Each pass gets the first line of its documentation; `only`, the one to be described alone, all of it.
    UnknownPassError if there is none of that name.
    """
    if only is not None:
        yield from _describe(only, whole=True)
        return
    names = list_passes()
    for name in names:
        try:
            yield from _describe(name, whole=False)
        except Exception as error:  # of a factory that is somebody else's: the others are listed all the same
            yield f"[bold]{escape(name)}[/]"
            yield f"    {escape(str(error) if isinstance(error, ApassError) else repr(error))}"
    for prefix in PROVIDERS:
        if not any(name.startswith(prefix) for name in names):
            yield f"[bold]{escape(prefix)}*[/]"
            yield f"    {escape(_why_missing(prefix))}"


def _why_missing(prefix: str) -> str:
    try:
        find_factory(prefix)
    except ApassError as error:
        return str(error)
    return "it has no passes"


def _describe(name: str, *, whole: bool) -> Iterator[str]:
    text = inspect.getdoc(find_factory(name)) or "no documentation"
    yield f"[bold]{escape(name)}[/]{escape(_metadata(name))}"
    for line in text.splitlines() if whole else text.splitlines()[:1]:
        yield f"    {escape(line)}"
    for key, one in pass_options(name).items():
        yield f"    [dim]{escape(_option(key, one))}[/]"


def _metadata(name: str) -> str:
    """Return level and requirements, or that the pass cannot be made without options."""
    try:
        info = get_pass(name).info
    except PassDefinitionError:
        level = pass_options(name).get("opt_level")
        return "  needs options" if level is None or level.default is level.empty else f"  level {level.default}"
    requires = f", requires {', '.join(info.required)}" if info.required else ""
    return f"  level {info.opt_level}{requires}"


def _option(key: str, parameter: inspect.Parameter) -> str:
    annotation: Any = parameter.annotation
    shown = key if annotation is parameter.empty else f"{key}: {type_name(annotation)}"
    return shown if parameter.default is parameter.empty else f"{shown} = {_default(parameter.default)}"


def _default(value: object) -> str:
    try:
        return write(value)
    except TypeError:
        return repr(value)
