"""The registry of passes by name, used by requirements, pipelines and the CLI."""

import copy
import functools
import inspect
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from typing import Any, Final, TypeGuard, TypeVar, cast, overload

from apass.concurrency.run_locals import RunLocal
from apass.core.named_callables import find_callable
from apass.core.pass_factories import (
    Factory,
    add_factory,
    find_factory,
    known_names,
    load_providers,
    parameters_of,
    remove_factory,
    resolve_alias,
    takes_passes,
)
from apass.core.pass_info import PassInfo
from apass.core.pipeline_extensions import all_extensions, is_extended
from apass.errors import PassDefinitionError, PassRegistrationError, did_you_mean
from apass.passes.base import Pass
from apass.util.typed_values import read

__all__ = [
    "Recipe",
    "find_recipe",
    "get_pass",
    "get_required",
    "list_passes",
    "make_pass",
    "pass_documentation",
    "pass_options",
    "provide_pass",
    "register_pass",
    "unregister_pass",
    "without_extensions",
]

RegistrantT = TypeVar("RegistrantT", bound=Callable[..., Any])

EXTENSIONS: Final = "extensions"
"""The option of every registered pipeline: whether extensions add passes to it."""

_VAR_KEYWORD: Final = inspect.Parameter.VAR_KEYWORD

_EXTENDS: Final[RunLocal[bool]] = RunLocal("extends", True)
"""Whether extensions apply to the pipelines that are created."""


@overload
def register_pass(name: RegistrantT, factory: None = None) -> RegistrantT: ...
@overload
def register_pass(name: str, factory: RegistrantT) -> RegistrantT: ...
@overload
def register_pass(name: str, factory: None = None) -> Callable[[RegistrantT], RegistrantT]: ...
def register_pass(name: Any, factory: Any = None) -> Any:
    """Register a pass by name, in one of three forms.

    - `register_pass("Name", factory)`: `factory(**options)` returns the pass.
    - `@register_pass("Name")` above a factory, a class of passes or a pass.
    - `@register_pass` above one of these. The name is that in `info`, if there is one, else the `__name__`.

    The parameters of the factory are the options of the pass, and their annotations are the types. A parameter called
    `passes` is not an option: it receives the list of contained passes, as in `Repeat`. In a pipeline's text, these are
    written in parentheses.

    Returns the registered object, so a decorated object stays what it is. A pass or a class of passes remembers the
    name: `disabled_pass`, `required_pass` and instruments select the pass by it, and by the name in `info`. A pass that
    a pipeline's text or `get_pass` names has the registered name in `info`, as errors and reports show it.

    In a notebook or at a prompt, a definition that is executed again replaces the earlier one.

    Raises:
        PassRegistrationError: if the name is already registered or is not a valid word of a pipeline's text, or if the
            object cannot make passes.

    """
    if not isinstance(name, str):
        return register_pass(_own_name(name), name)
    if factory is None:
        return partial(_register, name)
    return _register(name, factory)


def provide_pass(
    name: str,
    *,
    options: Iterable[inspect.Parameter] | Callable[[], Iterable[inspect.Parameter]] | None = None,
    doc: str | Callable[[], str] | None = None,
) -> Callable[[RegistrantT], RegistrantT]:
    """Register a pass that is part of apass, or of a plug-in.

    A user's pass of the same name overrides it, regardless of import order. A pass that is made by a direct call of the
    factory has a `spec` and the passes of extensions, as one made by `get_pass` does.

    Parameters:
        name: the name of the pass.
        options: the options of the pass, if the factory takes `**options`; by default its parameters. A function that
            returns them is called when they are first needed, so that a library need not be imported before.
        doc: the documentation of the pass; by default the docstring of the factory. It may be a function as well.

    """

    def provide(factory: RegistrantT) -> RegistrantT:
        made = _with_spec(name, factory, options, doc)
        _register(name, made, provided=True)

        @functools.wraps(made)
        def extended(*args: Any, **options: Any) -> Any:
            return Recipe(name, made, {}).with_extensions(made(*args, **options))

        return cast("RegistrantT", extended)

    return provide


def unregister_pass(name: str) -> None:
    """Remove a registered pass.

    Raises:
        UnknownPassError: if no pass is registered under `name`.

    """
    remove_factory(name)


