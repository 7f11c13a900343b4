"""Config options: registered with a type, set by `PassContext(config=...)`."""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar, overload

from apass.errors import ConfigTypeError, MissingExtraError, PassRegistrationError, UnknownConfigError, did_you_mean
from apass.loading.entry_points import import_all, matching_modules
from apass.util.interactive import definition_in_session
from apass.util.typed_values import convert, type_name

__all__ = [
    "Config",
    "ConfigKey",
    "ConfigOption",
    "ConfigValues",
    "adopt_option",
    "config_key",
    "find_option",
    "list_configs",
    "provide_config_option",
    "register_config_option",
]


T = TypeVar("T")
D = TypeVar("D")
ValueT_co = TypeVar("ValueT_co", covariant=True)

_FIELDS: Final = attrgetter("key", "type", "default", "doc")


@dataclass(frozen=True, slots=True, repr=False)
class ConfigOption(Generic[ValueT_co]):
    """A registered option, which replaces its key wherever a key is expected.

    A type checker knows the type of `ctx.config[option]`. Everything that is stored or printed has the key alone.
    """

    key: str
    """The name: the pass, a dot, and a word, as in `relay.FuseOps.max_depth`."""
    type: Any
    """The type of its values: a class, a union, a `Literal`, a list of these, `Any`."""
    default: ValueT_co
    """The value in a context that sets none."""
    doc: str = ""
    """One line for `list_configs` and the command line."""

    # Written out, because mypy takes `option in config` for a mistake if the class has no `__eq__` of its own.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _FIELDS(other) == _FIELDS(self)

    def __hash__(self) -> int:
        # A default may be a list.
        return hash(self.key)

    def __repr__(self) -> str:
        doc = f", doc={self.doc!r}" if self.doc else ""
        return f"ConfigOption({self.key!r}, {type_name(self.type)}, default={self.default!r}{doc})"


ConfigKey: TypeAlias = str | ConfigOption[Any]
"""The key of an option, or the option itself."""


class ConfigValues(Protocol):
    """A mapping of values by option or by key."""

    # The keys of a `Mapping` are invariant, so that no type of it admits both `dict[str, int]` and mixed keys.
    def items(self) -> Iterable[tuple[ConfigKey, object]]:
        """Return the keys or options with their values."""
        ...


_OPTIONS: Final[dict[str, ConfigOption[Any]]] = {}

_NO_TYPES: Final = (str, bytes, int, float, list, tuple, dict, set)
"""Types of values that may be passed as a type by mistake."""

_MUTABLE: Final = (list, dict, set)

_PROVIDED: Final[set[str]] = set()
"""Keys of options that plug-ins provide, and whose default a user may replace."""

_OF_SESSION: Final[set[str]] = set()
"""Keys of options that a notebook or another interactive session registered, and may register again."""

_MODULES: Final = "apass.config_modules"


@overload
def register_config_option(key: str, type: type[T], default: None = None, doc: str = "") -> ConfigOption[T | None]: ...
@overload
def register_config_option(key: str, type: type[T], default: T, doc: str = "") -> ConfigOption[T]: ...
@overload
def register_config_option(key: str, type: Any, default: Any = None, doc: str = "") -> ConfigOption[Any]: ...
def register_config_option(key: str, type: Any, default: Any = None, doc: str = "") -> ConfigOption[Any]:  # noqa: A002
    """Register a config option for `PassContext(config=...)`, and return it.

    `ctx.config[option]` is its value, and `PassContext(config={option: value})` sets it. The key does as well, but
    then a type checker does not know the type of the value. With a class as `type`, the value has this type. If there
    is no default, it may be None. With any other type, such as `int | str`, the value is Any.

    Registering the same option again has no effect, so that a module may be reloaded. In a notebook or at a prompt, a
    later registration replaces an earlier one of the session. Source: TVM's `TVM_REGISTER_PASS_CONFIG_OPTION`.

    Raises:
        PassRegistrationError: if the key has another type or default already, if it is not a string, or if `type` is
            not a type.
        ConfigTypeError: if `default` is neither None nor of that type.

    >>> DEPTH = register_config_option("demo.Unroll.depth", int, default=8)
    >>> DEPTH
    ConfigOption('demo.Unroll.depth', int, default=8)
    >>> Config({DEPTH: 3})[DEPTH]
    3

    """
    return _register(key, type, default, doc, provided=False)


@overload
def provide_config_option(key: str, type: type[T], default: None = None, doc: str = "") -> ConfigOption[T | None]: ...
@overload
def provide_config_option(key: str, type: type[T], default: T, doc: str = "") -> ConfigOption[T]: ...
@overload
def provide_config_option(key: str, type: Any, default: Any = None, doc: str = "") -> ConfigOption[Any]: ...
def provide_config_option(key: str, type: Any, default: Any = None, doc: str = "") -> ConfigOption[Any]:  # noqa: A002
    """Register an option of a plug-in; a user may override its default.

    Raises:
        PassRegistrationError: if the key is registered with another type.

    """
    return _register(key, type, default, doc, provided=True)


def list_configs() -> Mapping[str, Mapping[str, Any]]:
    """Return the registered options by key: `type` (as text), `default` and `doc`."""
    import_all(_MODULES)
    return {
        key: {"type": type_name(option.type), "default": option.default, "doc": option.doc}
        for key, option in sorted(_OPTIONS.items())
    }


def config_key(key: ConfigKey) -> str:
    """Return the key of an option, given by itself or by its key."""
    return key.key if isinstance(key, ConfigOption) else key


