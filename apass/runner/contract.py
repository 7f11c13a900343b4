"""The contract of a pass: the properties that it requires and ensures."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from apass.concurrency.coroutines import is_awaitable
from apass.core.context import PassContext, current_scope
from apass.core.properties import Property, find_property, list_properties, names_of
from apass.errors import PropertyError

__all__ = ["note_ensured", "reason_missing", "with_contract"]

_ENSURING: Final[dict[str, set[str]]] = {}
"""The names of the passes that ensure a property, for messages."""


def note_ensured(pass_name: str, ensures: tuple[str | Property, ...]) -> None:
    """Record which properties a pass ensures, for messages about missing ones."""
    for name in names_of(ensures):
        _ENSURING.setdefault(name, set()).add(pass_name)


def with_contract(work: Callable[[Any, PassContext], Any], pass_: Any) -> Callable[[Any, PassContext], Awaitable[Any]]:
    """Return the work of a pass, which checks the contract.

    What the pass requires is checked before, and what it ensures after it. If a property is missing, the work raises
    PropertyError.
    """

    async def checked(mod: Any, ctx: PassContext) -> Any:
        # One after the other: the message names the first property that is missing.
        for item in pass_.contract.requires:
            reason = await reason_missing(item, mod, ctx)
            if reason is not None:
                raise PropertyError(_not_required(pass_.info.name, item, reason))
        outcome = work(mod, ctx)
        result: Any = await outcome if is_awaitable(outcome) else outcome
        # The runner reports a result that is no module.
        if result is None or is_awaitable(result):
            return result
        for item in pass_.contract.ensures:
            reason = await reason_missing(item, result, ctx)
            if reason is not None:
                name = _name_of(item)
                raise PropertyError(f"pass {pass_.info.name!r} ensures {name!r}, but its result lacks it{reason}")
        if pass_.contract.idempotent:
            settled = current_scope().state.settled
            # Equal passes count as one: a registered pass is created anew for each pass that requires it.
            passes = settled.get(result) or ()
            if pass_ not in passes:
                settled.keep(result, (*passes, pass_))
        return result

    return checked


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


def _not_required(pass_name: str, item: str | Property, reason: str) -> str:
    name = _name_of(item)
    list_properties()
    ensuring = sorted(_ENSURING.get(name, set()) - {pass_name})
    hint = f"; run {' or '.join(ensuring)} before it" if ensuring else "; run a pass that ensures it before"
    return f"pass {pass_name!r} requires {name!r}, which the module lacks{reason}{hint}"


def _name_of(item: str | Property) -> str:
    return next(names_of([item]))