def get_pass(name: str, /, **options: Any) -> Pass[Any]:
    """Return the pass registered under `name`, created with `options`.

    The option `passes` is the list of contained passes, if the pass takes any.

    Raises:
        UnknownPassError: if no pass has this name; the message suggests one.
        PassDefinitionError: if an option is unknown, missing, or of the wrong type.
        PassRegistrationError: if the factory does not return a pass.
        MissingExtraError: if the pass requires a library that is not installed.

    """
    passes = options.pop("passes", None)
    return make_pass(name, options, passes)


def get_required(name: str, owner: str) -> Pass[Any]:
    """Return the pass `name`, which the pass `owner` requires.

    Errors are the same as of `get_pass`, with a note.
    """
    try:
        return get_pass(name)
    except Exception as error:
        error.add_note(f"required by pass {owner!r}")
        raise


def list_passes() -> list[str]:
    """Return the names of all registered passes, sorted.

    Passes of entry points are listed without loading them. Passes of an adapter, such as `onnx.*`, are listed if its
    library is installed.
    """
    load_providers()
    return list(known_names())


def pass_options(name: str) -> Mapping[str, inspect.Parameter]:
    """Return the options of a registered pass: the parameters of its factory."""
    return find_recipe(name).options


def pass_documentation(name: str) -> str:
    """Return the docstring of a registered pass; "" if it has none.

    A docstring that the class inherits describes another pass, and is left out.
    """
    factory = _innermost(find_factory(resolve_alias(name)[0]))
    doc = factory.documentation if isinstance(factory, _DescribedFactory) else factory.__doc__
    return inspect.cleandoc(doc or "")


def make_pass(name: str, options: Mapping[str, object], passes: Sequence[Pass[Any]] | None = None) -> Pass[Any]:
    """Return `get_pass(name, **options)`, containing `passes` if not None."""
    recipe = find_recipe(name)
    for key in options:
        recipe.check_option(key)
    return recipe.make({key: recipe.read_option(key, value) for key, value in options.items()}, passes)


@contextmanager
def without_extensions() -> Generator[None]:
    """Create pipelines without their extensions in the block.

    A pipeline from another process is recorded with the passes that were added there.
    """
    with _EXTENDS.set_to(False):
        yield


