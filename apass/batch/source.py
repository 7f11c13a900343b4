"""`ModuleSource`: modules with their keys or places, from a mapping, an iterable or an async iterable."""

from collections.abc import Iterator
from typing import Any, Final

import anyio

__all__ = ["ModuleSource"]


class ModuleSource:
    """Gives modules with their keys, or with their places; those of an async iterable in their own time.

    Raises:
        TypeError: if `modules` are none that one could go over.

    """

    def __init__(self, modules: Any) -> None:
        self._async = aiter(modules) if hasattr(modules, "__aiter__") else None
        self._items: Any = iter(()) if self._async else _items(modules)
        self._keyed = hasattr(modules, "items") and self._async is None
        self._place = -1

    async def next(self) -> tuple[Any, Any]:
        """Return the next key and module; StopAsyncIteration after the last."""
        if self._async is not None:
            item: Any = await anext(self._async)
        else:
            item = next(self._items, _END)
        if item is _END:
            raise StopAsyncIteration
        self._place += 1
        key, mod = item if self._keyed else (self._place, item)
        return key, mod

    def lasting_name(self, name: Any) -> str:
        """Return the name as a journal knows it: a place says nothing in another run, where the order may differ."""
        return str(name) if self._keyed else ""

    async def close(self, grace: float) -> None:
        """End an async generator that has more to give: nobody else will ask it."""
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
        "modules must be a mapping of them by key, an iterable or an async iterable of them, not "
        f"{modules!r}; for one module, await pass_(mod)"
    )


_END: Final[Any] = object()
