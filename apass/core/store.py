"""`Store`: the protocol of persistent result caches, which hold bytes by key."""

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import blake2b
from threading import local
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast, final, runtime_checkable
from weakref import WeakKeyDictionary, WeakValueDictionary

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.run_locals import RunLocal
from apass.concurrency.single_flight import SingleFlight
from apass.core.run import Run, current_run
from apass.errors import StoreError, StoreWarning
from apass.util.fingerprint import fingerprint_value
from apass.util.identity_cache import IdentityCache
from apass.util.text import shorten

__all__ = [
    "REQUESTS",
    "SEAL_SIZE",
    "CacheRequest",
    "FaultTolerantStore",
    "ModuleResults",
    "RunResults",
    "SharedStore",
    "Store",
    "StoreInfo",
    "seal",
    "stored_identity",
    "unseal",
]

R = TypeVar("R")

PAUSE_SECONDS: Final = 30.0
"""Seconds to wait before retrying a store that failed."""
SEAL_SIZE: Final = 16
"""Number of bytes by which `seal` makes a value longer."""
MAX_LISTED: Final = 1000
"""Maximum number of results that are listed for one module; the oldest are dropped."""
_PROGRAMMING_ERRORS: Final = (AssertionError, AttributeError, ImportError, NameError, NotImplementedError, TypeError)
"""Errors of a store that no outage causes, so that they must not be hidden behind a warning."""


class CacheRequest(NamedTuple):
    """One request for the result of a pass, for a module or a function."""

    run: Run
    """The run of the pass, or of the body."""
    key: str
    """The digest of the key of the pass."""
    fingerprint: str
    """The fingerprint of the module or the function."""
    is_stored: bool
    """Whether the store had the result."""


REQUESTS: Final[RunLocal[list[CacheRequest] | None]] = RunLocal("cache_requests", None)
"""The requests of this task so far; None if nothing reads them."""


def seal(key: str, value: bytes) -> bytes:
    """Return `value` after a digest of key and value, for `unseal`."""
    # A name may hold surrogates, as names of files do.
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=SEAL_SIZE, person=b"apass store")
    # The size separates key and value: the key "a" with b"bc" differs from the key "ab" with b"c".
    digest.update(len(value).to_bytes(8, "big"))
    digest.update(value)
    return digest.digest() + value


def unseal(key: str, data: object, store_name: str) -> bytes | None:
    """Return the value sealed under `key`; None with a StoreWarning if damaged.

    >>> unseal("key", seal("key", b"value"), "store")
    b'value'
    """
    if isinstance(data, bytes):
        value = data[SEAL_SIZE:]
        if seal(key, value) == data:
            return value
    message = f"the value of {key!r} in {store_name} is damaged; it is computed again"
    warnings.warn(message, StoreWarning, stacklevel=2)
    return None


def stored_identity(owner: str, value: object) -> str | None:
    """Return a fingerprint for a key; None with a StoreWarning if there is none.

    Only the identity distinguishes some objects. Their results must not be stored, because an object that changes keeps
    its identity.

    Parameters:
        owner: what the results belong to, for the warning.
        value: what the results depend on.

    """
    unknown: list[object] = []
    fingerprint = fingerprint_value(value, unknown)
    if not unknown:
        return fingerprint
    kind = f"{type(unknown[0]).__module__}.{type(unknown[0]).__qualname__}"
    message = f"results of {owner} are not stored: they depend on an object of type {kind}, which has no fingerprint"
    warnings.warn(f"{message}; define __fingerprint__ on its class, or do not use it", StoreWarning, stacklevel=2)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreInfo:
    """The location and size of a store."""

    place: str
    """A human-readable location."""
    entries: int
    """The number of results."""
    size: int
    """The total size of the results in bytes."""


@runtime_checkable
class Store(Protocol):
    """Holds bytes by key; see `apass.stores` for implementations.

    A store may lose entries. A context notices entries that were changed, because it seals each value with a digest of
    key and value. A store with the attribute `seals = True` does that itself, and is not sealed once more.

    One object may serve many tasks at once. If the store is unavailable, its methods raise StoreError, or any other
    error that is no mistake in the code, such as an OSError. It is a Protocol, so that a store needs no base class of
    apass.
    """

    async def get(self, key: str) -> bytes | None:
        """Return the latest value put under `key`, or None."""
        ...

    async def put(self, key: str, value: bytes) -> None:
        """Store `value` under `key`."""
        ...

    async def info(self) -> StoreInfo:
        """Return the location and size of the store."""
        ...

    async def clear(self) -> None:
        """Remove all entries."""
        ...


