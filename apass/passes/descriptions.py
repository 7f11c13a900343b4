"""`describe_pass`: describes a registered pass as values of JSON."""

import inspect
from collections.abc import Sequence
from typing import Any

from apass.core.named_callables import value_text
from apass.core.outside import outside_of
from apass.core.pass_factories import find_factory
from apass.core.properties import names_of
from apass.errors import ApassError, PassDefinitionError
from apass.loading.entry_points import plugins
from apass.passes.registry import get_pass, pass_documentation, pass_options
from apass.util.typed_values import type_name

__all__ = ["default_text", "describe_pass", "error_text", "ir_of", "pass_metadata"]


def describe_pass(name: str) -> dict[str, Any]:
    """Return the description of a pass as values of JSON.

    If its factory fails, it has an error.

    Raises:
        UnknownPassError: if no pass has the name.

    """
    result: dict[str, Any] = {"name": name, "level": None, "requires": [], "ir": None, "options": [], "doc": ""}
    result["contract"] = {}
    try:
        factory = find_factory(name)
        result |= {"ir": ir_of(name, factory), "doc": pass_documentation(name)}
        result["options"] = [_option(key, parameter) for key, parameter in pass_options(name).items()]
        level, requires, contract = pass_metadata(name)
    except Exception as error:  # the factory is user code and may raise anything
        return result | {"error": error_text(error)}
    return result | {"level": level, "requires": list(requires), "contract": contract, "error": None}


def pass_metadata(name: str) -> tuple[int | None, Sequence[str], dict[str, Any]]:
    """Return level, requirements and contract; the level is None if options decide it."""
    try:
        pass_ = get_pass(name)
    except PassDefinitionError:
        level = pass_options(name).get("opt_level")
        return None if level is None or level.default is level.empty else level.default, (), {}
    contract: dict[str, Any] = {
        "requires_properties": list(names_of(pass_.contract.requires)),
        "ensures_properties": list(names_of(pass_.contract.ensures)),
        "runs_after": list(pass_.contract.runs_after),
        "runs_before": list(pass_.contract.runs_before),
        "idempotent": pass_.contract.idempotent,
        "outside": pass_.execution.outside and pass_.execution.outside.name.lower(),
    }
    return pass_.info.opt_level, pass_.info.required, {key: value for key, value in contract.items() if value}


def ir_of(name: str, factory: Any) -> str | None:
    """Return the IR of a pass of apass; None if it runs on any, or is not known."""
    prefix = name.partition(".")[0]
    # Another IR may provide a conversion, such as `onnx.FromRelay`.
    if prefix != name and prefix in {_folder(offer.module) for offer in plugins("apass.irs").values()}:
        return prefix
    return _folder(getattr(factory, "__module__", None) or "")


def _folder(module: str) -> str | None:
    """Return the folder of an IR in apass; None for a module outside of these."""
    package, _, rest = module.partition(".")
    folder = rest.removeprefix("adapters.").partition(".")[0]
    return folder if package == "apass" and folder != "passes" else None


def default_text(value: object) -> str:
    """Return the default of an option as it is written in a pipeline."""
    try:
        return value_text(value)
    except TypeError:
        return repr(value)


def error_text(error: Exception) -> str:
    """Return the message of an error, with its class if it is none of apass."""
    return str(error) if isinstance(error, ApassError) else repr(error)


def _option(key: str, parameter: inspect.Parameter) -> dict[str, Any]:
    annotation: Any = parameter.annotation
    is_required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    outside = outside_of(annotation)
    return {
        "name": key,
        "type": None if annotation is parameter.empty else type_name(annotation),
        "required": is_required,
        "default": None if parameter.default is parameter.empty else default_text(parameter.default),
        "outside": None if outside is None else outside.name.lower(),
    }
