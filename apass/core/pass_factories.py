"""The factories of registered passes, by name.

`apass.passes.registry` adds types and checks. The passes of apass that work on any IR, such as `Repeat`, are entry
points, so that a program imports only those that it uses.
"""

import inspect
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, cast

from apass.errors import (
    ApassError,
    MissingExtraError,
    PassRegistrationError,
    UnknownPassError,
    did_you_mean,
    has_suggestion,
)
from apass.loading.entry_points import Offer, import_all, matching_modules, plugins
from apass.util.interactive import definition_in_session
from apass.util.typed_values import BARE_WORD

__all__ = [
    "Factory",
    "add_alias",
    "add_factory",
    "find_factory",
    "known_names",
    "load_providers",
    "parameters_of",
    "remove_factory",
    "resolve_alias",
    "takes_passes",
]

Factory = Callable[..., Any]
"""Creates a pass from its options."""

_FACTORIES: Final[dict[str, Factory]] = {}

_DEFINITIONS: Final[dict[str, str | None]] = {}
"""What defines each registered pass in a notebook or another interactive session."""

_PROVIDED: Final[dict[str, Factory]] = {}
"""Factories of plug-ins, which a user's pass of the same name overrides."""

_ALIASES: Final[dict[str, tuple[str, Mapping[str, object]]]] = {}
"""Further names of passes of plug-ins, each with the name of the pass and options."""

_REMOVED: Final[set[str]] = set()
"""Names of entry points that the program has unregistered, such as `Repeat`."""

_PASSES: Final = "apass.passes"
_MODULES: Final = "apass.pass_modules"


def add_factory(
    name: str,
    factory: Factory,
    registrant: object = None,
    *,
    provided: bool = False,
) -> None:
    """Register `factory` under `name`.

    A pass provided by a plug-in is overridden by a user's pass of the same name, regardless of import order. A module
    may also register the pass that its package offers under that name as an entry point. A definition of an
    interactive session that is executed again replaces its earlier factory.

    Parameters:
        name: the name.
        factory: the function or class that makes the pass.
        registrant: what was registered, if it is not the factory.
        provided: whether a plug-in provides the pass.

    Raises:
        PassRegistrationError: if the name is taken or is not a word of a pipeline's text, or the factory is unusable.

    """
    if not isinstance(name, str) or not name:
        raise PassRegistrationError(f"the name of a pass must be a non-empty str, got {name!r}")
    if not BARE_WORD.fullmatch(name):
        raise PassRegistrationError(
            f"invalid name of a pass {name!r}; use letters, digits and any of . : / + - _, "
            f"so that it can be written in a pipeline"
        )
    if not callable(factory):
        raise PassRegistrationError(f"the factory of pass {name!r} must be callable, got {factory!r}")
    # Without a check: a plug-in registers hundreds of passes, and a module that is reloaded registers them again.
    if provided:
        _PROVIDED[name] = factory
        return
    source = factory if registrant is None else registrant
    module, definition = getattr(source, "__module__", None), definition_in_session(source)
    is_repeated = definition is not None and _DEFINITIONS.get(name) == definition
    if (name in _FACTORIES and not is_repeated) or _is_offered_elsewhere(name, module):
        raise PassRegistrationError(
            f"a pass named {name!r} is already registered; call unregister_pass({name!r}) first, or choose another name"
        )
    _FACTORIES[name], _DEFINITIONS[name] = factory, definition


def add_alias(alias: str, name: str, **options: object) -> None:
    """Let texts name a pass of a plug-in by a further name.

    An example is the class of a pass in its compiler. The pass has its own name everywhere else.

    Parameters:
        alias: the further name.
        name: the name of the pass.
        options: options that the further name implies.

    """
    _ALIASES[alias] = name, options


def resolve_alias(name: str, allow: Collection[str] | None = None) -> tuple[str, Mapping[str, object]]:
    """Return the name of the pass for an alias, and options; see `find_factory`."""
    if isinstance(name, str) and name not in _FACTORIES and name not in _PROVIDED and name not in _offers():
        _import_provider(name, allow)
        return _ALIASES.get(name, (name, {}))
    return name, {}


