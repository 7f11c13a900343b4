"""Config options: registered with a type, set by `PassContext(config=...)`."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from apass.core.plugins import import_all, matching_modules
from apass.errors import ConfigTypeError, PassRegistrationError, UnknownConfigError, did_you_mean
from apass.util.interactive import definition_in_session
from apass.util.typed_values import convert, type_name

__all__ = [
    "Config",
    "ConfigOption",
    "adopt_option",
    "find_option",
    "list_configs",
    "provide_config_option",
    "register_config_option",
]


@dataclass(frozen=True, slots=True)
class ConfigOption:
    """A registered option."""

    key: str
    """The name: that of the pass, a dot, and a word, as in `relay.FuseOps.max_depth`."""
    type: Any
    """The type of its values: a class, a union, a `Literal`, a list of these, `Any`."""
    default: Any
    """The value in a context that sets none."""
    doc: str = ""
    """One line for `list_configs` and the command line."""


_OPTIONS: Final[dict[str, ConfigOption]] = {}

_NO_TYPES: Final = (str, bytes, int, float, list, tuple, dict, set)
"""Types of values that may be passed as a type by mistake."""

_MUTABLE: Final = (list, dict, set)

_PROVIDED: Final[set[str]] = set()
"""Keys of options that plug-ins provide, and whose default a user may replace."""

_OF_SESSION: Final[set[str]] = set()
"""Keys of options that a notebook or another interactive session registered, and may register again."""

_MODULES: Final = "apass.config_modules"


def register_config_option(key: str, type: Any, default: Any = None, doc: str = "") -> ConfigOption:  # noqa: A002
    """Register a config option for `PassContext(config=...)`.

    Registering the same option again has no effect, so that a module may be reloaded. In a notebook or at a prompt, a
    later registration replaces an earlier one of the session. Source: TVM's `TVM_REGISTER_PASS_CONFIG_OPTION`.

    Raises:
        PassRegistrationError: if the key has another type or default already, if it is not a string, or if `type` is
            not a type.
        ConfigTypeError: if `default` is neither None nor of that type.

    >>> register_config_option("demo.Unroll.depth", int, default=8).default
    8

    """
    return _register(key, type, default, doc, provided=False)


def provide_config_option(key: str, type: Any, default: Any = None, doc: str = "") -> ConfigOption:  # noqa: A002
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


def find_option(key: str) -> ConfigOption:
    """Return a registered option.

    Raises:
        UnknownConfigError: if there is none of that name; the message lists the candidates.

    """
    if not isinstance(key, str):
        raise UnknownConfigError(f"the key of a config option must be a string, got {key!r}")
    # The registered options must not depend on which modules happen to be imported.
    missing = import_all(_MODULES) if key not in _OPTIONS else []
    if key not in _OPTIONS:
        near = did_you_mean(key, _OPTIONS)
        if not near:
            listed = did_you_mean(key, _OPTIONS, listing="registered are: ", lister="PassContext.list_configs()")
            absent = "".join(f"; a plug-in is not installed: {error}" for error in missing)
            near = (listed or "; none is registered") + absent
        raise UnknownConfigError(f"unknown config option {key!r}{near}")
    return _OPTIONS[key]


def adopt_option(option: ConfigOption) -> None:
    """Register an option of the program, in a worker; it replaces an earlier one.

    A notebook may have registered the option again since the worker started.
    """
    _OPTIONS[option.key] = option


class Config(Mapping[str, Any]):
    """The config options of one context.

    `config[key]` returns the value that was set, or the registered default. `len` and iteration cover only the options
    that were set.
    """

    __slots__ = ("_options",)

    def __init__(self, options: Mapping[str, object] | None = None) -> None:
        """Check the options.

        Raises:
            UnknownConfigError: if a key is not registered.
            ConfigTypeError: if a value is not of its option's type, or `options` is not a mapping.

        """
        if options is not None and not isinstance(options, Mapping):
            raise ConfigTypeError(f"config must be a mapping of options by key, got {options!r}")
        self._options = MappingProxyType(
            {key: _converted(key, value, find_option(key).type) for key, value in (options or {}).items()}
        )

    def __getitem__(self, key: str) -> Any:
        """Return the value of an option, or its default.

        Raises:
            UnknownConfigError: if the option is not registered.

        """
        return self._options[key] if key in self._options else _default_of(find_option(key))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys that were set."""
        return iter(self._options)

    def __len__(self) -> int:
        """Return how many options were set."""
        return len(self._options)

    def __contains__(self, key: object) -> bool:
        """Return whether `key` was set."""
        return key in self._options

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value that was set, or the registered default, or `default`."""
        if key in self._options:
            return self._options[key]
        if key not in _OPTIONS:
            any(key in _OPTIONS for _ in matching_modules(_MODULES, key))
        option = _OPTIONS.get(key)
        return default if option is None or option.default is None else _default_of(option)

    def __repr__(self) -> str:
        return f"Config({dict(self._options)!r})"


def _default_of(option: ConfigOption) -> Any:
    """Return the default; of a collection a copy, which the caller may change."""
    return deepcopy(option.default) if type(option.default) in _MUTABLE else option.default


_EMPTY: Final = Config()


def make_config(options: Mapping[str, object] | None) -> Config:
    """Return `Config(options)`, or the shared empty Config."""
    return options if isinstance(options, Config) else Config(options) if options else _EMPTY


def _register(key: str, tp: Any, default: Any, doc: str, *, provided: bool) -> ConfigOption:
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