@runtime_checkable
class SharedStore(Store, AbstractAsyncContextManager[Any], Protocol):
    """A store that several processes use, such as a file; `async with` opens it.

    A pass that runs as a whole in a worker reads and stores its results there too.
    """

    def for_worker(self) -> Callable[[], "SharedStore"]:
        """Return a function that creates the same store in a worker; it is pickled."""
        ...


@final
class ModuleResults:
    """The list of the results that a store has for one module.

    One value of the store holds the list, with all results that are the module itself. A pipeline that finds nothing,
    or changes nothing, therefore reads and writes one value, rather than one for each of its passes.

    Several processes may write the list at once, and the results of one are then lost for the others.
    """

    __slots__ = ("__weakref__", "_added", "_changes", "_store", "fingerprint")

    def __init__(self, store: "FaultTolerantStore", fingerprint: str) -> None:
        self.fingerprint: Final = fingerprint
        """The fingerprint of the module."""
        self._store = store
        self._changes: dict[str, bool] | None = None
        self._added: dict[str, bool] = {}

    async def find(self, pass_name: str) -> bool | None:
        """Return whether the result of a pass differs from the module; None if unknown."""
        return (await self.known()).get(pass_name)

    async def known(self) -> Mapping[str, bool]:
        """Return, for each pass with a result, whether it differs from the module."""
        if self._changes is None:
            changes = await self._read()
            # Another task may have read the list, and added to it.
            self._changes = {**changes, **(self._changes or {}), **self._added}
        return self._changes

    def add(self, pass_name: str, *, changes: bool) -> None:
        """Add a result; `write` stores it."""
        self._added[pass_name] = changes
        if self._changes is not None:
            self._changes[pass_name] = changes

    async def write(self) -> None:
        """Store the added results, beside those that others have stored since."""
        if not self._added:
            return
        # Taken before the wait, in which other tasks may add more.
        added, self._added = self._added, {}
        changes = {**await self._read(), **added}
        for pass_name in list(changes)[:-MAX_LISTED]:
            del changes[pass_name]
        await self._store.put(self._key(), json.dumps(changes).encode())

    async def _read(self) -> dict[str, bool]:
        return await self._store.read(self._key(), _parsed_list) or {}

    def _key(self) -> str:
        return f"module/1/{self.fingerprint}"


def _parsed_list(data: bytes) -> dict[str, bool]:
    # A store is untrusted: another program may have written the value.
    changes = json.loads(data)
    if not isinstance(changes, dict):
        raise TypeError(f"expected a JSON object, got {type(changes).__name__}")
    return cast("dict[str, bool]", changes)


@final
class RunResults:
    """What an outermost run knows of its current module and of its last result."""

    __slots__ = ("mod", "module", "stored")

    def __init__(self) -> None:
        self.mod: object = None
        """The module, as passes see it."""
        self.module: ModuleResults | None = None
        """The results for it."""
        self.stored: tuple[object, object, str] | None = None
        """The last result that was stored: the module, the adapter that reads it, and the key."""


class _Running(local):
    """The running computations; one instance per thread, as each has its own loop."""

    def __init__(self) -> None:
        self.flights: SingleFlight[str, bytes | None] = SingleFlight()
        self.runs: WeakKeyDictionary[Run, RunResults] = WeakKeyDictionary()
        self.modules: WeakValueDictionary[str, ModuleResults] = WeakValueDictionary()


