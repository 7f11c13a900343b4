"""Whole results of passes kept in a store: for passes that say they are `cacheable`, and pipelines made of them."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any, Final, TypeVar

from anyio.to_thread import run_sync

from apass.adapter import adapter_for
from apass.context import PassContext
from apass.failures import watch_failures
from apass.fingerprint import fingerprint_value
from apass.run import current_run
from apass.stepping import is_awaitable
from apass.store import Store
from apass.transformer import Transformer

__all__ = ["cached", "key_of", "with_cache"]

T = TypeVar("T")

_SAME: Final = b"same"
"""Kept for a result that is what went in."""
_OTHER: Final = b"new:"
"""Begins what is kept for another result."""


def cached(pass_: Transformer[T], ctx: PassContext) -> Transformer[T]:
    """Return a pass that does what `pass_` does, and looks in the context's store before; itself if it may not.

    A pass made of passes is one result only where no instrument is in force that would not see the passes in it.
    """
    store = ctx.store
    key = None if store is None else pass_.cache_key(ctx)
    return pass_ if key is None or store is None else _Cached(pass_, key, store)


class _Cached(Transformer[T]):
    """A pass that looks in a store before it works."""

    def __init__(self, pass_: Transformer[T], key: str, store: Store) -> None:
        self.info = pass_.info
        self.preserves = pass_.preserves
        self._pass = pass_
        self._key = key
        self._store = store

    async def transform(self, mod: T, ctx: PassContext) -> T:
        """Return the kept result, or work and keep it."""
        adapter = adapter_for(mod)

        def key() -> str:
            return _full_key(self._key, adapter.fingerprint(mod))

        name = await (run_sync(key) if adapter.thread_safe else _now(key))
        kept = await self._store.get(name)
        if kept is not None:
            ctx.analyses.counts["pass stored"] += 1
            return mod if kept == _SAME else await run_sync(adapter.loads, kept[len(_OTHER) :])
        with watch_failures() as failures:
            result: Any = self._pass.transform(mod, ctx)
            made: T = await result if is_awaitable(result) else result
        if made is None or failures.seen:
            return made
        data = _SAME if made is mod else _OTHER + await run_sync(adapter_for(made).dumps, made)
        await self._store.put(name, data)
        return made

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the key that it was made with."""
        return self._key

    def is_cut_as_one(self) -> bool:
        """Do as the pass."""
        return self._pass.is_cut_as_one()


def with_cache(body: Callable[..., Any], pass_key: str, store: Store) -> Callable[..., Any]:
    """Return the body of a function pass that looks in `store` before it works on a function."""

    async def run(func: Any, mod: Any, ctx: PassContext) -> Any:
        adapter = adapter_for(mod)
        place = current_run()
        name = "" if place is None or place.function is None else place.function
        key = _full_key(pass_key, adapter.fingerprint(func))
        kept = await store.get(key)
        if kept is not None:
            ctx.analyses.counts["pass stored"] += 1
            return func if kept == _SAME else _function(adapter, kept)
        result = body(func, mod, ctx)
        made = await result if is_awaitable(result) else result
        if made is not None:
            await store.put(key, _SAME if made is func else _bytes(adapter, mod, name, made))
        return made

    return run


def _bytes(adapter: Any, mod: Any, name: str, func: Any) -> bytes:
    """Return a function as the bytes of a module that has nothing else, and its name there."""
    alone = adapter.isolate(adapter.replace(mod, {name: func}), [name])
    head = json.dumps(name).encode()
    data: bytes = adapter.dumps(alone)
    return _OTHER + len(head).to_bytes(4, "big") + head + data


def _function(adapter: Any, kept: bytes) -> Any:
    start = len(_OTHER) + 4
    size = int.from_bytes(kept[len(_OTHER) : start], "big")
    name = json.loads(kept[start : start + size])
    return adapter.extract(adapter.loads(kept[start + size :]), [name])[name]


def _full_key(pass_key: str, fingerprint: str) -> str:
    return f"pass/{sha256(pass_key.encode()).hexdigest()}/{fingerprint}"


@cache
def _own_version() -> str:
    try:
        return version_of("apass")
    except PackageNotFoundError:
        return "unknown"


async def _now(function: Callable[[], T]) -> T:
    return function()


def key_of(name: str, version: str, options: object, ctx: PassContext, keys: Sequence[str] | None) -> str:
    """Return what the result of one pass depends on: name, version, options, and the relevant config of the context."""
    config = dict(ctx.config) if keys is None else {key: ctx.config[key] for key in keys}
    return f"apass {_own_version()}: {name}@{version}{{{fingerprint_value(options)}}}[{fingerprint_value(config)}]"
