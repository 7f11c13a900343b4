"""`apass passes`: lists the registered passes."""

import inspect
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from apass.cli.errors import errors_as_lines
from apass.cli.terminal import safe_markup
from apass.cli.user_modules import LoadOption
from apass.core.named_callables import callable_name
from apass.core.pass_factories import find_factory
from apass.core.plugins import plugins
from apass.errors import ApassError, PassDefinitionError
from apass.passes.registry import get_pass, list_passes, pass_options
from apass.util.typed_values import type_name, write

__all__ = ["app", "describe_passes"]

app: Final = typer.Typer(add_completion=False)


@app.command("passes")
def passes(
    name: Annotated[str | None, typer.Argument(help="Show only this pass, with its full documentation.")] = None,
    _load: LoadOption = None,
) -> None:
    """List the passes with level, requirements, options and a summary."""
    with errors_as_lines():
        out = Console(highlight=False, soft_wrap=True)
        for line in describe_passes(name):
            out.print(line)


def describe_passes(only: str | None = None) -> Iterator[str]:
    """Iterate over the lines that describe the passes, in rich's markup.

    A description has level, requirements, the first line of the documentation, and options. With `only`, it is the
    description of this pass, with the full documentation.

    Raises:
        UnknownPassError: if no pass is named `only`.

    """
    if only is not None:
        yield from _describe(only, is_full=True)
        return
    names = list_passes()
    for name in names:
        try:
            yield from _describe(name, is_full=False)
        except Exception as error:
            # The factory is user code and may raise anything. List the other passes all the same.
            yield f"[bold]{safe_markup(name)}[/]"
            yield f"    {safe_markup(str(error) if isinstance(error, ApassError) else repr(error))}"
    hidden: dict[str, list[str]] = {}
    for pattern in plugins("apass.pass_modules"):
        # The name of a single plug-in may be that of a callable, such as `onnx.latency`.
        if "*" in pattern and not any(fnmatchcase(name, pattern) for name in names):
            hidden.setdefault(_reason_missing(pattern), []).append(pattern)
    for reason, patterns in hidden.items():
        yield f"[bold]{safe_markup(', '.join(patterns))}[/]"
        yield f"    {safe_markup(reason)}"


def _reason_missing(pattern: str) -> str:
    try:
        find_factory(pattern)
    except ApassError as error:
        return str(error)
    return "no passes are registered"


def _describe(name: str, *, is_full: bool) -> Iterator[str]:
    text = inspect.getdoc(find_factory(name)) or "no documentation"
    yield f"[bold]{safe_markup(name)}[/]{safe_markup(_metadata(name))}"
    for line in text.splitlines() if is_full else text.splitlines()[:1]:
        yield f"    {safe_markup(line)}"
    for key, parameter in pass_options(name).items():
        yield f"    [dim]{safe_markup(_option(key, parameter))}[/]"


def _metadata(name: str) -> str:
    """Return level and requirements, or a note that the pass needs options."""
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
        return write(value, callable_name)
    except TypeError:
        return repr(value)
