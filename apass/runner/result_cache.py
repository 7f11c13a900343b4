"""Whole results of passes kept in a store: for passes that say they are `cacheable`, and pipelines made of them."""

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from typing import Any, Final, TypeVar

from apass.concurrency.coroutines import is_awaitable
from apass.core.adapter import adapter_by_name, adapter_for, aside, exact_fingerprint, extract_into, type_name
from apass.core.context import PassContext
from apass.core.run import current_run
from apass.core.store import ForgivingStore
from apass.runner.error_policy import watch_failures
from apass.transformer import Transformer
from apass.util.fingerprint import fingerprint_value

__all__ = ["cached", "key_of", "own_version", "with_cache"]

T = TypeVar("T")

_SAME: Final = b"same"
"""Kept for a result that is what went in."""
_OTHER: Final = b"new:"
"""Begins what is kept for another result."""


def cached(pass_: Transformer[T], ctx: PassContext) -> Transformer[T]:
    """Return a pass that does what `pass_` does, and looks in the context's store before; itself if it may not.

    A pass made of passes is one result only where no instrument is in force that would not see the passes in it.
    """
    store = ctx.results
    key = None if store is None else pass_.cache_key(ctx)
    return pass_ if key is None or store is None else _Cached(pass_, key, store)


class _Cached(Transformer[T]):
    """A pass that looks in a store before it works."""

    def __init__(self, pass_: Transformer[T], key: str, store: ForgivingStore) -> None:
        self.info = pass_.info
        self.preserves = pass_.preserves
        self._pass = pass_
        self._key = key
        self._store = store

    async def transform(self, mod: T, ctx: PassContext) -> T:
        """Return the kept result, or work and keep it."""
        adapter = adapter_for(mod)
        name = _full_key(self._key, await aside(adapter, partial(exact_fingerprint, adapter, mod)))
        kept = await self._store.get(name)
        if kept is not None:
            found = mod if kept == _SAME else await aside(adapter, partial(_read, adapter, kept[len(_OTHER) :]))
            if found is not None:
                ctx.analyses.counts["pass stored"] += 1
                return found
        with watch_failures() as failures:
            result: Any = self._pass.transform(mod, ctx)
            made: T = await result if is_awaitable(result) else result
        if made is None or failures.seen:
            return made
        data = _SAME if made is mod else _OTHER + await aside(adapter_for(made), partial(_written, adapter, made))
        await self._store.put(name, data)
        return made

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the key that it was made with."""
        return self._key

    def is_cut_as_one(self) -> bool:
        """Do as the pass."""
        return self._pass.is_cut_as_one()


def with_cache(body: Callable[..., Any], pass_key: str, store: ForgivingStore) -> Callable[..., Any]:
    """Return the body of a function pass that looks in `store` before it works on a function."""

    async def run(func: Any, mod: Any, ctx: PassContext) -> Any:
        adapter = adapter_for(mod)
        place = current_run()
        name = "" if place is None or place.function is None else place.function
        key = _full_key(pass_key, exact_fingerprint(adapter, func))
        kept = await store.get(key)
        if kept is not None:
            ctx.analyses.counts["pass stored"] += 1
            return func if kept == _SAME else _function(adapter, kept, mod)
        result = body(func, mod, ctx)
        made = await result if is_awaitable(result) else result
        if made is not None:
            await store.put(key, _SAME if made is func else _bytes(adapter, mod, name, made))
        return made

    return run


def _bytes(adapter: Any, mod: Any, name: str, func: Any) -> bytes:
    """Return a function as the bytes of a module that has nothing else, and its name there."""
    alone = adapter.isolate(adapter.replace(mod, {name: func}), [name])
    return _OTHER + _headed(name, _written(adapter, alone))


def _function(adapter: Any, kept: bytes, mod: Any) -> Any:
    name, data = _split(kept[len(_OTHER) :])
    return extract_into(adapter, _read(adapter, data), [name], mod)[name]


def _written(adapter: Any, mod: Any) -> bytes:
    """Return the bytes of a module, what they leave out as its adapter's `facts` say, and its type if `adapter` is not.

    A pass may give a module of another IR than it was given.
    """
    own: Any = adapter_for(mod)
    kind = None if own is adapter else type_name(mod)
    return _headed([kind, own.facts(mod) if hasattr(own, "facts") else None], own.dumps(mod))


def _read(adapter: Any, data: bytes) -> Any:
    """Return the module, None if its type is not to be found any more."""
    (kind, facts), body = _split(data)
    own: Any = adapter if kind is None else adapter_by_name(kind)
    if own is None:
        return None
    mod = own.loads(body)
    return mod if facts is None else own.restore(mod, facts)


def _headed(head: object, data: bytes) -> bytes:
    text = json.dumps(head).encode()
    return len(text).to_bytes(4, "big") + text + data


def _split(data: bytes) -> tuple[Any, bytes]:
    end = 4 + int.from_bytes(data[:4], "big")
    return json.loads(data[4:end]), data[end:]


def _full_key(pass_key: str, fingerprint: str) -> str:
    return f"pass/3/{sha256(pass_key.encode()).hexdigest()}/{fingerprint}"


@cache
def own_version() -> str:
    """Return the version of apass, which what is kept belongs to."""
    try:
        return version_of("apass")
    except PackageNotFoundError:
        return "unknown"


def key_of(name: str, version: str, options: object, ctx: PassContext, keys: Sequence[str] | None) -> str:
    """Return what the result of one pass depends on: name, version, options, level, and the relevant config."""
    config = dict(ctx.config) if keys is None else {key: ctx.config[key] for key in keys}
    made_with = f"{{{fingerprint_value(options)}}}[{ctx.opt_level} {fingerprint_value(config)}]"
    return f"apass {own_version()}: {name}@{version}{made_with}"
