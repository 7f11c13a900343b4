"""`Analyses`: the results of analyses in one context, each computed once for equal contents however many ask."""

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from threading import RLock, local
from typing import Any, Final, Literal, TypeVar, cast

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.single_flight import SingleFlight
from apass.core.adapter import IRAdapter, adapter_of_type
from apass.core.analysis import Analysis, Options
from apass.core.run import module_at_work
from apass.core.store import ForgivingStore
from apass.errors import AnalysisError, VerifyError
from apass.util.fingerprint import Fingerprints, fingerprint_value

__all__ = ["Analyses", "Preserves", "give", "with_analyses"]

R = TypeVar("R")

Preserves = frozenset[Analysis[Any]] | Literal["all"]
"""The analyses whose results still hold for what a pass made of a function or module."""

_Adapter = IRAdapter[Any, Any]
_Key = tuple[str, Analysis[Any], Options]
"""A fingerprint, what was asked about it, and with which options."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One result."""

    value: Any
    """What the analysis returned."""
    needs: frozenset[Analysis[Any] | str]
    """The analyses that it was made from, and those that they were made from; by their keys if read from a store."""


@dataclass(slots=True)
class _Asking:
    """A computation at work, as what it asks sees it."""

    key: _Key
    """What is computed."""
    needs: set[Analysis[Any] | str]
    """What it has asked so far."""


_ASKING: ContextVar[_Asking | None] = ContextVar("apass_asking", default=None)


_GIVEN: ContextVar[tuple[object, Mapping[Analysis[Any], Any]]] = ContextVar("apass_given", default=(None, {}))


class _Work(local):
    """Computations at work, for each thread its own, as each has its own event loop."""

    def __init__(self) -> None:
        self.flights: SingleFlight[_Key, _Entry] = SingleFlight()
        self.waits: defaultdict[_Key, Counter[_Key]] = defaultdict(Counter)


class Analyses:
    """The results of one context. Passes ask by `ctx.get`.

    Parameters:
        limit: how many results are kept; those not asked for longest go first.
        store: where persistent analyses keep theirs beyond the context.
        strict: whether what passes claim to preserve is computed anew, and compared.

    """

    def __init__(self, *, limit: int = 10_000, store: ForgivingStore | None = None, strict: bool = False) -> None:
        self.counts: Final[Counter[str]] = Counter()
        """How many results were `"computed"`, a `"hit"` in memory, `"stored"` and read back, or `"preserved"`."""
        self._limit = limit
        self._store = store
        self._strict = strict
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        # In the order in which they became known, so that the same claim is found out first each time.
        self._about: defaultdict[str, dict[_Key, None]] = defaultdict(dict)
        self._prints = Fingerprints()
        self._lock = RLock()
        self._work = _Work()

    def __len__(self) -> int:
        """Return how many results are kept."""
        return len(self._entries)

    async def get(self, asked: Analysis[R], x: object, ctx: object, options: Mapping[str, Hashable]) -> R:
        """Return what the analysis says about `x`: kept, from the store, or computed.

        Raises:
            AnalysisError: if an option cannot be hashed, or the analysis asks its way back to itself.
            Exception: what the analysis raised; it is not kept.

        """
        key = self._key(asked, x, options)
        asking = _ASKING.get()
        entry = self._entries.get(key)
        if entry is not None:
            with suppress(KeyError):  # another thread may have needed the room
                self._entries.move_to_end(key)
            self.counts["hit"] += 1
        else:
            entry = await self._wait_for(key, asking, partial(self._find, key, x, ctx))
        if asking is not None:
            asking.needs |= {asked, *entry.needs}
        return cast("R", entry.value)

    def got(self, asked: Analysis[R], x: object, options: Mapping[str, Hashable]) -> R:
        """Return what is known; AnalysisError if it is not: it was not asked for, or there was no more room."""
        about, results = _GIVEN.get()
        if about is x and asked in results and not options:
            return cast("R", results[asked])
        entry = self._entries.get(self._key(asked, x, options))
        if entry is None:
            raise AnalysisError(
                f"the result of {asked.name} is not there: name it in the pass's `required`, or `await ctx.get(...)`"
            )
        return cast("R", entry.value)

    async def carry(
        self,
        pass_name: str,
        preserves: Preserves,
        pairs: Sequence[tuple[Any, Any]],
        ctx: object,
        adapters: tuple[_Adapter, _Adapter],
    ) -> None:
        """Take over the results about each old object that hold for its new one, as `preserves` says.

        The objects are modules and functions of the `adapters`. A result that was made from another is taken over only
        if that one is preserved too.

        Raises:
            VerifyError: with `strict`, if the new object has another result.

        """
        chosen = None if preserves == "all" else {one for known in preserves for one in (known, known.key)}
        for old, new in pairs:
            before, after = self._print(old, adapters[0]), self._print(new, adapters[1])
            if before == after:
                continue
            for kept, options, entry in self._preserved(before, chosen):
                if self._strict:
                    await self._check(pass_name, kept, entry, new, ctx, options)
                self._keep((after, kept, options), entry)
                self.counts["preserved"] += 1

    def _preserved(self, about: str, chosen: Set[Any] | None) -> Iterator[tuple[Analysis[Any], Options, _Entry]]:
        """Go over the results about what has that fingerprint, as far as all that went into them is `chosen`."""
        for key in list(self._about.get(about, ())):
            entry = self._entries.get(key)  # the others may have needed the room
            _, kept, options = key
            if entry is not None and (chosen is None or chosen >= {kept, *entry.needs}):
                yield kept, options, entry

    async def _check(
        self, pass_name: str, kept: Analysis[Any], entry: _Entry, new: Any, ctx: object, options: Options
    ) -> None:
        value = await kept.compute(new, ctx, {name: value for name, value, _ in options})
        if not _is_alike(value, entry.value):
            raise VerifyError(
                f"pass {pass_name!r} claims to preserve {kept.name}, but that was {entry.value!r} and is {value!r}"
            )

    async def _wait_for(self, key: _Key, asking: _Asking | None, find: Callable[[], Awaitable[_Entry]]) -> _Entry:
        """Wait for a computation, our own or one that somebody else is at."""
        if asking is None:
            return await self._work.flights.get(key, find)
        if self._reaches(key, asking.key):
            raise AnalysisError(f"the analysis {asking.key[1].name} asks its way back to itself, through {key[1].name}")
        waits = self._work.waits[asking.key]
        waits[key] += 1
        try:
            return await self._work.flights.get(key, find)
        finally:
            waits[key] -= 1
            if not +waits:
                self._work.waits.pop(asking.key, None)

    def _reaches(self, start: _Key, goal: _Key) -> bool:
        """Tell whether the computation `start` waits, by way of others, for `goal`."""
        seen, left = set[_Key](), [start]
        while left:
            key = left.pop()
            if key == goal:
                return True
            if key not in seen:
                seen.add(key)
                left += [one for one, count in self._work.waits.get(key, Counter[_Key]()).items() if count]
        return False

    async def _find(self, key: _Key, x: object, ctx: object) -> _Entry:
        known = self._entries.get(key)  # somebody may have been faster
        if known is not None:
            return known
        _, asked, options = key
        kept = self._store if asked.persistent else None
        entry = None if kept is None else await self._stored(kept, key)
        if entry is None:
            entry = await self._computed(key, x, ctx, options)
            if kept is not None:
                await kept.put(_store_key(key), _write(asked, entry))
        self._keep(key, entry)
        return entry

    async def _computed(self, key: _Key, x: object, ctx: object, options: Options) -> _Entry:
        asking = _Asking(key, set())
        token = _ASKING.set(asking)
        try:
            value = await key[1].compute(x, ctx, {name: value for name, value, _ in options})
        finally:
            _ASKING.reset(token)
        self.counts["computed"] += 1
        return _Entry(value, frozenset(asking.needs))

    async def _stored(self, store: ForgivingStore, key: _Key) -> _Entry | None:
        data = await store.get(_store_key(key))
        if data is None:
            return None
        self.counts["stored"] += 1
        needs, _, body = data.partition(b"\n")
        return _Entry(key[1].loads(body), frozenset(json.loads(needs)))

    def _keep(self, key: _Key, entry: _Entry) -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            self._about[key[0]][key] = None
            while len(self._entries) > self._limit:
                gone, _ = self._entries.popitem(last=False)
                self._about[gone[0]].pop(gone, None)
                if not self._about[gone[0]]:
                    del self._about[gone[0]]

    def _key(self, asked: Analysis[Any], x: object, options: Mapping[str, Hashable]) -> _Key:
        if not isinstance(asked, Analysis):
            raise AnalysisError(f"{asked!r} is no analysis; make it one with @apass.analysis")
        typed = tuple((name, options[name], type(options[name])) for name in sorted(options)) if options else ()
        key = (self._print(x), asked, typed)
        if options:
            _check_hashable(asked, options)
        return key

    def _print(self, x: object, adapter: _Adapter | None = None) -> str:
        """Return the fingerprint of a module or a function; what is held is never changed, so it is taken once."""
        known = self._prints.get(x)
        if known is not None:
            return known
        adapter = adapter or _adapter_of(x)
        made = fingerprint_value(x) if adapter is None else adapter.fingerprint(x)
        self._prints.keep(x, made)
        return made


