"""`Promises`: what the author of a pass promises about its results, given to the decorators by keyword."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypedDict, cast

from apass.core.analysis import Analysis
from apass.errors import PassDefinitionError, did_you_mean

__all__ = ["Promises", "promised"]


class Promises(TypedDict, total=False):
    """What a pass promises about its result."""

    preserves: Iterable[Analysis[Any]] | Literal["all"]
    """The analyses that still hold for what the pass made of a function or module; none by default."""
    cacheable: bool | Literal["module"]
    """Whether the result depends on the input, the options and the config alone, so that it may be kept in the
    context's `store`. For a function pass, `True` says that it depends on the function alone, and `"module"` that a
    body may look at the rest of the module."""
    version: str
    """The version that kept results belong to, `"1"` by default; to be raised when the pass does something else."""
    config_keys: Iterable[str]
    """The config options that the result depends on; by default, all that are set."""


def promised(promises: Promises, known: type[Any] = Promises) -> dict[str, Any]:
    """Return the attributes of a pass that `promises` set, suggesting keys of the TypedDict `known` for others.

    Raises:
        TypeError: if a key is none of a promise.
        PassDefinitionError: if a value is none of its key's.

    """
    unknown = promises.keys() - Promises.__annotations__.keys()
    if unknown:
        name = min(unknown)
        raise TypeError(f"unexpected argument {name!r}{did_you_mean(name, known.__annotations__)}")
    made: dict[str, Any] = dict(promises)
    preserves = promises.get("preserves", ())
    if preserves != "all":
        made["preserves"] = frozenset(_analyses(preserves))
    cacheable = promises.get("cacheable", False)
    if not isinstance(cacheable, bool) and cacheable != "module":
        raise PassDefinitionError(f"cacheable must be True, False or 'module', not {cacheable!r}")
    if "config_keys" in promises:
        keys = promises["config_keys"]
        if isinstance(keys, str):
            raise PassDefinitionError(f"config_keys must be a list of options, not {keys!r}; write [{keys!r}]")
        made["config_keys"] = tuple(keys)
    return made


def _analyses(preserves: object) -> Iterator[Analysis[Any]]:
    is_many = isinstance(preserves, Iterable) and not isinstance(preserves, str)
    for one in cast("Iterable[object]", preserves if is_many else [preserves]):
        if not is_many or not isinstance(one, Analysis):
            raise PassDefinitionError(f"preserves must be a set of analyses, or 'all'; not {preserves!r}")
        yield one
