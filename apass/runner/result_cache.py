"""The cache of the results of `cacheable` passes and pipelines in a store."""

import json
import sys
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from types import FunctionType
from typing import Any, Final, Protocol, TypeVar, cast

from apass.concurrency.coroutines import is_awaitable
from apass.core.adapter import (
    adapter_by_name,
    adapter_for,
    exact_fingerprint,
    extract_into,
    facts_of,
    load_with_facts,
    run_in_thread_if_safe,
    type_name,
)
from apass.core.changes import CHANGES
from apass.core.config import ConfigKey, config_key
from apass.core.context import PassContext
from apass.core.run import current_run
from apass.core.store import REQUESTS, CacheRequest, FaultTolerantStore, ModuleResults, stored_identity
from apass.runner.error_policy import watch_failures
from apass.util.fingerprint import fingerprint_value
from apass.util.imported_names import find_imported

__all__ = ["key_of", "own_version", "short_text", "store_key", "with_function_cache", "with_module_cache"]

T = TypeVar("T")

_LONGEST_TEXT: Final = 60
"""Characters of a value in the recorded parts of a key; a longer one is recorded as its fingerprint."""
_SCALARS: Final = frozenset((bool, int, float, str, bytes, type(None)))
_SAME: Final = b"same"
"""Stored for a result that is the input itself."""
_STORED: Final = b"key:"
"""The start of a result that is stored under another key, which follows."""
_OTHER: Final = b"new:"
"""The start of the header of any other stored result, and of the function in it."""


KeyParts = Callable[[], Mapping[str, str]]
"""Returns the parts of the key of a pass, as short texts by name."""


class _Slot(Protocol):
    """Where the store has one result."""

    key: str
    """The key of the result, which only equal calls share."""
    pass_key: str
    """The digest of the key of the pass."""
    fingerprint: str
    """The fingerprint of the input."""

    async def read(self, load: Callable[[bytes], Any]) -> Any:
        """Return what `load` makes of the stored bytes, or None."""
        ...

    async def write(self, data: bytes) -> None:
        """Store the bytes."""
        ...


class _Computation:
    """A result that this task computes, within others."""

    __slots__ = ("keys", "lists")

    def __init__(self, key: str, outer: "_Computation | None") -> None:
        self.keys: frozenset[str] = frozenset((key,)) if outer is None else outer.keys | {key}
        """The keys of this result and of the outer ones."""
        self.lists: dict[ModuleResults, None] = {} if outer is None else outer.lists
        """The lists that the outermost computation writes at its end."""


_COMPUTING: ContextVar[_Computation | None] = ContextVar("apass_computing", default=None)


def with_module_cache(
    work: Callable[[T, PassContext], Any], key: str, store: FaultTolerantStore, parts: KeyParts
) -> Callable[[T, PassContext], Any]:
    """Return the work of a pass that looks up the store first, and stores its result.

    Parameters:
        work: called as `work(mod, ctx)`; plain or async.
        key: what the result depends on beside the module.
        store: where results are.
        parts: returns the parts of the key, which the store records.

    """

    async def run(mod: T, ctx: PassContext) -> T:
        adapter = adapter_for(mod)
        known = store.run_results()
        module = known.module if known.mod is mod else None
        if module is None:
            fingerprint = await run_in_thread_if_safe(adapter, mod, partial(exact_fingerprint, adapter, mod))
            module = store.module_results(fingerprint)
            known.mod, known.module = mod, module
        slot = _ModuleSlot(store, key, module)

        def load(data: bytes) -> Any:
            if data.startswith(_STORED):
                return store.read(data[len(_STORED) :].decode(), load)
            return mod if data == _SAME else run_in_thread_if_safe(adapter, None, partial(_read_module, adapter, data))

        async def compute() -> tuple[T, bytes | None]:
            with watch_failures() as failures:
                outcome: Any = work(mod, ctx)
                new: T = await outcome if is_awaitable(outcome) else outcome
            # A result that `on_error` recovered may be another one next time.
            if new is None or is_awaitable(new) or failures.seen:
                return new, None
            if new is mod:
                return new, _SAME
            # The last pass of a pipeline has usually stored the same module.
            if known.stored is not None and known.stored[0] is new and known.stored[1] is adapter:
                return new, _STORED + known.stored[2].encode()
            data = await run_in_thread_if_safe(adapter_for(new), new, partial(_module_bytes, adapter, new))
            slot.written = partial(setattr, known, "stored", (new, adapter, slot.key))
            return new, data

        return await _stored_or_computed(store, slot, ctx, load, compute, parts)

    return run


