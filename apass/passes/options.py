"""`PassOptions`: keyword options of the decorators."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypedDict, cast

from apass.core.analysis import Analysis
from apass.core.config import ConfigKey, ConfigOption, config_key
from apass.core.context import Opener
from apass.core.executor import ExecutorChoice, check_executor
from apass.core.outside import Outside
from apass.core.properties import Property, check_property
from apass.errors import PassDefinitionError, did_you_mean
from apass.runner.error_policy import OnError
from apass.util.checks import is_seconds

__all__ = ["BodyOptions", "PassOptions", "Requirements", "check_pass_options", "split_requirements"]

Requirements = Iterable[str | Analysis[Any]] | None
"""The requirements of a pass: names of passes, and analyses."""


class BodyOptions:
    """How the body of a pass runs: attributes of module passes and of function passes."""

    # Not in these classes themselves, where type checkers would take each attribute for an option of the constructor.
    timeout: float | None = None
    """Seconds that one body may take before it fails with PassTimeoutError; None is no limit."""
    on_error: OnError = "raise"
    """The reaction to the failure of a body.

    - `"raise"`: raise its error.
    - `"keep"`: keep the function or module unchanged, and emit a warning to `ctx.diag_ctx`.
    - a fallback `(func, mod, ctx, error) -> func`, or `(mod, ctx, error) -> mod`, plain or async: use its result, and
      emit a note.
    """
    executor: ExecutorChoice = None
    """Where a body runs.

    None is the choice of the context for a plain body of a function pass, and otherwise the event loop.
    """


class PassOptions(TypedDict, total=False):
    """How the body of a pass runs, and guarantees about the result.

    The body of a module pass works on the module, and the body of a function pass on one function.
    """

    timeout: float | None
    """Seconds that one body may take before it fails with PassTimeoutError; None, the default, is no limit."""
    on_error: OnError
    """The reaction to the failure of a body.

    - `"raise"`, the default: raise its error.
    - `"keep"`: keep the function or module unchanged, and emit a warning to `ctx.diag_ctx`.
    - a fallback `(func, mod, ctx, error) -> func`, or `(mod, ctx, error) -> mod`, plain or async: use its result, and
      emit a note.
    """
    executor: ExecutorChoice
    """Where the body runs.

    It is `"inline"` for the event loop's thread, `"thread"`, `"process"`, `"interpreter"` or an `Executor`. None, the
    default, is the choice of the context for a plain body of a function pass, and otherwise the event loop.
    """
    preserves: Iterable[Analysis[Any]] | Literal["all"]
    """The analyses whose results remain valid after the pass; none by default."""
    cacheable: bool | Literal["module"]
    """Whether the result may be cached in the context's `store`.

    It must then depend only on the input, the options and the config. For a function pass, True means that the result
    depends only on the function, and `"module"` that a body may use the rest of the module.
    """
    version: str
    """The version of the pass for cached results, `"1"` by default; change it when the pass produces others."""
    config_keys: Iterable[ConfigKey] | None
    """The config options that the result depends on; None, the default, is all options that are set."""
    requires: Iterable[str | Property] | None
    """The properties that a module must have; they are checked before the pass (see `register_property`)."""
    ensures: Iterable[str | Property] | None
    """The properties that the result has; they are checked after the pass."""
    idempotent: bool
    """Whether the pass changes nothing in its own result, or in a module that has all properties in `ensures`.

    If another pass requires it and the module already satisfies it, a Sequential skips it.
    """
    runs_after: Iterable[str] | None
    """Names of passes and pipelines. If the pipeline contains passes of a name, at least one must come first."""
    runs_before: Iterable[str] | None
    """Names of passes and pipelines. The mirror image of `runs_after`."""
    native: bool
    """Whether the body calls native code, which may end the process; see `Execution.native`."""
    outside: Outside | None
    """What the pass reaches besides the module; None, the default, is nothing. See `parse_pipeline(allow=...)`."""
    open: Opener[Any]
    """A function `async def open(ctx)` with one `yield`, or another that returns an async context manager.

    It opens what the pass needs during a run, such as a client. Bodies get the value by `ctx.opened(open)`; see
    `Pass.open`.
    """


def split_requirements(required: object) -> tuple[tuple[str, ...], tuple[Analysis[Any], ...]]:
    """Return the names of passes, and the analyses, that a pass requires.

    Raises:
        PassDefinitionError: if `required` is not a list.

    """
    if required is None:
        return (), ()
    if isinstance(required, Analysis):
        raise PassDefinitionError(f"required must be a list of names and analyses, got {required!r}; write [...]")
    if isinstance(required, str):
        raise PassDefinitionError(f"required is the string {required!r}; give a list of names")
    if not isinstance(required, Iterable):
        raise PassDefinitionError(f"required must be a list of names and analyses, got {required!r}")
    items = tuple(cast("Iterable[str | Analysis[Any]]", required))
    # `PassInfo` checks that the other ones are names.
    names = tuple(item for item in items if not isinstance(item, Analysis))
    return names, tuple(item for item in items if isinstance(item, Analysis))


def check_pass_options(decorator: str, options: PassOptions) -> dict[str, Any]:
    """Return the attributes of a pass that the options set.

    Raises:
        TypeError: if a key is unknown.
        PassDefinitionError: if a value is invalid.

    """
    unknown = options.keys() - PassOptions.__annotations__.keys()
    if unknown:
        name = min(unknown)
        raise TypeError(f"unexpected argument {name!r}{did_you_mean(name, PassOptions.__annotations__)}")
    try:
        return {key: _CHECKS[key](key, decorator, value) for key, value in options.items()}
    except (TypeError, ValueError) as error:
        raise PassDefinitionError(str(error)) from error.__cause__


def _checked(is_valid: Callable[[Any], bool], expected: str) -> Callable[[str, str, Any], Any]:
    """Return a check of an option that leaves the value as it is."""

    def check(key: str, _owner: str, value: Any) -> Any:
        if not is_valid(value):
            raise PassDefinitionError(f"{key} must be {expected}, got {value!r}")
        return value

    return check


def _preserves(_key: str, _owner: str, value: Any) -> frozenset[Analysis[Any]] | Literal["all"]:
    if value == "all":
        return "all"
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise PassDefinitionError(f"preserves must be a set of analyses or 'all', got {value!r}")
    items: frozenset[Any] = frozenset(cast("Iterable[object]", value))
    if not all(isinstance(item, Analysis) for item in items):
        raise PassDefinitionError(f"preserves must be a set of analyses or 'all', got {value!r}")
    return items


def _config_keys(key: str, _owner: str, value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return tuple(map(config_key, _listed(key, "options or their keys", value, (str, ConfigOption))))


def _properties(key: str, _owner: str, value: Any) -> tuple[str | Property, ...]:
    return check_property(key, () if value is None else value)


def _names(key: str, _owner: str, value: Any) -> tuple[str, ...]:
    return _listed(key, "names of passes", () if value is None else value, (str,))


_FLAG: Final = _checked(lambda value: isinstance(value, bool), "True or False")

_CHECKS: Final[Mapping[str, Callable[[str, str, Any], Any]]] = {
    "timeout": _checked(lambda value: value is None or is_seconds(value), "a positive number of seconds or None"),
    "on_error": _checked(
        lambda value: value in ("raise", "keep") or callable(value),
        "'raise', 'keep' or a function (func, mod, ctx, error) -> func",
    ),
    "executor": lambda _key, owner, value: check_executor(owner, value),
    "preserves": _preserves,
    "cacheable": _checked(lambda value: isinstance(value, bool) or value == "module", "True, False or 'module'"),
    "version": _checked(lambda value: isinstance(value, str), "a str"),
    "config_keys": _config_keys,
    "requires": _properties,
    "ensures": _properties,
    "idempotent": _FLAG,
    "runs_after": _names,
    "runs_before": _names,
    "native": _FLAG,
    "outside": _checked(lambda value: isinstance(value, Outside | None), "a member of apass.plugins.Outside or None"),
    "open": _checked(callable, "a function (ctx) with one `yield`"),
}
"""For each option, the function that checks `(key, decorator, value)` and returns the attribute."""


def _listed(key: str, noun: str, value: object, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """Return the items of an option, which must be a list of objects of some types."""
    if isinstance(value, kinds) or not isinstance(value, Iterable):
        hint = f"; write [{config_key(cast('ConfigKey', value))!r}]" if isinstance(value, kinds) else ""
        raise PassDefinitionError(f"{key} must be a list of {noun}, got {value!r}{hint}")
    items = tuple(cast("Iterable[object]", value))
    for item in items:
        if not isinstance(item, kinds):
            raise PassDefinitionError(f"{key} must be a list of {noun}, but contains {item!r}")
    return items