def with_analyses(body: Callable[..., Any], required: Sequence[Analysis[Any]]) -> Callable[..., Any]:
    """Return `body`, which takes a function or module first and the context last, run once they are known about it."""

    async def run(x: Any, *given: Any) -> Any:
        for one in required:
            await given[-1].get(one, x)
        result = body(x, *given)
        return await result if is_awaitable(result) else result

    return run


def give(x: object, results: Mapping[Analysis[Any], Any]) -> None:
    """Have results about `x` ready for `got` in the present contextvars, as in a body that works in another thread."""
    _GIVEN.set((x, results))


def _adapter_of(x: object) -> IRAdapter[Any, Any] | None:
    """Return the adapter of a module, or of the module at work, whose function `x` may be."""
    adapter = adapter_of_type(type(x))
    if adapter is not None:
        return adapter
    mod = module_at_work()
    return None if mod is None else adapter_of_type(type(mod))


def _is_alike(one: Any, other: Any) -> bool:
    """Tell whether two results are the same, by their contents or as their type compares them."""
    if fingerprint_value(one) == fingerprint_value(other):
        return True
    try:
        return bool(one == other)
    except (TypeError, ValueError):  # as arrays of several values do
        return False


def _check_hashable(asked: Analysis[Any], options: Mapping[str, Hashable]) -> None:
    for name, value in options.items():
        try:
            hash(value)
        except TypeError:
            raise AnalysisError(
                f"the option {name}={value!r} of {asked.name} cannot be hashed; give a tuple, a frozenset, a name"
            ) from None


def _store_key(key: _Key) -> str:
    print_, asked, options = key
    return f"analysis/2/{asked.key}/{fingerprint_value(options)}/{print_}"


def _write(asked: Analysis[Any], entry: _Entry) -> bytes:
    try:
        needs = sorted(one if isinstance(one, str) else one.key for one in entry.needs)
        return json.dumps(needs).encode() + b"\n" + asked.dumps(entry.value)
    except (TypeError, ValueError) as error:
        raise AnalysisError(f"the result of {asked.name} cannot be kept in a store: {error}") from error