class _ModuleSlot:
    """The result of a pass for a module.

    It is in the list of the results for the module. If it differs from the module, it is stored under its own key too.
    """

    __slots__ = ("_module", "_store", "fingerprint", "key", "pass_key", "written")

    def __init__(self, store: FaultTolerantStore, pass_key: str, module: ModuleResults) -> None:
        self.pass_key = _pass_name(pass_key)
        self.fingerprint = module.fingerprint
        self._store = store
        self._module = module
        self.key = store_key(self.pass_key, module.fingerprint)
        self.written: Callable[[], None] | None = None
        """Called when a result that differs is stored."""

    async def read(self, load: Callable[[bytes], Any]) -> Any:
        changes = await self._module.find(self.pass_key)
        if changes is None:
            return None
        return await self._store.read(self.key, load) if changes else load(_SAME)

    async def write(self, data: bytes) -> None:
        computation = _COMPUTING.get()
        if data == _SAME:
            self._module.add(self.pass_key, changes=False)
            if computation is not None:
                # Its end is the next occasion to write. Until then, a crash costs only results that are the input.
                computation.lists[self._module] = None
                return
        elif await self._store.put(self.key, data):
            self._module.add(self.pass_key, changes=True)
            if self.written is not None:
                self.written()
        await self._module.write()


def with_function_cache(
    body: Callable[..., Any], key: str, store: FaultTolerantStore, parts: KeyParts
) -> Callable[..., Any]:
    """Return the body of a function pass, with its results cached in a store.

    Parameters:
        body: called as `body(func, mod, ctx)`; plain or async.
        key: what the result depends on beside the function.
        store: where results are.
        parts: returns the parts of the key, which the store records.

    """

    async def run(func: Any, mod: Any, ctx: PassContext) -> Any:
        adapter = adapter_for(mod)
        current = current_run()
        name = "" if current is None or current.function is None else current.function
        slot = _FunctionSlot(store, _pass_name(key), exact_fingerprint(adapter, func))

        def load(data: bytes) -> Any:
            return func if data == _SAME else _read_function(adapter, data, mod)

        async def compute() -> tuple[Any, bytes | None]:
            result = body(func, mod, ctx)
            new = await result if is_awaitable(result) else result
            if new is None or is_awaitable(new):
                return new, None
            if new is func:
                return new, _SAME
            return new, _function_bytes(adapter, mod, name, new)

        return await _stored_or_computed(store, slot, ctx, load, compute, parts)

    return run


class _FunctionSlot:
    """The result of a pass for a function."""

    __slots__ = ("_store", "fingerprint", "key", "pass_key")

    def __init__(self, store: FaultTolerantStore, pass_key: str, fingerprint: str) -> None:
        self._store = store
        self.pass_key = pass_key
        self.fingerprint = fingerprint
        self.key = store_key(pass_key, fingerprint)

    async def read(self, load: Callable[[bytes], Any]) -> Any:
        return await self._store.read(self.key, load)

    async def write(self, data: bytes) -> None:
        await self._store.put(self.key, data)


