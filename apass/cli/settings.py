"""From options of the command line to a pipeline and the context that it runs under."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from apass.cli.inputs import InputError
from apass.core.config import find_option
from apass.core.context import PassContext
from apass.core.pass_factories import known_names, load_providers
from apass.core.store import Store
from apass.errors import ConfigTypeError, UnknownPassError, did_you_mean
from apass.passes.base import Pass
from apass.util.typed_values import Bare, read, type_name

__all__ = [
    "ConfigOption",
    "ContextOptions",
    "DisableOption",
    "LevelOption",
    "RequireOption",
    "check_pass_names",
    "make_context",
]

LevelOption = Annotated[int, typer.Option("--opt-level", "-O", help="Run the passes of this level and below.")]
DisableOption = Annotated[list[str] | None, typer.Option("--disable", metavar="NAME", help="Leave this pass out.")]
RequireOption = Annotated[
    list[str] | None, typer.Option("--require", metavar="NAME", help="Run this pass whatever its level.")
]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="Set an option for passes.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """What the command line says of the context; options of a command, for `with_options`."""

    opt_level: LevelOption = 2
    """The level of the context."""
    disable: DisableOption = None
    """The names of passes that are left out."""
    require: RequireOption = None
    """The names of passes that run whatever their level."""
    config: ConfigOption = None
    """The options for passes, each as KEY=VALUE."""


def make_context(
    options: ContextOptions,
    pipelines: Iterable[Pass[Any]],
    instruments: Iterable[object] = (),
    store: Store | None = None,
) -> PassContext:
    """Return the context that the options describe, for running `pipelines`.

    Raises:
        UnknownPassError: if `--disable` or `--require` name no pass of the pipelines and none that is registered.
        UnknownConfigError, ConfigTypeError: if a `--config` is unknown, or not of its type.
        InputError: if a `--config` is not KEY=VALUE.

    """
    present, disabled, required = list(pipelines), options.disable or [], options.require or []
    check_pass_names("--disable", disabled, present)
    check_pass_names("--require", required, present)
    return PassContext(
        opt_level=options.opt_level,
        disabled_pass=disabled,
        required_pass=required,
        instruments=instruments,
        config=dict(_option(text) for text in options.config or []),
        store=store,
    )


def check_pass_names(option: str, names: Iterable[str], pipelines: Iterable[Pass[Any]]) -> None:
    """Return if each name is that of a pass in the pipelines, or of one that is registered.

    Raises:
        UnknownPassError: if one is not; it suggests the nearest.

    """
    present = {name for pipeline in pipelines for name in _names(pipeline)}
    for name in names:
        _check_name(option, name, present)


def _names(pass_: Pass[Any]) -> Iterable[str]:
    yield pass_.info.name
    for child in pass_.children():
        yield from _names(child)


def _check_name(option: str, name: str, present: set[str]) -> None:
    known = {*present, *known_names()}
    if name not in known:
        load_providers()
        known |= {*known_names()}
    if name not in known:
        near = did_you_mean(name, known, listing="known are ")
        raise UnknownPassError(f"{option} names {name!r}, which is no pass{near}")


def _option(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--config takes KEY=VALUE, not {text!r}")
    option = find_option(key)
    try:
        return key, read(Bare(value), option.type)
    except TypeError as error:
        wanted = f"wanted {type_name(option.type)}"
        told = str(error) if str(error).startswith(f"{wanted},") else f"{wanted} ({error})"
        raise ConfigTypeError(f"--config {key}: {told}") from None
