"""The registry of passes by name: what requirements, pipelines and the command line look up."""

import copy
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeGuard, TypeVar, cast, overload

from apass.core.info import PassInfo
from apass.core.pass_factories import Factory, add_factory, find_factory, known_names, load_providers, remove_factory
from apass.errors import PassDefinitionError, PassRegistrationError, did_you_mean
from apass.passes.base import Pass
from apass.util.typed_values import BARE_WORD, read

__all__ = [
    "Recipe",
    "find_recipe",
    "get_pass",
    "get_required",
    "list_passes",
    "make_pass",
    "pass_options",
    "provide_pass",
    "register_pass",
    "unregister_pass",
]

RegistrantT = TypeVar("RegistrantT", bound=Callable[..., Any])


@overload
def register_pass(name: str, factory: RegistrantT) -> RegistrantT: ...
@overload
def register_pass(name: str, factory: None = None) -> Callable[[RegistrantT], RegistrantT]: ...
@overload
def register_pass(name: RegistrantT, factory: None = None) -> RegistrantT: ...
def register_pass(name: Any, factory: Any = None) -> Any:
    """Make a pass known by name, in one of three forms.

    - `register_pass("Name", factory)`: `factory(**options)` returns the pass;
    - `@register_pass("Name")` above a factory, a class of passes or a pass;
    - `@register_pass` above one of these: a pass, or a class that has `info`, goes by the name there, anything else by
      its own.

    The parameters of the factory are the pass's options, typed by their annotations. One called `passes` is none: it
    is given the list of passes that the pass is made of, as `Repeat` is; in a pipeline's text, those in parentheses.

    Returns what is registered, so that a decorated thing stays what it was.

    Raises:
        PassRegistrationError: if the name is taken or cannot stand in a pipeline's text, or what is registered makes no
            passes.

    """
    if not isinstance(name, str):
        return register_pass(_own_name(name), name)
    if factory is None:
        return partial(_register, name)
    return _register(name, factory)


def provide_pass(name: str) -> Callable[[RegistrantT], RegistrantT]:
    """Do as `@register_pass(name)` for a pass that comes with apass: it gives way to one that a user registers.

    A pass made by calling the factory knows the name and the options that it was made with, as one by `get_pass` does.
    """

    def provide(factory: RegistrantT) -> RegistrantT:
        return _register(name, cast("RegistrantT", _telling(name, factory)), provided=True)

    return provide


def unregister_pass(name: str) -> None:
    """Undo `register_pass`; UnknownPassError if nothing is registered under `name`."""
    remove_factory(name)


def get_pass(name: str, /, **options: Any) -> Pass[Any]:
    """Return the pass registered under `name`, made with `options`, among them `passes` if it is made of some.

    Raises:
        UnknownPassError: with a suggestion, if there is none of that name.
        PassDefinitionError: if an option is unknown, missing, or of the wrong type.
        PassRegistrationError: if the factory returns no pass.
        MissingExtraError: if the pass needs a library that is not installed.

    """
    passes = options.pop("passes", None)
    return make_pass(name, options, passes)


def get_required(name: str, owner: str) -> Pass[Any]:
    """Return the pass registered under `name`, which the pass `owner` requires; errors as of `get_pass`, and a note."""
    try:
        return get_pass(name)
    except Exception as error:
        error.add_note(f"required by pass {owner!r}")
        raise


def list_passes() -> list[str]:
    """Return the names of all registered passes, sorted.

    Passes of entry points are listed without loading them; the adapters' passes, `onnx.*`, where the library is there.
    """
    load_providers()
    return list(known_names())


