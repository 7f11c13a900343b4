"""The cache of the results of `cacheable` passes and pipelines in a store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, TypeVar

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.run_locals import RunLocal
from apass.core.adapter import adapter_for, exact_fingerprint, run_in_thread_if_safe
from apass.core.context import PassContext
from apass.core.failures import watch_failures
from apass.core.run import current_run
from apass.core.store import REQUESTS, CacheRequest, FaultTolerantStore, ModuleResults
from apass.runner.cache_keys import KeyParts, digest_of, store_key
from apass.runner.changes import CHANGES
from apass.runner.result_format import SAME, STORED, function_bytes, module_bytes, read_function, read_module

__all__ = ["with_function_cache", "with_module_cache"]

T = TypeVar("T")


class _Slot:
    """Where the store has one result, which is under a key of its own."""

    __slots__ = ("_store", "fingerprint", "key", "pass_key")

    def __init__(self, store: FaultTolerantStore, pass_key: str, fingerprint: str) -> None:
        self._store = store
        self.pass_key = digest_of(pass_key)
        """The digest of the key of the pass."""
        self.fingerprint = fingerprint
        """The fingerprint of the input."""
        self.key = store_key(self.pass_key, fingerprint)
        """The key of the result, which only equal calls share."""

    async def read(self, load: Callable[[bytes], Any]) -> Any:
        """Return what `load` makes of the stored bytes, or None."""
        return await self._store.read(self.key, load)

    async def write(self, data: bytes) -> None:
        """Store the bytes."""
        await self._store.put(self.key, data)


class _Computation:
    """A result that this task computes, within others."""

    __slots__ = ("keys", "lists")

    def __init__(self, key: str, outer: "_Computation | None") -> None:
        self.keys: frozenset[str] = frozenset((key,)) if outer is None else outer.keys | {key}
        """The keys of this result and of the outer ones."""
        self.lists: dict[ModuleResults, None] = {} if outer is None else outer.lists
        """The lists that the outermost computation writes at its end."""

    async def write_lists(self) -> None:
        """Write the lists."""
        for module in self.lists:
            await module.write()


_COMPUTING: Final[RunLocal[_Computation | None]] = RunLocal("computing", None)


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
            if data.startswith(STORED):
                return store.read(data[len(STORED) :].decode(), load)
            return mod if data == SAME else run_in_thread_if_safe(adapter, None, partial(read_module, adapter, data))

        async def compute() -> tuple[T, bytes | None]:
            with watch_failures() as failures:
                outcome: Any = work(mod, ctx)
                new: T = await outcome if is_awaitable(outcome) else outcome
            # A result that `on_error` recovered may be another one next time.
            if new is None or is_awaitable(new) or failures.seen:
                return new, None
            if new is mod:
                return new, SAME
            # The last pass of a pipeline has usually stored the same module.
            if known.stored is not None and known.stored[0] is new and known.stored[1] is adapter:
                return new, STORED + known.stored[2].encode()
            data = await run_in_thread_if_safe(adapter_for(new), new, partial(module_bytes, adapter, new))
            slot.written = partial(setattr, known, "stored", (new, adapter, slot.key))
            return new, data

        return await _Request(store, slot, ctx, load, compute, parts).result()

    return run


class _ModuleSlot(_Slot):
    """The result of a pass for a module.

    It is in the list of the results for the module. If it differs from the module, it is stored under its own key too.
    """

    __slots__ = ("_module", "written")

    def __init__(self, store: FaultTolerantStore, pass_key: str, module: ModuleResults) -> None:
        super().__init__(store, pass_key, module.fingerprint)
        self._module = module
        self.written: Callable[[], None] | None = None
        """Called when a result that differs is stored."""

    async def read(self, load: Callable[[bytes], Any]) -> Any:
        changes = await self._module.find(self.pass_key)
        if changes is None:
            return None
        return await self._store.read(self.key, load) if changes else load(SAME)

    async def write(self, data: bytes) -> None:
        computation = _COMPUTING.get()
        if data == SAME:
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
        slot = _Slot(store, key, exact_fingerprint(adapter, func))

        def load(data: bytes) -> Any:
            return func if data == SAME else read_function(adapter, data, mod)

        async def compute() -> tuple[Any, bytes | None]:
            result = body(func, mod, ctx)
            new = await result if is_awaitable(result) else result
            if new is None or is_awaitable(new):
                return new, None
            if new is func:
                return new, SAME
            return new, function_bytes(adapter, mod, name, new)

        return await _Request(store, slot, ctx, load, compute, parts).result()

    return run


@dataclass(eq=False)
class _Request(Generic[T]):
    """One request for a result: stored, of an equal running call, or computed."""

    store: FaultTolerantStore
    """Where results are."""
    slot: _Slot
    """Where the store has this result."""
    ctx: PassContext
    """The context, which counts the results."""
    load: Callable[[bytes], Any]
    """Returns the result that bytes contain; None if it cannot be read here."""
    compute: Callable[[], Awaitable[tuple[T, bytes | None]]]
    """Returns a new result with its bytes; None in place of these if it must not be stored."""
    parts: KeyParts
    """Returns the parts of the key, which the store records with a new result."""
    outer: _Computation | None = field(default_factory=_COMPUTING.get)
    """The computation around this one."""
    own: list[T] = field(default_factory=list[Any])
    """The result, if this request has read or computed it."""

    async def result(self) -> T:
        """Return the result."""
        slot = self.slot
        # A pass that calls itself with an equal module would wait for itself forever.
        if self.outer is not None and slot.key in self.outer.keys:
            return (await self.compute())[0]
        data = await self.store.flights.get(slot.key, self._find)
        if self.own:
            return self.own[0]
        if data is not None:
            # Bytes are shared rather than the result, because a function may refer to objects of its own module.
            outcome: Any = self.load(data)
            loaded: T | None = await outcome if is_awaitable(outcome) else outcome
            if loaded is not None:
                self.ctx.analyses.counts["pass shared"] += 1
                _log(slot, is_stored=True)
                return loaded
        # The other call recovered from a failure: this one may succeed.
        result, data = await self.compute()
        await self._write(data)
        return result

    async def _find(self) -> bytes | None:
        """Read or compute the result; return its bytes, None if it must not be shared."""
        found: list[bytes] = []

        def load_and_keep(data: bytes) -> Any:
            found.append(data)
            return self.load(data)

        stored: T | None = await self.slot.read(load_and_keep)
        _log(self.slot, is_stored=stored is not None)
        if stored is not None:
            self.ctx.analyses.counts["pass stored"] += 1
            self.own.append(stored)
            return found[-1]
        computation = _Computation(self.slot.key, self.outer)
        try:
            with _COMPUTING.set_to(computation):
                result, data = await self.compute()
        except Exception:
            if self.outer is None and computation.lists:
                await computation.write_lists()
            raise
        self.own.append(result)
        await self._write(data)
        if self.outer is None and computation.lists:
            await computation.write_lists()
        return data

    async def _write(self, data: bytes | None) -> None:
        if data is None:
            return
        await self.slot.write(data)
        run = current_run()
        if run is not None:
            await self.store.record_key(run.info.name, self.slot.pass_key, self.parts)


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
