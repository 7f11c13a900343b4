"""The registry of callables that a pipeline's text may name.

Examples are the predicate of an `If` and the key of a `Race`. A text names registered objects only: reading it imports
no module by name.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar, overload

from apass.errors import MissingExtraError, PassRegistrationError, UnknownCallableError, did_you_mean
from apass.loading.entry_points import import_all, matching_modules
from apass.util.interactive import definition_in_session
from apass.util.typed_values import is_plain_word, write

__all__ = ["callable_name", "find_callable", "list_callables", "register_callable", "unregister_callable", "value_text"]

CallableT = TypeVar("CallableT", bound=Callable[..., Any])

_CALLABLES: Final[dict[str, Callable[..., Any]]] = {}

_DEFINITIONS: Final[dict[str, str | None]] = {}
"""What defines each callable in a notebook or another interactive session."""

_MODULES: Final = "apass.pass_modules"
"""Plug-ins that register passes may register callables too."""


@overload
def register_callable(name: str, function: CallableT) -> CallableT: ...
@overload
def register_callable(name: str, function: None = None) -> Callable[[CallableT], CallableT]: ...
@overload
def register_callable(name: CallableT, function: None = None) -> CallableT: ...
def register_callable(name: Any, function: Any = None) -> Any:
    """Register a callable by name, so that a pipeline's text may use it as an option.

    There are three forms:

    - `register_callable("name", function)`;
    - `@register_callable("name")` above a function or a class;
    - `@register_callable` above one. The name is its `__name__`.

    Returns the registered object, so a decorated object is unchanged. In a notebook or at a prompt, a definition that
    is executed again replaces the earlier one.

    Raises:
        PassRegistrationError: if the name is already registered or is not a plain word, or the object is not callable.

    >>> @register_callable("demo.is_large")
    ... def is_large(mod):
    ...     return len(mod) > 1
    >>> callable_name(is_large)
    'demo.is_large'
    >>> unregister_callable("demo.is_large")

    """
    if not isinstance(name, str):
        return _register(getattr(name, "__name__", repr(name)), name)
    return partial(_register, name) if function is None else _register(name, function)


def unregister_callable(name: str) -> None:
    """Remove a registered callable.

    Raises:
        UnknownCallableError: if none is registered under `name`.

    """
    if name not in _CALLABLES:
        raise _unknown(name)
    del _CALLABLES[name]


def list_callables() -> list[str]:
    """Return the names of all registered callables, sorted."""
    import_all(_MODULES)
    return sorted(_CALLABLES)


def find_callable(name: str) -> Callable[..., Any]:
    """Return the callable registered under `name`; import the plug-in that has it.

    Raises:
        UnknownCallableError: with a suggestion, if the name is unknown.

    """
    if name not in _CALLABLES:
        try:
            for _ in matching_modules(_MODULES, name):
                if name in _CALLABLES:
                    break
        except MissingExtraError as error:
            raise _unknown(name) from error
    if name not in _CALLABLES:
        raise _unknown(name)
    return _CALLABLES[name]


def callable_name(value: object) -> str | None:
    """Return the name under which `value` is registered, or None."""
    # By equality, because each access to a method creates another object.
    return next((name for name, item in _CALLABLES.items() if item is value or item == value), None)


def value_text(value: object) -> str:
    """Return the text of an option's value; a callable is written by its name.

    A string that is the name of a callable is in quotes.

    Raises:
        TypeError: if the value has no text, such as a callable without a name.

    >>> value_text([1, "plain", "two words"])
    '[1,plain,"two words"]'

    """
    return write(value, callable_name, _CALLABLES.__contains__)


def _register(name: str, function: CallableT) -> CallableT:
    if not callable(function):
        raise PassRegistrationError(f"register_callable takes something callable as {name!r}, got {function!r}")
    if not is_plain_word(name):
        raise PassRegistrationError(
            f"invalid name of a callable {name!r}; begin with a letter, and use letters, digits and any of . / - _, "
            f"so that it can be written in a pipeline"
        )
    definition = definition_in_session(function)
    is_repeated = definition is not None and _DEFINITIONS.get(name) == definition
    if name in _CALLABLES and not is_repeated:
        raise PassRegistrationError(
            f"a callable named {name!r} is already registered; call unregister_callable({name!r}) first, "
            f"or choose another name"
        )
    _CALLABLES[name], _DEFINITIONS[name] = function, definition
    return function


def _unknown(name: str) -> UnknownCallableError:
    names = list_callables()
    near = did_you_mean(name, names, listing="registered are: ", lister="list_callables()")
    return UnknownCallableError(
        f"no callable is registered under the name {name!r}{near or '; register it with apass.register_callable'}"
    )