def find_recipe(name: str, allow: Collection[str] | None = None) -> "Recipe":
    """Return the recipe of a registered pass; see `find_factory`."""
    name, preset = resolve_alias(name, allow)
    factory = _factory_of(find_factory(name, allow))
    return Recipe(name, factory, parameters_of(factory), preset)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The construction of a registered pass in separate steps.

    For example, `recipe.make({"times": recipe.read_option("times", "3")}, passes)` makes the `Repeat` of a text.

    Callers that report where an error is, such as the pipeline parser, call the steps themselves. Every method raises
    PassDefinitionError if its argument is invalid.
    """

    name: str
    """The registered name."""
    factory: Factory
    """The function that creates the pass."""
    parameters: Mapping[str, inspect.Parameter]
    """The named parameters of the factory."""
    preset: Mapping[str, object] = field(default_factory=dict[str, object])
    """Options that an alias implies, such as the level of `llvm.O2`."""

    @property
    def options(self) -> Mapping[str, inspect.Parameter]:
        """The parameters that are options."""
        return {key: parameter for key, parameter in self.parameters.items() if key != "passes"}

    def check_option(self, key: str) -> None:
        """Raise PassDefinitionError if there is no option `key`."""
        options = self.options
        if key == EXTENSIONS and self._has_choice:
            return  # `make` knows whether it is a pipeline
        if key in options or any(parameter.kind is parameter.VAR_KEYWORD for parameter in options.values()):
            return
        near = did_you_mean(key, options, listing="it takes ") or "; it takes none"
        raise PassDefinitionError(f"pass {self.name!r} has no option {key!r}{near}")

    def read_option(self, key: str, value: object, find: Callable[[str], object] = find_callable) -> Any:
        """Return `value`, which may be parsed text, converted to the type of the option.

        `find` returns the callable that a word of the text names, or raises LookupError.
        """
        parameter = self.options.get(key)
        tp = Any if parameter is None or parameter.annotation is parameter.empty else parameter.annotation
        if key == EXTENSIONS and self._has_choice:
            tp = bool
        try:
            return read(value, tp, find)
        except TypeError as error:
            raise PassDefinitionError(f"option {key!r} of pass {self.name!r}: {error}") from None

    def check_passes(self, has_passes: bool) -> None:
        """Raise PassDefinitionError if contained passes are given or missing by mistake."""
        parameter = self.parameters.get("passes")
        if has_passes and parameter is None:
            raise PassDefinitionError(f"pass {self.name!r} does not contain passes; write it without parentheses")
        if not has_passes and parameter is not None and parameter.default is parameter.empty:
            raise PassDefinitionError(f"pass {self.name!r} contains passes; write {self.name}(...)")

    def make(self, options: Mapping[str, Any], passes: Sequence[Pass[Any]] | None) -> Pass[Any]:
        """Return the pass with `options`, already converted, and the contained `passes`."""
        self.check_passes(passes is not None)
        options = {**self.preset, **options}
        for key, parameter in self.options.items():
            is_required = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
            if is_required and key not in options:
                raise PassDefinitionError(f"pass {self.name!r} needs the option {key!r}")
        choice = options.get(EXTENSIONS) if self._has_choice else None
        own = options if choice is None else {key: value for key, value in options.items() if key != EXTENSIONS}
        with without_extensions() if choice is False else nullcontext():
            result = self.factory(**own, **({} if passes is None else {"passes": passes}))
        if not _is_pass(result):
            raise PassRegistrationError(f"the factory of pass {self.name!r} returned {result!r}, which is not a pass")
        if choice is not None and not _is_pipeline(result):
            raise PassDefinitionError(f"pass {self.name!r} has no option {EXTENSIONS!r}; it is not a pipeline")
        if "passes" not in self.parameters:
            extended = result if choice is False else self.with_extensions(result)
            if _contains_added(extended):
                return extended
        return self._named(result, own if choice else options, tuple(passes or ()))

    def with_extensions(self, result: Pass[Any]) -> Pass[Any]:
        """Return the pipeline that the factory created, with the passes of its extensions."""
        extended = result
        if _EXTENDS.get() and (_is_pipeline(result) or is_extended(self.name)):
            origins = all_extensions()
            extended = origins[0].extension.extend(self.name, result) if origins else result
        if not _contains_added(extended):
            return result
        # Without the name as its text: journals and workers must not depend on the registered extensions.
        pass_ = copy.copy(extended)
        _give_name(pass_, self.name)
        return pass_

    @property
    def _has_choice(self) -> bool:
        """Whether the option `extensions` is not one of the factory itself."""
        kinds = [parameter.kind for parameter in self.parameters.values()]
        return "passes" not in self.parameters and EXTENSIONS not in self.parameters and _VAR_KEYWORD not in kinds

    def _named(self, pass_: Pass[Any], options: Mapping[str, Any], passes: tuple[Pass[Any], ...]) -> Pass[Any]:
        """Return `pass_` with a `spec` and children that `str()` and `==` use."""
        has_same_passes = tuple(pass_.children()) == passes
        spec_options = pass_.spec[1] if pass_.spec is not None and pass_.spec[0] == self.name else None
        # The `spec` of a combinator, or of a class with fields, lacks the options that have their default value.
        lacks_defaults = "passes" in self.parameters or is_dataclass(pass_)
        if has_same_passes and spec_options is not None and (lacks_defaults or spec_options == options):
            # A provided pass has TVM's name, and an object of a registered class the name of its class.
            if "passes" not in self.parameters and "registered_name" not in vars(pass_):
                pass_ = copy.copy(pass_)
                _give_name(pass_, self.name)
            return pass_
        if not has_same_passes or pass_.spec is not None or self.name != pass_.info.name:
            # The factory may return the same object each time; do not change it for another name.
            pass_ = copy.copy(pass_)
        object.__setattr__(pass_, "spec", (self.name, dict(options)))
        if "passes" not in self.parameters:
            _give_name(pass_, self.name)
        if not has_same_passes:
            # The factory may wrap the contained passes, but the text must show the ones that were written.
            object.__setattr__(pass_, "children", partial(tuple, passes))
        return pass_


def _register(name: str, registrant: RegistrantT, *, provided: bool = False) -> RegistrantT:
    add_factory(name, _factory_of(registrant), registrant, provided=provided)
    if _is_pass(registrant):
        if vars(registrant).get("registered_name") is None:
            object.__setattr__(registrant, "registered_name", name)
    # A combinator has a name of its own: disabling `Repeat` must not disable every Repeat.
    elif _is_pass_class(registrant) and not takes_passes(registrant):
        registrant.registered_name = name
    return registrant


def _give_name(pass_: Pass[Any], name: str) -> None:
    """Set the registered name of a pass, which becomes the name in `info`.

    The pass is private: another user of a registered object keeps its own name.
    """
    if pass_.info.name != name and not isinstance(inspect.getattr_static(type(pass_), "info", None), property):
        object.__setattr__(pass_, "declared_name", pass_.all_names[0])
        object.__setattr__(pass_, "info", replace(pass_.info, name=name))
    object.__setattr__(pass_, "registered_name", name)


def _with_spec(
    name: str,
    factory: Factory,
    options: Iterable[inspect.Parameter] | Callable[[], Iterable[inspect.Parameter]] | None,
    doc: str | Callable[[], str] | None,
) -> Factory:
    """Return a wrapper of `factory` that sets the `spec` of the passes it creates."""
    if options is not None or doc is not None:
        return _DescribedFactory(name, factory, options, doc)
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def make(*args: Any, **options: Any) -> Any:
        return _set_spec(name, factory(*args, **options), signature.bind(*args, **options))

    return make


def _set_spec(name: str, pass_: Any, arguments: inspect.BoundArguments) -> Any:
    # A pass with children is identified by these.
    if pass_.spec is None and not pass_.children():
        object.__setattr__(pass_, "spec", (name, dict(arguments.arguments)))
        object.__setattr__(pass_, "registered_name", name)
    return pass_


class _DescribedFactory:
    """A factory with options and documentation that are computed on demand."""

    def __init__(
        self,
        name: str,
        factory: Factory,
        options: Iterable[inspect.Parameter] | Callable[[], Iterable[inspect.Parameter]] | None,
        doc: str | Callable[[], str] | None,
    ) -> None:
        self.__name__ = self.__qualname__ = name.rpartition(".")[2]
        self.__module__ = _innermost(factory).__module__
        self._name = name
        self._factory = factory
        self._options = options
        self._doc = doc

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _set_spec(self._name, self._factory(*args, **options), self.__signature__.bind(*args, **options))

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        if self._options is None:
            return inspect.signature(self._factory)
        options = self._options() if callable(self._options) else self._options
        return inspect.Signature([option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options])

    @property
    def documentation(self) -> str | None:
        """The documentation of the pass."""
        return self._doc() if callable(self._doc) else self._doc or self._factory.__doc__


def _innermost(factory: Factory) -> Factory:
    """Return what a partial application calls, unless it has documentation of its own."""
    found: Any = factory
    while isinstance(found, partial) and "__doc__" not in vars(found):
        found = cast("Any", found).func
    return cast("Factory", found)


def _own_name(registrant: Any) -> str:
    info = getattr(registrant, "info", None)
    name = info.name if isinstance(info, PassInfo) else getattr(registrant, "__name__", "<")
    # The `__name__` of a lambda is "<lambda>".
    if "<" in name:
        raise PassRegistrationError(f'{registrant!r} has no usable name; write register_pass("Name", ...)')
    return name


def _factory_of(registrant: Factory) -> Factory:
    if not isinstance(registrant, Pass):
        return registrant
    factory = partial(_identity, registrant)
    # Otherwise the documentation would come from `functools.partial`.
    factory.__doc__ = registrant.__doc__
    return factory


def _identity(pass_: Factory) -> Factory:
    return pass_


def _is_pass_class(value: object) -> TypeGuard[type[Pass[Any]]]:
    return isinstance(value, type) and issubclass(value, Pass)


def _is_pipeline(pass_: Pass[Any]) -> bool:
    kind: Any = find_factory("Sequential") if hasattr(pass_, "passes") else ()
    return isinstance(pass_, kind)


def _contains_added(pass_: Pass[Any]) -> bool:
    """Return whether extensions added passes to a pipeline or to one inside of it."""
    return bool(getattr(pass_, "added_by", ())) or any(map(_contains_added, pass_.children()))


def _is_pass(value: object) -> TypeGuard[Pass[Any]]:
    return isinstance(value, Pass)