async def _stored_or_computed(
    store: FaultTolerantStore,
    slot: _Slot,
    ctx: PassContext,
    load: Callable[[bytes], Any],
    compute: Callable[[], Awaitable[tuple[T, bytes | None]]],
    parts: KeyParts,
) -> T:
    """Return a result from the store, from an equal running call, or a new one.

    Parameters:
        store: where results are.
        slot: where the store has this result.
        ctx: the context, which counts the results.
        load: returns the result that bytes contain; None if it cannot be read here.
        compute: returns a new result with its bytes; None in place of these if it must not be stored.
        parts: returns the parts of the key, which the store records with a new result.

    """
    outer = _COMPUTING.get()
    # A pass that calls itself with an equal module would wait for itself forever.
    if outer is not None and slot.key in outer.keys:
        return (await compute())[0]
    own: list[T] = []

    async def find() -> bytes | None:
        data: bytes | None = None

        def load_and_keep(value: bytes) -> Any:
            nonlocal data
            data = value
            return load(value)

        stored: T | None = await slot.read(load_and_keep)
        if stored is not None:
            ctx.analyses.counts["pass stored"] += 1
            _log(slot, is_stored=True)
            own.append(stored)
            return data
        _log(slot, is_stored=False)
        computation = _Computation(slot.key, outer)
        token = _COMPUTING.set(computation)
        try:
            result, data = await compute()
        except Exception:
            if outer is None:
                await _write_lists(computation)
            raise
        finally:
            _COMPUTING.reset(token)
        own.append(result)
        if data is not None:
            await _write(store, slot, data, parts)
        if outer is None:
            await _write_lists(computation)
        return data

    shared = await store.flights.get(slot.key, find)
    if own:
        return own[0]
    if shared is not None:
        # Bytes are shared rather than the result, because a function may refer to objects of its own module.
        outcome: Any = load(shared)
        loaded: T | None = await outcome if is_awaitable(outcome) else outcome
        if loaded is not None:
            ctx.analyses.counts["pass shared"] += 1
            _log(slot, is_stored=True)
            return loaded
    # The other call recovered from a failure: this one may succeed.
    result, data = await compute()
    if data is not None:
        await _write(store, slot, data, parts)
    return result


async def _write(store: FaultTolerantStore, slot: _Slot, data: bytes, parts: KeyParts) -> None:
    await slot.write(data)
    run = current_run()
    if run is not None:
        await store.record_key(run.info.name, slot.pass_key, parts)


def _log(slot: _Slot, *, is_stored: bool) -> None:
    """Log a request; a result of an equal running call counts as stored."""
    changes, requests = CHANGES.get(), REQUESTS.get()
    if changes is None and requests is None:
        return
    run = current_run()
    if run is None:
        return
    if changes is not None and is_stored:
        changes.record_stored(run.info.name)
    if requests is not None:
        requests.append(CacheRequest(run, slot.pass_key, slot.fingerprint, is_stored))


async def _write_lists(computation: _Computation) -> None:
    for module in computation.lists:
        await module.write()


def _function_bytes(adapter: Any, mod: Any, name: str, func: Any) -> bytes:
    """Return a function as bytes: its name, and a module that holds nothing else."""
    isolated = adapter.isolate(adapter.replace(mod, {name: func}), [name])
    return _with_head(name, _module_bytes(adapter, isolated))


def _read_function(adapter: Any, data: bytes, mod: Any) -> Any:
    name, body = _split_head(data)
    sub = _read_module(adapter, body)
    return None if sub is None else extract_into(adapter, sub, [name], mod)[name]


def _module_bytes(adapter: Any, mod: Any) -> bytes:
    """Return a module as bytes, with a header of its type and facts.

    Facts are what the `dumps` of its adapter omits. The type is null if `adapter` reads it; a pass may return a module
    of another IR.
    """
    module_adapter: Any = adapter_for(mod)
    kind = None if module_adapter is adapter else type_name(mod)
    return _with_head([kind, facts_of(module_adapter, mod)], module_adapter.dumps(mod))


def _read_module(adapter: Any, data: bytes) -> Any:
    """Return the module, None if no adapter knows its type.

    Raises:
        Exception: any error, if `data` is not what `_module_bytes` returned.

    """
    (kind, facts), body = _split_head(data)
    module_adapter: Any = adapter if kind is None else adapter_by_name(kind)
    if module_adapter is None:
        return None
    return load_with_facts(module_adapter, body, facts)


def _with_head(head: object, data: bytes) -> bytes:
    text = json.dumps(head).encode()
    return b"".join((_OTHER, len(text).to_bytes(4, "big"), text, data))


def _split_head(data: bytes) -> tuple[Any, bytes]:
    start = len(_OTHER) + 4
    if not data.startswith(_OTHER) or len(data) < start:
        raise ValueError("the value has no header")
    end = start + int.from_bytes(data[len(_OTHER) : start], "big")
    return json.loads(data[start:end]), data[end:]


