"""`ModuleSource`: an iterator over the modules of a batch and their keys."""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final, cast

import anyio

__all__ = ["ModuleSource"]


class ModuleSource:
    """Iterates over a mapping, an iterable or an async iterable of modules.

    Each module comes with its key, or with its index if there are no keys.

    Raises:
        TypeError: if `modules` cannot be iterated over.

    """

    def __init__(self, modules: Any) -> None:
        self.is_async: Final = hasattr(modules, "__aiter__")
        """Whether the modules come from `receive`, and not from `items`."""
        self._arrivals: AsyncIterator[Any] | None = aiter(modules) if self.is_async else None
        self._keyed = hasattr(modules, "items") and not self.is_async
        self.items: Final[Iterator[tuple[Any, Any]]] = iter(()) if self.is_async else _items(modules)
        """Keys and modules of a mapping or an iterable."""
        self._index = -1

    async def receive(self) -> tuple[Any, Any]:
        """Return the next index and module of an async iterable.

        Raises:
            StopAsyncIteration: after the last module.

        """
        assert self._arrivals is not None
        mod = await anext(self._arrivals)
        self._index += 1
        return self._index, mod

    def lasting_name(self, name: Any) -> str:
        """Return the name of a module for a journal: its key, or "" if there are no keys."""
        # An index does not identify a module in another run, because the order may differ.
        return str(name) if self._keyed else ""

    async def close(self, grace: float) -> None:
        """Close an async generator that is not exhausted, within `grace` seconds."""
        close: Any = getattr(self._arrivals, "aclose", None)
        if close is not None:
            with anyio.move_on_after(grace, shield=True):
                await close()


def _items(modules: Any) -> Iterator[tuple[Any, Any]]:
    try:
        if not isinstance(modules, str | bytes):
            return iter(modules.items()) if hasattr(modules, "items") else enumerate(cast("Iterable[Any]", modules))
    except TypeError:
        pass
    raise TypeError(
        f"modules must be a mapping, an iterable or an async iterable, got {modules!r}; "
        "for a single module, use `await pass_(mod)`"
    )