def remove_factory(name: str) -> None:
    """Undo `add_factory`; a pass of a plug-in that was overridden is available again.

    Raises:
        UnknownPassError: if no pass is registered under `name`, or a module of a plug-in provides it.

    """
    if name in _FACTORIES:
        del _FACTORIES[name]
    elif name in _offers():
        # An entry point belongs to the installed package, so its removal is only noted.
        _REMOVED.add(name)
    elif name in _PROVIDED:
        raise UnknownPassError(f"the pass {name!r} is provided by a plug-in and cannot be unregistered")
    else:
        raise _unknown(name)


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
    if name in _FACTORIES:
        return _FACTORIES[name]
    if name in _offers():
        return _load(name, _offers()[name])
    if name not in _PROVIDED:
        _import_provider(name, allow)
    if name not in _PROVIDED:
        raise _unknown(name, allow)
    return _PROVIDED[name]


def _import_provider(name: str, allow: Collection[str] | None) -> None:
    """Import plug-ins until one provides a pass."""
    loaded: set[str] = set()
    try:
        for pattern in matching_modules(_MODULES, name):
            loaded.add(pattern)
            if name in _PROVIDED or name in _ALIASES:
                return
    except MissingExtraError as error:
        if any(fnmatchcase(name, pattern) for pattern in plugins(_MODULES).keys() - loaded - {"*"}):
            raise
        # A plug-in that may provide any name need not provide this one.
        unknown = _unknown(name, allow)
        if loaded or has_suggestion(unknown):
            raise unknown from error
        raise UnknownPassError(f"{unknown}; some plug-ins are not installed: {error}") from error


def load_providers() -> None:
    """Register the passes of every plug-in whose libraries are installed."""
    import_all(_MODULES)


def known_names() -> Iterator[str]:
    """Iterate over the sorted names of registered passes and of entry points.

    No entry point is loaded.
    """
    yield from sorted({*_FACTORIES, *_PROVIDED, *_offers()})


def parameters_of(factory: Factory) -> Mapping[str, inspect.Parameter]:
    """Return the named parameters of a factory; if they are unknown, `**options`."""
    # Requirements are looked up for every module, and `inspect.signature` is slow.
    return _cached_parameters(factory) if isinstance(factory, Hashable) else _parameters(factory)


def takes_passes(factory: Factory) -> bool:
    """Return whether a factory makes combinators: it has a parameter `passes`."""
    return "passes" in parameters_of(factory)


def _parameters(factory: Factory) -> Mapping[str, inspect.Parameter]:
    parameters: Mapping[str, inspect.Parameter]
    try:
        parameters = inspect.signature(factory).parameters
    except (ValueError, TypeError):
        return {"options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}
    # Under `from __future__ import annotations` every annotation is a text.
    if any(isinstance(parameter.annotation, str) for parameter in parameters.values()):
        parameters = _evaluated(factory) or parameters
    return {key: item for key, item in parameters.items() if item.kind is not item.VAR_POSITIONAL}


_cached_parameters = lru_cache(maxsize=1024)(_parameters)


def _evaluated(factory: Factory) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(factory, eval_str=True).parameters
    except Exception:  # an annotation may be any expression, and may use names imported under TYPE_CHECKING only
        return None


def _offers() -> Mapping[str, Offer]:
    """Return the passes that are entry points, by name."""
    offers = plugins(_PASSES)
    return {name: offer for name, offer in offers.items() if name not in _REMOVED} if _REMOVED else offers


def _is_offered_elsewhere(name: str, module: str | None) -> bool:
    point = _offers().get(name)
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
        lister = "`apass passes` or list_passes()"
        near = did_you_mean(name, known_names(), listing="registered are: ", lister=lister, has_prefix=True)
    else:
        # A text from an untrusted source. The plug-ins that may provide the name are imported.
        allowed = [known for known in known_names() if any(fnmatchcase(known, pattern) for pattern in allow)]
        near = did_you_mean(name, allowed, listing="allowed are: ", has_prefix=True)
    return UnknownPassError(f"no pass is registered under the name {name!r}{near}")