@lru_cache(maxsize=1024)
def _pass_name(pass_key: str) -> str:
    return sha256(pass_key.encode()).hexdigest()[:32]


def store_key(pass_key: str, fingerprint: str) -> str:
    """Return where a store has the result of a pass.

    Parameters:
        pass_key: the digest of the key of the pass.
        fingerprint: the fingerprint of the module or the function.

    """
    return f"pass/6/{pass_key}/{fingerprint}"


@cache
def own_version() -> str:
    """Return the version of apass, which is part of every key."""
    try:
        return version_of("apass")
    except PackageNotFoundError:
        return "unknown"


def key_of(name: str, version: str, state: object, ctx: PassContext, keys: Sequence[ConfigKey] | None) -> str | None:
    """Return the cache key of a pass; None with a StoreWarning if it cannot be cached.

    Parameters:
        name: the name and the definition of the pass.
        version: the version of the pass.
        state: its options, its code, and the analyses that it requires.
        ctx: the context.
        keys: the relevant config options; None for all that are set.

    """
    config = dict(ctx.config) if keys is None else {config_key(key): ctx.config[key] for key in keys}
    contents = state, ctx.opt_level, config
    plain = _as_plain(contents)
    identity = stored_identity(f"pass {name}", contents) if plain is None else _plain_identity(name, plain)
    return None if identity is None else f"apass {own_version()}: {name}@{version} {identity}"


def short_text(value: object) -> str:
    """Return a short text of a value in a key, which differs for different values."""
    text = repr(value) if type(value) in _SCALARS or _as_plain(value) is not None else ""
    return text if text and len(text) <= _LONGEST_TEXT and " at 0x" not in text else f"#{fingerprint_value(value)[:12]}"


@lru_cache(maxsize=1024)
def _plain_identity(name: str, plain: "_Plain") -> str | None:
    """Return `stored_identity` of scalars, classes and functions.

    A context runs a pass on thousands of modules, and a fingerprint takes as long as a small pass.
    """
    return stored_identity(f"pass {name}", plain.value)


class _Plain:
    """A value with a hashable copy of its contents."""

    __slots__ = ("key", "value")

    def __init__(self, value: object, key: Hashable) -> None:
        self.value = value
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plain) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def _as_plain(value: object) -> _Plain | None:
    key = _plain_key(value)
    return None if key is None else _Plain(value, key)


def _plain_key(value: object) -> Hashable | None:
    """Return a key that is equal only for equal contents; None if there is none."""
    kind = type(value)
    if kind in _SCALARS:
        # The type distinguishes 1 from True, and the text 0.0 from -0.0.
        return kind, repr(value) if kind is float else value
    if kind is tuple or kind is list:
        if not value:
            return kind
        items = [_plain_key(item) for item in cast("Sequence[object]", value)]
        return None if None in items else (kind, *items)
    if kind is dict:
        pairs = [_plain_key(pair) for pair in cast("dict[object, object]", value).items()]
        return None if None in pairs else (kind, frozenset(pairs))
    if isinstance(value, FunctionType):
        return _function_key(value)
    # A local class is identified by its members, which may change.
    return (type, value) if isinstance(value, type) and _is_imported(value) else None


def _function_key(function: FunctionType) -> Hashable | None:
    """Return a key of code, defaults and closure.

    It is None if the closure has other values than scalars.
    """
    if hasattr(function, "__fingerprint__"):
        return None
    name = (FunctionType, function.__module__, function.__qualname__)
    if _is_imported(function):
        return name
    cells: list[object] = []
    try:
        cells += [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a variable is not assigned yet
        return None
    # Other contents may refer to the function itself.
    if any(type(value) not in _SCALARS for value in cells):
        return None
    state = _plain_key([cells, function.__defaults__, function.__kwdefaults__])
    return None if state is None else (*name, function.__code__, state)


def _is_imported(value: type | FunctionType) -> bool:
    """Return whether module and qualified name lead to a class or function."""
    module = sys.modules.get(value.__module__)
    if module is not None and vars(module).get(value.__qualname__) is value:
        return True
    return find_imported(f"{value.__module__}:{value.__qualname__}") is value
