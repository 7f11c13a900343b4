"""`PassOptions`: keyword options of the decorators."""

from collections.abc import Iterable, Iterator
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

__all__ = ["LISTS", "BodyOptions", "PassOptions", "Requirements", "check_pass_options", "split_requirements"]

Requirements = Iterable[str | Analysis[Any]] | None
"""The requirements of a pass: names of passes, and analyses."""

LISTS: Final = ("requires", "ensures", "runs_after", "runs_before")
"""Options that are lists, for which None is an empty one."""


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

    The body of a module pass works on the module, and that of a function pass on one function.
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

    A Sequential then leaves it out where another pass requires it, and the module is such a one.
    """
    runs_after: Iterable[str] | None
    """Names of passes and pipelines. If the whole pipeline has some of a name, one must come earlier."""
    runs_before: Iterable[str] | None
    """Names of passes and pipelines. If the whole pipeline has some of a name, one must come later."""
    native: bool
    """Whether the body calls native code, which may end the process; see `Pass.native`."""
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
    attributes: dict[str, Any] = {
        key: () if value is None and key in LISTS else value for key, value in options.items()
    }
    timeout, on_error = options.get("timeout"), options.get("on_error", "raise")
    if timeout is not None and not is_seconds(timeout):
        raise PassDefinitionError(f"timeout must be a positive number of seconds or None, got {timeout!r}")
    if on_error not in ("raise", "keep") and not callable(on_error):
        choices = "'raise', 'keep' or a function (func, mod, ctx, error) -> func"
        raise PassDefinitionError(f"on_error must be {choices}, got {on_error!r}")
    try:
        check_executor(decorator, options.get("executor"))
    except (TypeError, ValueError) as error:
        raise PassDefinitionError(str(error)) from None
    preserves = options.get("preserves", ())
    if preserves != "all":
        attributes["preserves"] = frozenset(_analyses(preserves))
    cacheable = options.get("cacheable", False)
    if not isinstance(cacheable, bool) and cacheable != "module":
        raise PassDefinitionError(f"cacheable must be True, False or 'module', got {cacheable!r}")
    if attributes.get("config_keys") is not None:
        keys = _listed("config_keys", "options or their keys", attributes["config_keys"], (str, ConfigOption))
        attributes["config_keys"] = tuple(map(config_key, keys))
    for key in ("requires", "ensures"):
        if key in attributes:
            attributes[key] = check_property(key, attributes[key])
    for key in ("runs_after", "runs_before"):
        if key in attributes:
            attributes[key] = _listed(key, "names of passes", attributes[key], (str,))
    opener = options.get("open")
    if "open" in options and not callable(opener):
        raise PassDefinitionError(f"open must be a function (ctx) with one `yield`, got {opener!r}")
    outside = options.get("outside")
    if outside is not None and not isinstance(outside, Outside):
        raise PassDefinitionError(f"outside must be a member of apass.Outside or None, got {outside!r}")
    for flag in ("idempotent", "native"):
        if not isinstance(attributes.get(flag, False), bool):
            raise PassDefinitionError(f"{flag} must be True or False, got {attributes[flag]!r}")
    return attributes


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


def _analyses(preserves: object) -> Iterator[Analysis[Any]]:
    is_collection = isinstance(preserves, Iterable) and not isinstance(preserves, str)
    for item in cast("Iterable[object]", preserves if is_collection else [preserves]):
        if not is_collection or not isinstance(item, Analysis):
            raise PassDefinitionError(f"preserves must be a set of analyses or 'all', got {preserves!r}")
        yield item
