"""`ModuleSource`: an iterator over the modules of a batch and their keys."""

from collections.abc import Iterator
from typing import Any, Final

import anyio

__all__ = ["ModuleSource"]


class ModuleSource:
    """Iterates over a mapping, an iterable or an async iterable of modules.

    Each module comes with its key, or with its index if there are no keys.

    Raises:
        TypeError: if `modules` cannot be iterated over.

    """

    def __init__(self, modules: Any) -> None:
        self._async = aiter(modules) if hasattr(modules, "__aiter__") else None
        self._items: Any = iter(()) if self._async else _items(modules)
        self._keyed = hasattr(modules, "items") and self._async is None
        self._index = -1

    async def next(self) -> tuple[Any, Any]:
        """Return the next key and module.

        Raises:
            StopAsyncIteration: after the last module.

        """
        if self._async is not None:
            item: Any = await anext(self._async)
        else:
            item = next(self._items, _END)
        if item is _END:
            raise StopAsyncIteration
        self._index += 1
        key, mod = item if self._keyed else (self._index, item)
        return key, mod

    def lasting_name(self, name: Any) -> str:
        """Return the name of a module for a journal: its key, or "" if there are no keys."""
        # An index does not identify a module in another run, because the order may differ.
        return str(name) if self._keyed else ""

    async def close(self, grace: float) -> None:
        """Close an async generator that is not exhausted, within `grace` seconds."""
        close: Any = getattr(self._async, "aclose", None)
        if close is not None:
            with anyio.move_on_after(grace, shield=True):
                await close()


def _items(modules: Any) -> Iterator[Any]:
    try:
        if not isinstance(modules, str | bytes):
            return iter(modules.items() if hasattr(modules, "items") else modules)
    except TypeError:
        pass
    raise TypeError(
        f"modules must be a mapping, an iterable or an async iterable, not {modules!r}; "
        "for a single module, use `await pass_(mod)`"
    )


_END: Final[Any] = object()