def pass_options(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the options of the pass registered under `name`: the parameters of its factory."""
    return find_recipe(name).options


def make_pass(name: str, options: Mapping[str, object], passes: Sequence[Pass[Any]] | None = None) -> Pass[Any]:
    """Return `get_pass(name, **options)`, made of `passes` if that is not None."""
    recipe = find_recipe(name)
    for key in options:
        recipe.check_option(key)
    return recipe.make({key: recipe.read_option(key, value) for key, value in options.items()}, passes)


def find_recipe(name: str) -> "Recipe":
    """Return how the pass registered under `name` is made; errors are those of `find_factory`."""
    factory = _factory_of(find_factory(name))
    # A requirement is looked up for every module, and asking Python for a signature is slow.
    ask = _parameters if isinstance(factory, Hashable) else _parameters.__wrapped__
    return Recipe(name, factory, ask(factory))


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a registered pass is made, step by step, for callers that say where an error belongs.

    Every method raises PassDefinitionError where what it is given does not fit.
    """

    name: str
    """The name that it is registered under."""
    factory: Factory
    """What makes the pass."""
    parameters: Mapping[str, inspect.Parameter]
    """What the factory takes by name."""

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that are options."""
        return {key: one for key, one in self.parameters.items() if key != "passes"}

    def check_option(self, key: str) -> None:
        """Return if there is an option `key`."""
        known = self.options
        if key in known or any(one.kind is one.VAR_KEYWORD for one in known.values()):
            return
        near = did_you_mean(key, known, listing="it takes ") or "; it takes none"
        raise PassDefinitionError(f"pass {self.name!r} has no option {key!r}{near}")

    def read_option(self, key: str, value: object) -> Any:
        """Return `value`, which may be as text has it, as one of the type that the option is declared with."""
        parameter = self.options.get(key)
        tp = Any if parameter is None or parameter.annotation is parameter.empty else parameter.annotation
        try:
            return read(value, tp)
        except TypeError as error:
            raise PassDefinitionError(f"option {key!r} of pass {self.name!r}: {error}") from None

    def check_passes(self, given: bool) -> None:
        """Return if the pass can be made of passes, or without."""
        parameter = self.parameters.get("passes")
        if given and parameter is None:
            raise PassDefinitionError(f"pass {self.name!r} is not made of passes, and takes none")
        if not given and parameter is not None and parameter.default is parameter.empty:
            raise PassDefinitionError(f"pass {self.name!r} is made of passes; write {self.name}(...)")

    def make(self, options: Mapping[str, Any], passes: Sequence[Pass[Any]] | None) -> Pass[Any]:
        """Return the pass with `options`, which have been read, made of `passes` if that is not None."""
        self.check_passes(passes is not None)
        for key, one in self.options.items():
            if one.default is one.empty and one.kind is not one.VAR_KEYWORD and key not in options:
                raise PassDefinitionError(f"pass {self.name!r} needs the option {key!r}")
        made = self.factory(**options, **({} if passes is None else {"passes": passes}))
        if not _is_pass(made):
            raise PassRegistrationError(f"the factory of pass {self.name!r} returned {made!r}, which is no pass")
        return self._named(made, options, tuple(passes or ()))

    def _named(self, made: Pass[Any], options: Mapping[str, Any], passes: tuple[Pass[Any], ...]) -> Pass[Any]:
        """Return `made` as the pass of this name, of `options` and `passes`: what `str()` and `==` go by."""
        same_passes = tuple(made.children()) == passes
        own = made.spec[1] if made.spec is not None and made.spec[0] == self.name else None
        # A combinator leaves the options out that have their usual value.
        if same_passes and own is not None and ("passes" in self.parameters or own == options):
            return made
        if not same_passes or made.spec is not None or self.name != made.info.name:
            # The factory may hand out one object again and again; another name for it is another object.
            made = copy.copy(made)
        object.__setattr__(made, "spec", (self.name, dict(options)))
        if not same_passes:
            # What the factory builds of its passes, or of none, is its own affair.
            object.__setattr__(made, "children", partial(tuple, passes))
        return made


def _register(name: str, registrant: RegistrantT, *, provided: bool = False) -> RegistrantT:
    if name and not BARE_WORD.fullmatch(name):
        raise PassRegistrationError(
            f"a pass cannot be named {name!r}: a pipeline's text could not name it; "
            f"use letters, digits and any of . : / + - _"
        )
    add_factory(name, _factory_of(registrant), getattr(registrant, "__module__", None), provided=provided)
    return registrant


def _telling(name: str, factory: Factory) -> Factory:
    """Return `factory`, which tells the passes that it makes by which name and options they are made again."""
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def make(*args: Any, **options: Any) -> Any:
        made = factory(*args, **options)
        # One that is made of passes goes by these.
        if made.spec is None and not made.children():
            object.__setattr__(made, "spec", (name, dict(signature.bind(*args, **options).arguments)))
        return made

    return make


def _own_name(registrant: Any) -> str:
    info = getattr(registrant, "info", None)
    own = info.name if isinstance(info, PassInfo) else getattr(registrant, "__name__", "<")
    if "<" in own:
        raise PassRegistrationError(
            f'{registrant!r} has no name to be registered under; write register_pass("Name", ...)'
        )
    return own


def _factory_of(registrant: Factory) -> Factory:
    return partial(_itself, registrant) if isinstance(registrant, Pass) else registrant


def _itself(pass_: Factory) -> Factory:
    return pass_


def _is_pass(made: object) -> TypeGuard[Pass[Any]]:
    return isinstance(made, Pass)


@lru_cache(maxsize=1024)
def _parameters(factory: Factory) -> Mapping[str, inspect.Parameter]:
    """Return what a factory takes by name; anything, if Python cannot tell."""
    parameters: Mapping[str, inspect.Parameter]
    try:
        parameters = inspect.signature(factory).parameters
    except (ValueError, TypeError):
        return {"options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}
    if any(isinstance(one.annotation, str) for one in parameters.values()):
        parameters = _evaluated(factory) or parameters
    return {key: one for key, one in parameters.items() if one.kind is not one.VAR_POSITIONAL}


def _evaluated(factory: Factory) -> Mapping[str, inspect.Parameter] | None:
    try:
        return inspect.signature(factory, eval_str=True).parameters
    except Exception:  # an annotation is any expression, and may name what is imported for type checkers alone
        return None
