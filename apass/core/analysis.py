"""Analyses: what passes ask about a function or a module, computed once for equal contents and kept; see `analysis`."""

import inspect
import json
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, overload

from apass.concurrency.coroutines import is_awaitable
from apass.errors import PassDefinitionError
from apass.util.fingerprint import fingerprint_value

__all__ = ["Analysis", "Options", "analysis"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Options = tuple[tuple[str, Hashable, type], ...]
"""The options that an analysis is asked with, by name in order; with their types, as 1 equals 1.0 and True."""


@dataclass(frozen=True, slots=True, eq=False)
class Analysis(Generic[R_co]):
    """An analysis: its function, and what its results are known by. Made by `analysis`."""

    function: Callable[..., R_co | Awaitable[R_co]]
    """`(x)` or `(x, ctx)`, with options by keyword; plain or async."""
    name: str
    """What messages call it."""
    version: str
    """Results of another version are not taken for its own."""
    persistent: bool
    """Whether results go to the context's store."""
    dumps: Callable[[Any], bytes]
    """Gives the bytes of a result, for a store."""
    loads: Callable[[bytes], R_co]
    """Gives the result back."""
    takes_context: bool
    """Whether the function takes the context, to ask other analyses."""

    @property
    def key(self) -> str:
        """What it is known by in a store: where it is defined, its name, and its version."""
        place = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{self.function.__module__}.{place} {self.name}@{self.version}"

    async def compute(self, x: object, ctx: object, options: Mapping[str, Hashable]) -> R_co:
        """Return the result, computed anew."""
        result: Any = self.function(x, ctx, **options) if self.takes_context else self.function(x, **options)
        made: R_co = await result if is_awaitable(result) else result
        return made

    def __repr__(self) -> str:
        return f"<analysis {self.name}>"


@overload
def analysis(function: Callable[..., Awaitable[R]], /) -> Analysis[R]: ...
@overload
def analysis(function: Callable[..., R], /) -> Analysis[R]: ...
@overload
def analysis(
    function: None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    persistent: bool = False,
    dumps: Callable[[Any], bytes] | None = None,
    loads: Callable[[bytes], Any] | None = None,
) -> Callable[[Callable[..., Any]], Analysis[Any]]: ...
def analysis(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    persistent: bool = False,
    dumps: Callable[[Any], bytes] | None = None,
    loads: Callable[[bytes], Any] | None = None,
) -> Any:
    """Make an analysis of a function `(x)` or `(x, ctx)`, plain or async, with options by keyword.

    `x` is a function or a module. A pass asks `await ctx.get(TheAnalysis, func, option=value)`.

    A result is kept for as long as there is room and taken for all contents of the same fingerprint (see `IRAdapter`),
    so it may depend on nothing else: not on names that a fingerprint leaves out, not on which object it is, nor on what
    a service says today. It must not be changed by those who get it.

    Parameters:
        function: the function; left out in a decorator with arguments.
        name: what messages call it; the function's name by default.
        version: to be raised when the function changes what it returns, for results in a store.
        persistent: whether results go to the context's `store`.
        dumps: gives the bytes of a result for a store; JSON by default, for results made of JSON's types.
        loads: gives the result back.

    Raises:
        PassDefinitionError: if `function` cannot be called so, if one of `dumps` and `loads` is missing, or if it is
            persistent and without a name that its results in a store could be known by.

    >>> @analysis
    ... def Length(func):
    ...     return len(func)
    >>> Length
    <analysis Length>

    """
    if (dumps is None) != (loads is None):
        raise PassDefinitionError("analysis takes both dumps and loads, or neither for JSON")

    def make(target: Any) -> Analysis[Any]:
        if not callable(target) or inspect.isclass(target):
            raise PassDefinitionError(f"analysis takes a function, not {target!r}")
        own = str(getattr(target, "__name__", type(target).__name__))
        if persistent and name is None and (own == "<lambda>" or not hasattr(target, "__name__")):
            raise PassDefinitionError(f"a persistent analysis needs a name: give {target!r} one by name=...")
        write, read = (dumps, loads) if dumps and loads else (_dumps, json.loads)
        return Analysis(target, name or own, version, persistent, write, read, _takes_context(name or own, target))

    return make if function is None else make(function)


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _takes_context(name: str, function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    count = sum(one.kind in _POSITIONAL and one.default is inspect.Parameter.empty for one in parameters)
    if count not in (1, 2):
        raise PassDefinitionError(f"the analysis {name} must take (x) or (x, ctx), and options by keyword")
    return count == 2


def _dumps(result: Any) -> bytes:
    data = json.dumps(result).encode()
    if fingerprint_value(json.loads(data)) != fingerprint_value(result):
        raise TypeError(f"{result!r} would not come back from JSON as it is; give the analysis dumps and loads")
    return data
