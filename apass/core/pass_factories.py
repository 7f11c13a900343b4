"""The factories of registered passes, by name.

`apass.passes.registry` adds types and checks.
"""

from collections.abc import Callable, Collection, Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any, Final, cast

from apass.core.plugins import Offer, import_all, matching_modules, plugins
from apass.errors import ApassError, MissingExtraError, PassRegistrationError, UnknownPassError, did_you_mean

__all__ = ["Factory", "add_factory", "find_factory", "known_names", "load_providers", "remove_factory"]

Factory = Callable[..., Any]
"""Creates a pass from its options."""

_FACTORIES: Final[dict[str, Factory]] = {}

_DEFINITIONS: Final[dict[str, str | None]] = {}
"""What defines each registered pass in a notebook or another interactive session."""

_PROVIDED: Final[dict[str, Factory]] = {}
"""Factories of plug-ins, which a user's pass of the same name overrides."""

_UNLOADED: Final[dict[str, str]] = {
    "First": "apass.passes.first",
    "If": "apass.passes.conditional",
    "MinimumPoint": "apass.passes.minimum_point",
    "PrintIR": "apass.passes.print_ir",
    "Race": "apass.passes.race",
    "Repeat": "apass.passes.repeat",
    "Sequential": "apass.passes.sequential",
    "While": "apass.passes.while_",
}
"""The modules that register the package's own passes, each until it is imported.

A program that does not use a pass does not import it.
"""

_PASSES: Final = "apass.passes"
_MODULES: Final = "apass.pass_modules"


def add_factory(
    name: str,
    factory: Factory,
    module: str | None = None,
    *,
    provided: bool = False,
    definition: str | None = None,
) -> None:
    """Register `factory`, which `module` defines, under `name`.

    A pass provided by a plug-in is overridden by a user's pass of the same name, regardless of import order. A module
    may also register the pass that its package offers under that name as an entry point. A `definition` of an
    interactive session (see `definition_in_session`) that is executed again replaces its earlier factory.

    Raises:
        PassRegistrationError: if the name is taken, or one of the two is unusable.

    """
    if not isinstance(name, str) or not name:
        raise PassRegistrationError(f"the name of a pass must be a non-empty str, got {name!r}")
    if not callable(factory):
        raise PassRegistrationError(f"the factory of pass {name!r} must be callable, not {factory!r}")
    if provided:
        _PROVIDED[name] = factory
        return
    is_repeated = definition is not None and _DEFINITIONS.get(name) == definition
    if (name in _FACTORIES and not is_repeated) or _is_offered_elsewhere(name, module):
        raise PassRegistrationError(
            f"a pass named {name!r} is already registered; call unregister_pass({name!r}) first, or choose another name"
        )
    _FACTORIES[name], _DEFINITIONS[name] = factory, definition
    _UNLOADED.pop(name, None)


def remove_factory(name: str) -> None:
    """Undo `add_factory`; a pass of a plug-in that was overridden is available again.

    Raises:
        UnknownPassError: if no pass is registered under `name`, or a plug-in provides it.

    """
    _load_own(name)
    if name not in _FACTORIES:
        if name in _PROVIDED:
            raise UnknownPassError(f"the pass {name!r} is provided by a plug-in and cannot be unregistered")
        raise _unknown(name)
    del _FACTORIES[name]


def find_factory(name: str, allow: Collection[str] | None = None) -> Factory:
    """Return the factory registered under `name`; import the plug-in that provides it.

    Parameters:
        name: the name.
        allow: patterns of the names that an error may suggest. None suggests any name, and imports all plug-ins for it.

    Raises:
        UnknownPassError: with a suggestion, if the name is unknown.
        MissingExtraError: if the module that provides it needs a library that is not installed.
        PassRegistrationError: if its entry point cannot be loaded.

    """
    if not isinstance(name, str):
        raise UnknownPassError(f"the name of a pass must be a str, got {name!r}")
    _load_own(name)
    if name in _FACTORIES:
        return _FACTORIES[name]
    if name in plugins(_PASSES):
        return _load(name, plugins(_PASSES)[name])
    if name not in _PROVIDED:
        loaded: set[str] = set()
        try:
            for pattern in matching_modules(_MODULES, name):
                loaded.add(pattern)
                if name in _PROVIDED:
                    break
        except MissingExtraError as error:
            if any(fnmatchcase(name, pattern) for pattern in plugins(_MODULES).keys() - loaded - {"*"}):
                raise
            # A plug-in that may provide any name need not provide this one.
            hint = "" if loaded else f"; some plug-ins are not installed: {error}"
            raise UnknownPassError(f"{_unknown(name, allow)}{hint}") from error
    if name not in _PROVIDED:
        raise _unknown(name, allow)
    return _PROVIDED[name]


def load_providers() -> None:
    """Register the passes of every plug-in whose libraries are installed."""
    import_all(_MODULES)


def known_names() -> Iterator[str]:
    """Iterate over the sorted names of registered passes and of entry points.

    No entry point is loaded.
    """
    yield from sorted({*_FACTORIES, *_UNLOADED, *_PROVIDED, *plugins(_PASSES)})


def _load_own(name: str) -> None:
    """Import the module of an own pass that is not loaded."""
    module = _UNLOADED.get(name)
    if module is not None:
        import_module(module)


def _is_offered_elsewhere(name: str, module: str | None) -> bool:
    own = _UNLOADED.get(name)
    if own is not None:
        return own != module
    point = plugins(_PASSES).get(name)
    return point is not None and point.module != module


def _load(name: str, offer: Offer) -> Factory:
    try:
        return cast("Factory", offer.point.load())
    except ApassError:
        raise
    except (Exception, SystemExit) as error:  # the module of a third party raised it
        raise PassRegistrationError(
            f"pass {name!r} cannot be loaded from the entry point {offer.value!r}: "
            f"{type(error).__name__}: {error}; fix or uninstall the package that declares it"
        ) from error


def _unknown(name: str, allow: Collection[str] | None = None) -> UnknownPassError:
    if allow is None:
        load_providers()  # suggestions must not depend on which modules are imported
        near = did_you_mean(name, known_names(), listing="registered are: ", lister="`apass passes` or list_passes()")
    else:
        # A text from an untrusted source. The plug-ins that may provide the name are imported.
        allowed = [known for known in known_names() if any(fnmatchcase(known, pattern) for pattern in allow)]
        near = did_you_mean(name, allowed, listing="allowed are: ")
    return UnknownPassError(f"no pass is registered under the name {name!r}{near}")
