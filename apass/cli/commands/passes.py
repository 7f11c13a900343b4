"""`apass passes`: lists the registered passes."""

import inspect
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from apass.cli.command import Command
from apass.cli.completion import complete_pass
from apass.cli.errors import errors_as_lines, warnings_as_lines
from apass.cli.terminal import Color, ColorOption, FormatOption, OutputFormat, print_json, safe_markup
from apass.cli.user_modules import LoadOption
from apass.core.outside import Outside, outside_of
from apass.core.pass_factories import find_factory
from apass.errors import ApassError, InputError
from apass.loading.entry_points import plugins
from apass.passes.descriptions import default_text, describe_pass, error_text, ir_of, pass_metadata
from apass.passes.registry import list_passes, pass_documentation, pass_options
from apass.util.typed_values import type_name

__all__ = ["app", "describe_passes"]

app: Final = typer.Typer(add_completion=False)


_EXAMPLES: Final = (
    "Examples:",
    "apass passes 'onnx.*'",
    "apass passes --ir tvm",
    "apass passes onnx.Inline",
    "apass passes --output-format json | jq .name",
)
"""Shown above the options; one line for each."""


@app.command("passes", cls=Command, epilog="\n\n".join(_EXAMPLES))
def passes(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Show only these passes, with their full documentation, or those of a pattern: 'onnx.*'.",
            autocompletion=complete_pass,
        ),
    ] = None,
    ir: Annotated[
        str | None, typer.Option("--ir", metavar="IR", help="List only the passes of this IR, such as onnx or relay.")
    ] = None,
    output_format: FormatOption = OutputFormat.TEXT,
    color: ColorOption = Color.AUTO,
    _load: LoadOption = None,
) -> None:
    """List the passes with level, requirements, options and a summary."""
    with errors_as_lines(), warnings_as_lines():
        if ir is not None:
            if names:
                raise InputError(f"--ir {ir} and {names[0]!r} both select passes; leave one of them out")
            names = _names_of_ir(ir)
        if output_format is OutputFormat.JSON:
            for name in _selected(names):
                print_json(describe_pass(name))
            return
        out = Console(highlight=False, soft_wrap=True)
        for line in describe_passes(names):
            out.print(line)


def describe_passes(names: Sequence[str] | None = None) -> Iterator[str]:
    """Iterate over the lines that describe the passes, in rich's markup.

    A description has level, requirements, the first line of the documentation, and options. That of a pass in `names`
    has the full documentation. A pattern in `names` lists the passes that match it.

    Raises:
        UnknownPassError: if no pass has one of the names.
        InputError: if no pass matches one of the patterns.

    """
    for name in _selected(names):
        if names and name in names:
            yield from _describe(name, is_full=True)
            continue
        try:
            yield from _describe(name, is_full=False)
        except Exception as error:
            # The factory is user code and may raise anything. List the other passes all the same.
            yield f"[bold]{safe_markup(name)}[/]"
            yield f"    {safe_markup(error_text(error))}"
    if names:
        return
    hidden: dict[str, list[str]] = {}
    for pattern in plugins("apass.pass_modules"):
        # The name of a single plug-in may be that of a callable, such as `onnx.latency`.
        if "*" in pattern and not any(fnmatchcase(name, pattern) for name in list_passes()):
            hidden.setdefault(_reason_missing(pattern), []).append(pattern)
    for reason, patterns in hidden.items():
        yield f"[bold]{safe_markup(', '.join(patterns))}[/]"
        yield f"    {safe_markup(reason)}"


def _selected(names: Sequence[str] | None) -> list[str]:
    """Return the names of the passes that names and patterns select, or of all."""
    if not names:
        return list_passes()
    selected: dict[str, None] = {}
    for pattern in names:
        if not set("*?[") & set(pattern):
            find_factory(pattern)
            selected[pattern] = None
            continue
        matches = [name for name in list_passes() if fnmatchcase(name, pattern)]
        if not matches:
            # If a library or a program is missing, the error of its plug-in says so.
            for provided, offer in plugins("apass.pass_modules").items():
                if provided == pattern:
                    offer.load()
            raise InputError(f"no pass matches {pattern!r}; `apass passes` lists all")
        selected.update(dict.fromkeys(matches))
    return list(selected)


def _names_of_ir(ir: str) -> list[str]:
    """Return a pattern for the passes of an IR, or their names.

    Raises:
        InputError: if no IR has the name.
        MissingExtraError: if a library of the IR is not installed.

    """
    pattern, patterns = f"{ir}.*", plugins("apass.pass_modules")
    if pattern in patterns:
        patterns[pattern].load()
        return [pattern]
    known = {name: ir_of(name, find_factory(name)) for name in list_passes()}
    names = [name for name, other in known.items() if other == ir]
    if not names:
        irs = sorted(
            {other for other in known.values() if other} | {key.removesuffix(".*") for key in patterns if ".*" in key}
        )
        raise InputError(f"no passes of the IR {ir!r}; expected one of {', '.join(irs)}")
    return names


def _reason_missing(pattern: str) -> str:
    try:
        find_factory(pattern)
    except ApassError as error:
        return str(error)
    return "no passes are registered"


def _describe(name: str, *, is_full: bool) -> Iterator[str]:
    text = pass_documentation(name) or "no documentation"
    yield f"[bold]{safe_markup(name)}[/]{safe_markup(_metadata_text(name))}"
    for line in text.splitlines() if is_full else text.splitlines()[:1]:
        yield f"    {safe_markup(line)}"
    for key, parameter in pass_options(name).items():
        yield f"    [dim]{safe_markup(_option(key, parameter))}[/]"


def _metadata_text(name: str) -> str:
    """Return level, requirements and contract, or a note that the pass needs options."""
    level, required, contract = pass_metadata(name)
    if level is None:
        return "  needs options"
    lists = {key: names for key, names in contract.items() if key in _WORDS}
    words = [_WORDS[key] + ", ".join(names) for key, names in {"requires": required, **lists}.items() if names]
    words += ["idempotent"] if "idempotent" in contract else []
    words += [Outside[contract["outside"].upper()].value] if "outside" in contract else []
    return "  " + ", ".join((f"level {level}", *words))


_WORDS: Final = {
    "requires": "requires ",
    "requires_properties": "requires the property ",
    "ensures_properties": "ensures the property ",
    "runs_after": "runs after ",
    "runs_before": "runs before ",
}
"""The words before the names of each kind."""


def _option(key: str, parameter: inspect.Parameter) -> str:
    annotation: Any = parameter.annotation
    shown = key if annotation is parameter.empty else f"{key}: {type_name(annotation)}"
    shown += "" if parameter.default is parameter.empty else f" = {default_text(parameter.default)}"
    outside = outside_of(annotation)
    return shown if outside is None else f"{shown} ({outside.value})"
