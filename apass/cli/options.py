"""Options of a command that come from dataclasses: each field is one; so a feature brings its own."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar, get_type_hints

__all__ = ["given_options", "with_options"]

R = TypeVar("R")


def with_options(*kinds: type[Any]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a command the fields of each dataclass as options; it gets the instances as its argument `options`, a tuple.

    Raises:
        TypeError: if two of them, or one and the command itself, have a parameter of the same name.

    """

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name != "options"]
        added = [one for kind in kinds for one in _parameters(kind)]
        names = [one.name for one in [*own, *added]]
        if len(set(names)) < len(names):
            raise TypeError(f"options named twice: {sorted({name for name in names if names.count(name) > 1})}")

        @wraps(command)
        def run(**given: Any) -> R:
            options = tuple(kind(**{one.name: given.pop(one.name) for one in fields(kind)}) for kind in kinds)
            return command(**given, options=options)

        run.__dict__["__signature__"] = inspect.Signature([*own, *added])
        run.__annotations__ = {one.name: one.annotation for one in [*own, *added]}
        return run

    return decorate


def given_options(options: Any) -> list[str]:
    """Return the names of the options that are not as usual, of an instance that `with_options` made."""
    given = [one.name for one in fields(options) if getattr(options, one.name) != one.default]
    return [f"--{name.replace('_', '-')}" for name in given]


def _parameters(kind: type[Any]) -> Sequence[inspect.Parameter]:
    """Return the fields of a dataclass as parameters by keyword."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(kind)
    ]