class FaultTolerantStore:
    """A wrapper that treats a failing store as an empty one.

    If the store fails, a StoreWarning is emitted, and the store is not used for the next 30 seconds. A value that is
    damaged, or cannot be read, counts as missing, also with a StoreWarning.

    Values are sealed here, so that every store is checked, unless the store seals its values itself.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = f"the store {type(store).__qualname__}"
        self._seals = not getattr(store, "seals", False)
        self._retry_at = 0.0
        self._running = _Running()

    @property
    def flights(self) -> SingleFlight[str, bytes | None]:
        """The running computations of results by key, for the event loop of this thread."""
        return self._running.flights

    async def record_key(self, pass_name: str, key: str, parts: Callable[[], Mapping[str, str]]) -> None:
        """Record what a key of a pass is made of, for explanations; once in a process.

        Parameters:
            pass_name: the name of the pass.
            key: the digest of its key.
            parts: returns the parts of the key by name, as short texts; none if the key is not recorded.

        """
        recorded = _RECORDED.get(self._store)
        if recorded is None:
            recorded = set[str]()
            _RECORDED.keep(self._store, recorded)
        if key in recorded:
            return
        # Before the wait, so that concurrent passes record it once.
        recorded.add(key)
        described = parts()
        if described:
            keys = {**await self.recorded_keys(pass_name), key: dict(described)}
            latest = dict(list(keys.items())[-_MAX_RECORDED:])
            await self.put(_record_name(pass_name), json.dumps(latest).encode())

    async def recorded_keys(self, pass_name: str) -> Mapping[str, Mapping[str, str]]:
        """Return the latest keys of the passes of a name, with their parts, oldest first."""
        return await self.read(_record_name(pass_name), _parsed_record) or {}

    def run_results(self) -> RunResults:
        """Return what the outermost run knows.

        Passes do not change modules. Between two runs, the user may.
        """
        run = current_run()
        if run is None:
            return RunResults()
        while run.parent is not None:
            run = run.parent
        results = self._running.runs.get(run)
        if results is None:
            results = self._running.runs[run] = RunResults()
        return results

    def module_results(self, fingerprint: str) -> ModuleResults:
        """Return the list of the results for a module, one object for all tasks."""
        results = self._running.modules.get(fingerprint)
        if results is None:
            results = self._running.modules[fingerprint] = ModuleResults(self, fingerprint)
        return results

    async def get(self, key: str) -> bytes | None:
        """Return the latest value put under `key`, or None, also if the store fails."""
        # Without the pause, each of a thousand functions would wait for the timeout of a server that is down.
        if monotonic() < self._retry_at:
            return None
        try:
            data: object = await self._store.get(key)
        except Exception as error:
            self._give_up(error)
            return None
        if data is None or (isinstance(data, bytes) and not self._seals):
            return data
        return unseal(key, data, self._name)

    async def read(self, key: str, load: Callable[[bytes], R | Awaitable[R | None] | None]) -> R | None:
        """Return what `load` makes of the value under `key`; None if it raises an error."""
        value = await self.get(key)
        if value is None:
            return None
        try:
            result: Any = load(value)
            return cast("R | None", await result if is_awaitable(result) else result)
        except Exception as error:
            # The code that reads the bytes may raise any error if it did not write them.
            message = f"the value of {key!r} in {self._name} cannot be read ({_reason(error)}); it is computed again"
            warnings.warn(message, StoreWarning, stacklevel=2)
            return None

    async def put(self, key: str, value: bytes) -> bool:
        """Store `value` under `key`; return False if the store fails."""
        if monotonic() < self._retry_at:
            return False
        try:
            await self._store.put(key, seal(key, value) if self._seals else value)
        except Exception as error:
            self._give_up(error)
            return False
        return True

    def _give_up(self, error: Exception) -> None:
        """Warn, and pause.

        Raises:
            Exception: `error`, if it is a mistake in the code of the store.

        """
        if _is_programming_error(error):
            raise error
        now = monotonic()
        if now < self._retry_at:
            return  # a concurrent call has failed too, and has emitted the warning
        self._retry_at = now + PAUSE_SECONDS
        message = str(error) if isinstance(error, StoreError) else f"{self._name} failed: {_reason(error)}"
        warnings.warn(f"{message}; continuing without the store", StoreWarning, stacklevel=2)


_MAX_RECORDED: Final = 16
"""Maximum number of recorded keys for one name of a pass; the oldest are dropped."""
_RECORDED: Final = IdentityCache[set[str]](held=16)
"""The keys that this process has recorded in each store."""


def _record_name(pass_name: str) -> str:
    return f"keys/1/{blake2b(pass_name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _parsed_record(data: bytes) -> dict[str, dict[str, str]]:
    keys = json.loads(data)
    if not isinstance(keys, dict) or not all(
        isinstance(parts, dict) for parts in cast("dict[str, Any]", keys).values()
    ):
        raise TypeError("expected a JSON object of objects")
    return {
        str(key): {str(name): str(text) for name, text in cast("dict[object, object]", parts).items()}
        for key, parts in cast("dict[str, Any]", keys).items()
    }


def _is_programming_error(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_programming_error, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, _PROGRAMMING_ERRORS)


def _reason(error: Exception) -> str:
    return shorten(f"{type(error).__name__}: {error}")
