"""Properties of modules: named claims that passes require and ensure."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, cast, overload

from apass.core.analysis import Analysis, analysis
from apass.core.context import PassContext
from apass.errors import PassDefinitionError, PassRegistrationError, UnknownPropertyError, did_you_mean
from apass.loading.entry_points import import_all, matching_modules
from apass.util.interactive import definition_in_session

__all__ = ["Property", "check_property", "find_property", "list_properties", "names_of", "register_property"]

Property = Analysis[bool | str]
"""A property of modules: an analysis that returns True if a module has it, or else False or the reason."""

Outcome = bool | str | Awaitable[bool | str]
Check = Callable[[Any], Outcome] | Callable[[Any, PassContext], Outcome]

_PROPERTIES: Final[dict[str, Property]] = {}

_MODULES: Final = "apass.pass_modules"
"""Modules that register passes register the properties of these as well."""


@overload
def register_property(name: str, check: Check) -> Property: ...
@overload
def register_property(name: str, check: None = None) -> Callable[[Check], Property]: ...
def register_property(name: str, check: Check | None = None) -> Any:
    """Register a property of modules, which passes name in `requires` and `ensures`.

    The check takes `(mod)`, or `(mod, ctx)` to request analyses through the context. It returns True if the module has
    the property. Otherwise it returns False, or a text that says why. Like any analysis, it may be async, and its
    result is kept for all modules with the same contents. A pass that keeps the property lists it in `preserves`, so
    that it is not checked again.

    Parameters:
        name: the name, such as `"anf"`; in a plug-in it starts with the name of its IR, as in `"relay.anf"`.
        check: the function; omitted in a decorator.

    Raises:
        PassRegistrationError: if another function has the name, or the name is not a string.
        PassDefinitionError: if `check` does not have the signature of an analysis.

    >>> @register_property("demo.named")
    ... def Named(mod):
    ...     return "" not in mod or "a function has no name"
    >>> Named
    <analysis demo.named>

    """
    if not isinstance(name, str) or not name:
        raise PassRegistrationError(f"the name of a property must be a string such as 'anf', got {name!r}")

    def register(function: Check) -> Property:
        new = analysis(name=name)(function)
        old = _PROPERTIES.get(name)
        # A module that is reloaded, or a cell that is executed again, defines the same property anew.
        if old is not None and old.key != new.key and definition_in_session(function) is None:
            raise PassRegistrationError(f"the property {name!r} is already registered, with the check {old.function!r}")
        _PROPERTIES[name] = new
        return new

    return register if check is None else register(check)


def list_properties() -> list[str]:
    """Return the names of all registered properties, sorted."""
    import_all(_MODULES)
    return sorted(_PROPERTIES)


def find_property(name: str | Property) -> Property:
    """Return a registered property.

    Raises:
        UnknownPropertyError: if there is none of that name; the message suggests one.

    """
    if isinstance(name, Analysis):
        return name
    if name not in _PROPERTIES:
        # Each step of the iteration imports a plug-in. Stop at the one that registers the name.
        any(name in _PROPERTIES for _ in matching_modules(_MODULES, name))
    if name not in _PROPERTIES:
        near = did_you_mean(name, _PROPERTIES, listing="registered are: ", lister="apass.list_properties()")
        raise UnknownPropertyError(f"unknown property {name!r}{near or '; none is registered'}")
    return _PROPERTIES[name]


def check_property(key: str, value: object) -> tuple[str | Property, ...]:
    """Return the properties that a pass requires or ensures, as a tuple.

    Parameters:
        key: the name of the option, for messages.
        value: a list of names and properties.

    Raises:
        PassDefinitionError: if it is anything else.

    """
    if isinstance(value, str | Analysis) or not isinstance(value, Iterable):
        raise PassDefinitionError(f"{key} must be a list of properties, got {value!r}; write [{value!r}]")
    items = tuple(cast("Iterable[object]", value))
    for item in items:
        if not isinstance(item, str | Analysis):
            raise PassDefinitionError(f"{key} must be a list of properties or their names, got {item!r}")
    return cast("tuple[str | Property, ...]", items)


def names_of(properties: Iterable[str | Property]) -> Iterator[str]:
    """Iterate over the names of properties."""
    return (item if isinstance(item, str) else item.name for item in properties)