def find_option(key: str) -> ConfigOption[Any]:
    """Return a registered option.

    Raises:
        UnknownConfigError: if there is none of that name; the message lists the candidates.

    """
    if not isinstance(key, str):
        raise UnknownConfigError(f"the key of a config option must be a string, got {key!r}")
    # The registered options must not depend on which modules happen to be imported.
    if key not in _OPTIONS:
        try:
            for _ in matching_modules(_MODULES, key):
                if key in _OPTIONS:
                    break
        except MissingExtraError as error:
            message = f"unknown config option {key!r}; a plug-in is not installed: {error}"
            raise UnknownConfigError(message) from error
    # No plug-in claims the key by its pattern. All are imported, for suggestions that do not depend on imports.
    missing = import_all(_MODULES) if key not in _OPTIONS else []
    if key not in _OPTIONS:
        near = did_you_mean(key, _OPTIONS)
        if not near:
            listed = did_you_mean(key, _OPTIONS, listing="registered are: ", lister="PassContext.list_configs()")
            absent = "".join(f"; a plug-in is not installed: {error}" for error in missing)
            near = (listed or "; none is registered") + absent
        raise UnknownConfigError(f"unknown config option {key!r}{near}")
    return _OPTIONS[key]


def adopt_option(option: ConfigOption[Any]) -> None:
    """Register an option of the program, in a worker; it replaces an earlier one.

    A notebook may have registered the option again since the worker started.
    """
    _OPTIONS[option.key] = option


class Config(Mapping[str, Any]):
    """The config options of one context.

    `config[key]` returns the value that was set, or the registered default. `key` is a string, or the option that
    `register_config_option` returned. `len` and iteration cover only the keys of options that were set.
    """

    __slots__ = ("_options",)

    def __init__(self, options: ConfigValues | None = None) -> None:
        """Check the options.

        Raises:
            UnknownConfigError: if a key is not registered.
            ConfigTypeError: if a value is not of its option's type, if an option is given twice, or if `options` is not
                a mapping.

        """
        mapping: Any = Mapping  # otherwise a type checker narrows `options` to a mapping of unknown keys
        if options is not None and not isinstance(options, mapping):
            raise ConfigTypeError(f"config must be a mapping of options by key, got {options!r}")
        values: dict[str, Any] = {}
        for option, value in () if options is None else options.items():
            key = config_key(option)
            expected = find_option(key).type
            if key in values:
                raise ConfigTypeError(f"config option {key!r} is given twice, by its key and by the option")
            values[key] = _converted(key, value, expected)
        self._options = MappingProxyType(values)

    @overload
    def __getitem__(self, key: ConfigOption[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: ConfigKey) -> Any:
        """Return the value of an option, or its default.

        Raises:
            UnknownConfigError: if the option is not registered.

        """
        key = config_key(key)
        return self._options[key] if key in self._options else _default_of(find_option(key))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys that were set."""
        return iter(self._options)

    def __len__(self) -> int:
        """Return how many options were set."""
        return len(self._options)

    def __contains__(self, key: object) -> bool:
        """Return whether `key` was set."""
        return (key.key if isinstance(key, ConfigOption) else key) in self._options

    # For pyright, an overload for each of `Mapping.get`.
    @overload
    def get(self, key: str) -> Any: ...
    @overload
    def get(self, key: str, default: None) -> Any: ...
    @overload
    def get(self, key: str, default: object) -> Any: ...
    @overload
    def get(self, key: ConfigOption[T | None], default: D) -> T | D: ...
    @overload
    def get(self, key: ConfigOption[T], default: None = None) -> T | None: ...
    def get(self, key: ConfigKey, default: Any = None) -> Any:
        """Return the value that was set, or the registered default, or `default`."""
        key = config_key(key)
        if key in self._options:
            return self._options[key]
        if key not in _OPTIONS:
            any(key in _OPTIONS for _ in matching_modules(_MODULES, key))
        option = _OPTIONS.get(key)
        return default if option is None or option.default is None else _default_of(option)

    def __repr__(self) -> str:
        return f"Config({dict(self._options)!r})"


def _default_of(option: ConfigOption[Any]) -> Any:
    """Return the default; of a collection a copy, which the caller may change."""
    return deepcopy(option.default) if type(option.default) in _MUTABLE else option.default


_EMPTY: Final = Config()


def make_config(options: ConfigValues | None) -> Config:
    """Return `Config(options)`, or the shared empty Config."""
    return options if isinstance(options, Config) else Config(options) if options else _EMPTY


def _register(key: str, tp: Any, default: Any, doc: str, *, provided: bool) -> ConfigOption[Any]:
    if not isinstance(key, str) or not key:
        raise PassRegistrationError(f"the key of a config option must be a string such as 'Pass.option', got {key!r}")
    if isinstance(tp, _NO_TYPES):
        raise PassRegistrationError(
            f"the type of config option {key!r} must be a type such as int or list[str], got {tp!r}"
        )
    if default is not None:
        default = _converted(key, default, tp)
    is_of_session = definition_in_session(key) is not None
    option = None if is_of_session and key in _OF_SESSION else _OPTIONS.get(key)
    if option is None and is_of_session:
        _OF_SESSION.add(key)
    # A user may give a plug-in's option another default, whichever of the two is registered first.
    if option is None or (option.type == tp and option.default != default and key in _PROVIDED and not provided):
        option = _OPTIONS[key] = ConfigOption(key, tp, default, doc)
        (_PROVIDED.add if provided else _PROVIDED.discard)(key)
    if option.type != tp or (option.default != default and not provided):
        raise PassRegistrationError(
            f"config option {key!r} is already registered as {type_name(option.type)} with default {option.default!r}, "
            f"not {type_name(tp)} with default {default!r}"
        )
    return option


def _converted(key: str, value: object, tp: Any) -> Any:
    try:
        return convert(value, tp)
    except TypeError as error:
        raise ConfigTypeError(f"config option {key!r}: {error}") from None
