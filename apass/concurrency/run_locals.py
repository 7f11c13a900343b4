"""`RunLocal`: a value of the current run; all of them are in one `ContextVar`."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

__all__ = ["RunLocal"]

T = TypeVar("T")

_LOCALS: Final[ContextVar[Mapping["RunLocal[Any]", Any]]] = ContextVar("apass_locals", default=MappingProxyType({}))


class RunLocal(Generic[T]):
    """A value of the current run: of this task, and of tasks that it starts later.

    All values are in one mapping, which is replaced when one of them is set. Only what the runner reads for each pass
    or body has a `ContextVar` of its own, because reading that takes a fifth of the time.

    >>> depth = RunLocal("depth", 0)
    >>> with depth.set_to(1):
    ...     depth.get()
    1
    >>> depth.get()
    0
    """

    __slots__ = ("_default", "_name")

    def __init__(self, name: str, default: T) -> None:
        self._name: Final = name
        self._default: Final = default

    def get(self) -> T:
        """Return the value; the default if none is set."""
        value: T = _LOCALS.get().get(self, self._default)
        return value

    def set(self, value: T) -> None:
        """Set the value, for the rest of the task."""
        _LOCALS.set({**_LOCALS.get(), self: value})

    @contextmanager
    def set_to(self, value: T) -> Generator[None]:
        """Set the value within the block."""
        outer = _LOCALS.get()
        inner = {**outer, self: value}
        _LOCALS.set(inner)
        try:
            yield
        finally:
            # Another value may have been set in the block, for longer than the block.
            current = _LOCALS.get()
            _LOCALS.set(outer if current is inner else {**current, self: outer.get(self, self._default)})

    def __repr__(self) -> str:
        return f"RunLocal({self._name!r})"
