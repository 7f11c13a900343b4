"""Analyses of functions and modules; results are cached by contents.

See `analysis`.
"""

import inspect
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast, overload

from apass.concurrency.coroutines import await_once
from apass.core.questions import Codec
from apass.errors import PassDefinitionError
from apass.util.fingerprint import fingerprint_value

__all__ = ["Analysis", "Options", "analysis"]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Options = tuple[tuple[str, Hashable, type], ...]
"""The name, value and type of each option of a request, sorted by name.

The types are part of it because 1 equals 1.0 and True.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Analysis(Generic[R_co]):
    """An analysis, created by `analysis`: a function and the identity of its results."""

    function: Callable[..., R_co | Awaitable[R_co]]
    """`(x)` or `(x, ctx)`, with options by keyword; plain or async."""
    name: str
    """The name for messages."""
    version: str
    """The version of the function; stored results of other versions are ignored."""
    persistent: bool
    """Whether results are written to the context's store."""
    dumps: Callable[[Any], bytes]
    """Serializes a result for a store."""
    loads: Callable[[bytes], R_co]
    """Deserializes a result."""
    takes_context: bool
    """Whether the function takes the context, through which it requests other analyses."""

    @property
    def key(self) -> str:
        """The identity in a store: the function's module and name, the name, the version."""
        qualname = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        return f"{self.function.__module__}.{qualname} {self.name}@{self.version}"

    def codec(self) -> Codec:
        """Return how recorded answers hold a result: as JSON, or else as Base64."""

        def dumps(result: Any) -> Any:
            data = self.dumps(result)
            try:
                return {"json": json.loads(data)}
            except ValueError:
                return {"base64": b64encode(data).decode()}

        def loads(value: Any) -> Any:
            if not isinstance(value, dict) or len(fields := cast("dict[str, Any]", value)) != 1:
                raise TypeError("expected an object with the field 'json' or 'base64'")
            is_json = "json" in fields
            return self.loads(json.dumps(fields["json"]).encode() if is_json else b64decode(fields["base64"]))

        return Codec(dumps, loads)

    def __fingerprint__(self) -> object:
        """Return what stored results of the analysis depend on."""
        # The fingerprint of a function has its code, defaults and closure.
        return self.key, self.function

    async def compute(self, x: object, ctx: object, options: Mapping[str, Hashable]) -> R_co:
        """Return the result of a new computation."""
        outcome: Any = self.function(x, ctx, **options) if self.takes_context else self.function(x, **options)
        result: R_co = await await_once(outcome, f"the analysis {self.name}")
        return result

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
    """Create an analysis from a function `(x)` or `(x, ctx)`, plain or async.

    `x` is a function or a module. Options are passed by keyword. A pass requests a result with
    `await ctx.get(TheAnalysis, func, option=value)`.

    A result is cached and reused for all contents with the same fingerprint (see `IRAdapter`). It must depend on
    nothing else:

    - not on names that the fingerprint leaves out;
    - not on the identity of the object;
    - not on the current state of a service.

    Callers must not modify a result.

    Parameters:
        function: the function; omitted in a decorator with arguments.
        name: the name for messages; the function's name by default.
        version: change it when the function returns different results, so that stored results are not reused. The code
            of the function, its defaults and its closure are noticed without it, but no global variables or functions
            that it uses.
        persistent: whether results are written to the context's `store`.
        dumps: serializes a result for a store; by default JSON, for results made of JSON's types.
        loads: deserializes a result.

    Raises:
        PassDefinitionError: if `function` does not have the required signature, if only one of `dumps` and `loads` is
            given, or if a persistent analysis has no name that can identify its stored results.

    >>> @analysis
    ... def Length(func):
    ...     return len(func)
    >>> Length
    <analysis Length>

    """
    if (dumps is None) != (loads is None):
        raise PassDefinitionError("analysis needs both dumps and loads, or neither to use JSON")

    def make(target: Any) -> Analysis[Any]:
        if not callable(target) or inspect.isclass(target):
            raise PassDefinitionError(f"analysis takes a function, got {target!r}")
        default_name = str(getattr(target, "__name__", type(target).__name__))
        if persistent and name is None and (default_name == "<lambda>" or not hasattr(target, "__name__")):
            raise PassDefinitionError(f"a persistent analysis needs a name; pass name=... for {target!r}")
        write, read = (dumps, loads) if dumps and loads else (_dumps, json.loads)
        own_name = name or default_name
        return Analysis(target, own_name, version, persistent, write, read, _takes_context(own_name, target))

    return make if function is None else make(function)


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _takes_context(name: str, function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    # Parameters with a default are options: `def Cost(func, unit="ms")` takes no context.
    count = sum(
        parameter.kind in _POSITIONAL and parameter.default is inspect.Parameter.empty for parameter in parameters
    )
    if count not in (1, 2):
        raise PassDefinitionError(f"the analysis {name} must take (x) or (x, ctx), with options by keyword")
    return count == 2


def _dumps(result: Any) -> bytes:
    data = json.dumps(result).encode()
    # JSON changes some values silently: a tuple becomes a list, an int key a string.
    if fingerprint_value(json.loads(data)) != fingerprint_value(result):
        raise TypeError(f"JSON does not preserve {result!r}; give the analysis dumps and loads")
    return data
