"""The table of registered pass factories by name; read by `PassContext` for suggestions, written through `registry`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, cast

from apass.errors import ApassError, MissingExtraError, PassRegistrationError, UnknownPassError, did_you_mean

__all__ = ["Factory", "add_factory", "find_factory", "known_names", "load_providers", "remove_factory"]

Factory = Callable[..., Any]
"""Makes a pass from its options."""

_FACTORIES: Final[dict[str, Factory]] = {}

_OWN: Final[dict[str, Factory]] = {}
"""Factories of apass's own, which give way to a user's."""

PROVIDERS: Final[Mapping[str, str]] = {"onnx.": "apass.adapters.onnx.passes", "": "apass.relay.transform"}
"""Modules of apass that register passes when they are imported, by the prefix of those passes' names."""


def add_factory(name: str, factory: Factory, module: str | None = None, *, provided: bool = False) -> None:
    """Register `factory`, which `module` defines, under `name`.

    One that a module of `PROVIDERS` provides gives way to any other of its name, whichever comes first: what a user
    may register does not depend on what happens to be imported. A module may register what its distribution offers
    under that name as an entry point, too.

    Raises:
        PassRegistrationError: if the name is taken, or one of the two is unusable.

    """
    if not isinstance(name, str) or not name:
        raise PassRegistrationError(f"a pass is registered under a name, not {name!r}")
    if not callable(factory):
        raise PassRegistrationError(f"the factory of pass {name!r} must be callable, not {factory!r}")
    if provided:
        _OWN[name] = factory
        return
    if name in _FACTORIES or _is_offered_elsewhere(name, module):
        raise PassRegistrationError(
            f"a pass named {name!r} is already registered; call unregister_pass({name!r}) first, or choose another name"
        )
    _FACTORIES[name] = factory


def remove_factory(name: str) -> None:
    """Undo `add_factory`; one of apass's own that had given way is there again.

    Raises:
        UnknownPassError: if nothing is registered under `name`, or it is apass's own.

    """
    if name not in _FACTORIES:
        raise UnknownPassError(f"the pass {name!r} is apass's own, and stays") if name in _OWN else _unknown(name)
    del _FACTORIES[name]


def find_factory(name: str) -> Factory:
    """Return the factory registered under `name`, loading the entry point or the module that provides it.

    Raises:
        UnknownPassError: with a suggestion, if there is none.
        MissingExtraError: if the module that provides it needs a library that is not installed.
        PassRegistrationError: if it is an entry point that cannot be loaded.

    """
    if not isinstance(name, str):
        raise UnknownPassError(f"a pass is registered under a name, and {name!r} is none")
    if name in _FACTORIES:
        return _FACTORIES[name]
    if name in _entry_points():
        return _load(_entry_points()[name])
    for module in (module for prefix, module in PROVIDERS.items() if name.startswith(prefix)):
        if name not in _OWN:
            import_module(module)
    if name not in _OWN:
        raise _unknown(name)
    return _OWN[name]


def load_providers() -> None:
    """Register the passes of every module of apass whose library is installed."""
    for module in PROVIDERS.values():
        with suppress(MissingExtraError):
            import_module(module)


def known_names() -> Iterator[str]:
    """Go over the names registered so far, sorted, and those of entry points, which need not be loaded for it."""
    yield from sorted({*_FACTORIES, *_OWN, *_entry_points()})


@cache
def _entry_points() -> Mapping[str, EntryPoint]:
    return {point.name: point for point in entry_points(group="apass.passes.base")}


def _is_offered_elsewhere(name: str, module: str | None) -> bool:
    point = _entry_points().get(name)
    return point is not None and point.module != module


def _load(point: EntryPoint) -> Factory:
    try:
        return cast("Factory", point.load())
    except ApassError:
        raise
    except Exception as error:  # it imports a module of somebody else
        raise PassRegistrationError(
            f"pass {point.name!r} cannot be loaded from the entry point {point.value!r}: "
            f"{type(error).__name__}: {error}; mend or uninstall the distribution that declares it"
        ) from error


def _unknown(name: str) -> UnknownPassError:
    load_providers()  # what is suggested must not depend on what happens to be imported
    near = did_you_mean(name, known_names(), listing="registered are: ")
    return UnknownPassError(f"no pass is registered under the name {name!r}{near}")
