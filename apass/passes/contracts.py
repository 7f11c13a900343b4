"""Contracts of passes: properties and idempotence."""

import inspect
from functools import wraps
from typing import Any, Final

from apass.concurrency.coroutines import is_awaitable
from apass.core.context import PassContext, current_scope
from apass.core.info import PassInfo
from apass.core.properties import Property, find_property, list_properties, names_of
from apass.errors import PassDefinitionError, PropertyError

__all__ = ["add_contract", "reason_missing"]

_MARK: Final = "__checks_contract__"
"""Set on a `transform` that checks the contract of its pass."""

_ENSURING: Final[dict[str, set[str]]] = {}
"""The names of the passes that ensure a property, for messages."""


def add_contract(cls: Any) -> None:
    """Make the `transform` of a class check what its passes require and ensure.

    A pass without a contract keeps its `transform`, so that it costs nothing.
    """
    info = getattr(cls, "info", None)
    if isinstance(info, PassInfo):
        for name in names_of(cls.ensures):
            _ENSURING.setdefault(name, set()).add(info.name)
    original: Any = inspect.getattr_static(cls, "transform")
    if hasattr(original, _MARK):
        return

    @wraps(getattr(original, "__func__", original))
    async def transform(self: Any, mod: Any, ctx: PassContext) -> Any:
        for item in self.requires:
            reason = await reason_missing(item, mod, ctx)
            if reason is not None:
                raise PropertyError(_not_required(self, item, reason))
        # The `transform` of a decorated function is a static method, which takes no `self`.
        result = original.__get__(self, type(self))(mod, ctx)
        if is_awaitable(result):
            result = await result
        # The runner reports a result that is no module.
        if result is None or is_awaitable(result):
            return result
        for item in self.ensures:
            reason = await reason_missing(item, result, ctx)
            if reason is not None:
                name = _name_of(item)
                raise PropertyError(f"pass {self.info.name!r} ensures {name!r}, but its result lacks it{reason}")
        if self.idempotent:
            settled = current_scope().state.settled
            passes = settled.get(result) or ()
            if self not in passes:
                settled.keep(result, (*passes, self))
        return result

    setattr(transform, _MARK, True)
    cls.transform = transform


def set_on_class(default: object) -> Any:
    """Return an attribute of passes that a class may set, but not a pass itself."""
    return _OfClass(default)


class _OfClass:
    """An attribute whose value decides what `add_contract` does with a class."""

    def __init__(self, default: object) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, pass_: object, cls: type) -> object:
        return self.default

    def __set__(self, pass_: object, value: object) -> None:
        name = type(pass_).__name__
        raise PassDefinitionError(
            f"a pass of class {name} sets {self.name!r} on itself; set it on the class: "
            f"class {name}(..., {self.name}={value!r})"
        )


async def reason_missing(item: str | Property, mod: Any, ctx: PassContext) -> str | None:
    """Return None if a module has a property, or else the end of a message."""
    try:
        outcome: object = await ctx.get(find_property(item), mod)
    except Exception as error:
        error.add_note(f"in the check of property {_name_of(item)!r}")
        raise
    if outcome is True:
        return None
    if outcome is False or outcome == "":
        return ""
    if isinstance(outcome, str):
        return f": {outcome}"
    raise PropertyError(f"the check of property {_name_of(item)!r} returned {outcome!r}; return True, False or a text")


def _not_required(pass_: Any, item: str | Property, reason: str) -> str:
    name = _name_of(item)
    list_properties()
    ensuring = sorted(_ENSURING.get(name, set()) - {pass_.info.name})
    hint = f"; run {' or '.join(ensuring)} before it" if ensuring else "; run a pass that ensures it before"
    return f"pass {pass_.info.name!r} requires {name!r}, which the module lacks{reason}{hint}"


def _name_of(item: str | Property) -> str:
    return next(names_of([item]))
