"""`AnalysisManager`: the cached analysis results of one context."""

import json
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import RLock, local
from typing import Any, Final, Literal, TypeVar, cast

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.run_locals import RunLocal
from apass.concurrency.single_flight import SingleFlight
from apass.core.adapter import IRAdapter, adapter_of_type
from apass.core.analysis import Analysis, Options
from apass.core.questions import Question
from apass.core.run import current_module
from apass.core.store import FaultTolerantStore, stored_identity
from apass.errors import AnalysisError, VerifyError
from apass.util.fingerprint import fingerprint_value
from apass.util.identity_cache import IdentityCache

__all__ = ["AnalysisManager", "Preserves", "give", "with_analyses"]

R = TypeVar("R")

Preserves = frozenset[Analysis[Any]] | Literal["all"]
"""The analyses whose results for the input of a pass also hold for its output."""

_Adapter = IRAdapter[Any, Any]
_Key = tuple[str, Analysis[Any], Options]
"""The fingerprint of the contents, the analysis, and the options."""


@dataclass(frozen=True, slots=True)
class _CachedResult:
    """A result and the analyses that it depends on."""

    value: Any
    """The value that the analysis returned."""
    needs: frozenset[Analysis[Any] | str]
    """The analyses that the result depends on, including indirect ones; by key if read from a store."""


@dataclass(slots=True)
class _Computation:
    """A running computation, as seen by the analyses that it requests."""

    key: _Key
    """The requested result."""
    needs: set[Analysis[Any] | str]
    """The analyses requested so far, and their dependencies."""


_COMPUTATION: Final[RunLocal[_Computation | None]] = RunLocal("computation", None)
"""The computation that this task works for, or None."""

_READY: Final[RunLocal[tuple[object, Mapping[Analysis[Any], Any]]]] = RunLocal("ready", (None, {}))
"""An object and its results, set by `give`."""


class _Running(local):
    """The running computations; one instance per thread, as each has its own loop."""

    def __init__(self) -> None:
        self.flights: SingleFlight[_Key, _CachedResult] = SingleFlight()
        self.waits: defaultdict[_Key, Counter[_Key]] = defaultdict(Counter)
        """For each computation, how many of its tasks wait for each other computation."""


class AnalysisManager:
    """The analysis results of one context. Passes request them with `ctx.get`.

    Parameters:
        limit: the maximum number of results in memory; the least recently used are removed first.
        store: where persistent analyses keep results beyond the context.
        strict: whether to recompute the results that passes claim to preserve, and to compare them.

    """

    def __init__(self, *, limit: int = 10_000, store: FaultTolerantStore | None = None, strict: bool = False) -> None:
        self.counts: Final[Counter[str]] = Counter()
        """The number of results by origin.

        The keys are `"computed"`, `"hit"` (in memory), `"stored"` (read from the store) and `"preserved"`. Results of
        passes are counted as `"pass stored"` and `"pass shared"` (computed by an equal call at the same time).
        """
        self._limit = limit
        self._store = store
        self._strict = strict
        self._entries: OrderedDict[_Key, _CachedResult] = OrderedDict()
        # A dict rather than a set keeps the order of insertion: with several false claims, `strict` always reports the
        # same one first.
        self._keys_of: defaultdict[str, dict[_Key, None]] = defaultdict(dict)
        self._fingerprints = IdentityCache[str]()
        self._lock = RLock()
        self._running = _Running()

    def __len__(self) -> int:
        """Return the number of results in memory."""
        return len(self._entries)

    async def get(self, analysis: Analysis[R], x: object, ctx: object, options: Mapping[str, Hashable]) -> R:
        """Return the result of the analysis for `x`: cached, stored, or computed.

        Raises:
            AnalysisError: if an option cannot be hashed, or the analysis requires itself.
            Exception: any error that the analysis raised; it is not cached.

        """
        key = self._key(analysis, x, options)
        computation = _COMPUTATION.get()
        entry = self._entries.get(key)
        if entry is not None:
            with suppress(KeyError):  # another thread may have removed it to make room
                self._entries.move_to_end(key)
            self.counts["hit"] += 1
        else:
            entry = await self._wait_for(key, computation, partial(self._find, key, x, ctx))
        # Also for a hit: the analysis that asks depends on the result, wherever it came from.
        if computation is not None:
            computation.needs |= {analysis, *entry.needs}
        return cast("R", entry.value)

    def got(self, analysis: Analysis[R], x: object, options: Mapping[str, Hashable]) -> R:
        """Return a result that is already in memory.

        Raises:
            AnalysisError: if the result was not requested before, or was removed to make room.

        """
        ready_for, results = _READY.get()
        if ready_for is x and analysis in results and not options:
            return cast("R", results[analysis])
        entry = self._entries.get(self._key(analysis, x, options))
        if entry is None:
            raise AnalysisError(
                f"the result of {analysis.name} is not available; "
                "add the analysis to the pass's `required`, or use `await ctx.get(...)`"
            )
        return cast("R", entry.value)

    def question(self, analysis: Analysis[Any], x: object, options: Mapping[str, Hashable]) -> Question:
        """Return the question that an analysis answers, for recorded answers."""
        fingerprint, _, typed = self._key(analysis, x, options)
        return Question(
            "analysis", analysis.key, {"of": fingerprint, "options": {name: item for name, item, _ in typed}}
        )

    def keep_answer(self, analysis: Analysis[R], x: object, options: Mapping[str, Hashable], result: R) -> None:
        """Keep a recorded result, unless the analysis was computed."""
        key, computation = self._key(analysis, x, options), _COMPUTATION.get()
        if key not in self._entries:
            self._keep(key, _CachedResult(result, frozenset()))
        if computation is not None:
            computation.needs.add(analysis)

    def changed_in_place(self, objects: Iterable[object]) -> None:
        """Drop the fingerprints of private objects that a pass has changed in place."""
        self._fingerprints.forget(objects)

    async def carry(
        self,
        pass_name: str,
        preserves: Preserves,
        pairs: Sequence[tuple[Any, Any]],
        ctx: object,
        adapters: tuple[_Adapter, _Adapter],
    ) -> None:
        """Copy the results of each old object that the pass preserves to its new object.

        A result that depends on other analyses is copied only if these are preserved too.

        Parameters:
            pass_name: the name of the pass, for messages.
            preserves: the analyses that the pass preserves.
            pairs: the old and the new object of each module or function.
            ctx: the context of the pass.
            adapters: the adapters of the old and of the new objects.

        Raises:
            VerifyError: with `strict`, if the result for the new object differs.

        """
        # Dependencies of results from a store are known by their keys only.
        preserved = None if preserves == "all" else {name for item in preserves for name in (item, item.key)}
        for old, new in pairs:
            before, after = self.fingerprint(old, adapters[0]), self.fingerprint(new, adapters[1])
            # Results are kept by contents, so they hold for the new object already.
            if before == after:
                continue
            for analysis, options, entry in self._preserved(before, preserved):
                if self._strict:
                    await self._check(pass_name, analysis, entry, new, ctx, options)
                self._keep((after, analysis, options), entry)
                self.counts["preserved"] += 1

    def _preserved(
        self, fingerprint: str, preserved: Set[Any] | None
    ) -> Iterator[tuple[Analysis[Any], Options, _CachedResult]]:
        """Iterate over the results that are preserved together with their dependencies."""
        # A copy: `strict` awaits computations between two steps, and other tasks add results meanwhile.
        for key in list(self._keys_of.get(fingerprint, ())):
            entry = self._entries.get(key)  # None if another task removed it to make room
            _, analysis, options = key
            if entry is not None and (preserved is None or preserved >= {analysis, *entry.needs}):
                yield analysis, options, entry

    async def _check(
        self, pass_name: str, analysis: Analysis[Any], entry: _CachedResult, new: Any, ctx: object, options: Options
    ) -> None:
        value = await analysis.compute(new, ctx, {name: value for name, value, _ in options})
        if not _is_equal(value, entry.value):
            raise VerifyError(
                f"pass {pass_name!r} claims to preserve {analysis.name}, but that was {entry.value!r} and is {value!r}"
            )

    async def _wait_for(
        self, key: _Key, computation: _Computation | None, find: Callable[[], Awaitable[_CachedResult]]
    ) -> _CachedResult:
        """Wait for the computation of `key`, in this task or in another."""
        if computation is None:
            return await self._running.flights.get(key, find)
        # Without this check, a cycle would wait for itself forever.
        if self._waits_for(key, computation.key):
            raise AnalysisError(f"the analysis {computation.key[1].name} requires itself, through {key[1].name}")
        waits = self._running.waits[computation.key]
        waits[key] += 1
        try:
            return await self._running.flights.get(key, find)
        finally:
            waits[key] -= 1
            # `+` drops the counts of zero.
            if not +waits:
                self._running.waits.pop(computation.key, None)

    def _waits_for(self, start: _Key, goal: _Key) -> bool:
        """Return whether computation `start` waits for `goal`, directly or indirectly."""
        # A loop rather than recursion: analyses may require each other to any depth.
        seen, pending = set[_Key](), [start]
        while pending:
            key = pending.pop()
            if key == goal:
                return True
            if key not in seen:
                seen.add(key)
                pending += [other for other, count in self._running.waits.get(key, Counter[_Key]()).items() if count]
        return False

    async def _find(self, key: _Key, x: object, ctx: object) -> _CachedResult:
        cached = self._entries.get(key)  # another thread may have computed it meanwhile
        if cached is not None:
            return cached
        _, analysis, options = key
        store = self._store if analysis.persistent else None
        name = None if store is None else _store_key(key)
        if store is None or name is None:
            entry = await self._compute(key, x, ctx, options)
        elif (stored := await store.read(name, partial(_load, analysis))) is not None:
            self.counts["stored"] += 1
            entry = stored
        else:
            entry = await self._compute(key, x, ctx, options)
            # Before the result is returned: a program that ends at once must not lose it.
            await store.put(name, _dump(analysis, entry))
        self._keep(key, entry)
        return entry

    async def _compute(self, key: _Key, x: object, ctx: object, options: Options) -> _CachedResult:
        computation = _Computation(key, set())
        with _COMPUTATION.set_to(computation):
            value = await key[1].compute(x, ctx, {name: value for name, value, _ in options})
        self.counts["computed"] += 1
        return _CachedResult(value, frozenset(computation.needs))

    def _keep(self, key: _Key, entry: _CachedResult) -> None:
        with self._lock:
            self._entries[key] = entry
            self._entries.move_to_end(key)
            self._keys_of[key[0]][key] = None
            while len(self._entries) > self._limit:
                removed, _ = self._entries.popitem(last=False)
                self._keys_of[removed[0]].pop(removed, None)
                if not self._keys_of[removed[0]]:
                    del self._keys_of[removed[0]]

    def _key(self, analysis: Analysis[Any], x: object, options: Mapping[str, Hashable]) -> _Key:
        if not isinstance(analysis, Analysis):
            raise AnalysisError(f"{analysis!r} is not an analysis; create one with @apass.analysis")
        # Sorted, because keywords may come in any order.
        typed = tuple((name, options[name], type(options[name])) for name in sorted(options)) if options else ()
        key = (self.fingerprint(x), analysis, typed)
        if options:
            _check_hashable(analysis, options)
        return key

    def fingerprint(self, x: object, adapter: _Adapter | None = None) -> str:
        """Return the fingerprint of a module or a function, computed once for each object."""
        # Modules and functions are immutable, so the fingerprint of an object stays valid.
        cached = self._fingerprints.get(x)
        if cached is not None:
            return cached
        adapter = adapter or _adapter_of(x)
        fingerprint = fingerprint_value(x) if adapter is None else adapter.fingerprint(x)
        self._fingerprints.keep(x, fingerprint)
        return fingerprint


def with_analyses(body: Callable[..., Any], required: Sequence[Analysis[Any]]) -> Callable[..., Any]:
    """Return a wrapper of `body` that first computes the required analyses.

    The first argument of `body` is a function or module, the last is the context.
    """

    async def run(x: Any, *args: Any) -> Any:
        for analysis in required:
            await args[-1].get(analysis, x)
        result = body(x, *args)
        return await result if is_awaitable(result) else result

    return run


def give(x: object, results: Mapping[Analysis[Any], Any]) -> None:
    """Make results for `x` available to `got` in the current contextvars.

    Executors call this before a body that runs in another thread or process.
    """
    _READY.set((x, results))


def _adapter_of(x: object) -> IRAdapter[Any, Any] | None:
    """Return the adapter of a module; for a function, the current module's."""
    adapter = adapter_of_type(type(x))
    if adapter is not None:
        return adapter
    mod = current_module()
    return None if mod is None else adapter_of_type(type(mod))


def _is_equal(new: Any, old: Any) -> bool:
    """Return whether two results have equal fingerprints or compare equal."""
    # First the fingerprint: NaN does not equal itself, and arrays have no single truth value.
    if fingerprint_value(new) == fingerprint_value(old):
        return True
    try:
        return bool(new == old)
    except (TypeError, ValueError):  # an array of several values has no truth value
        return False


def _check_hashable(analysis: Analysis[Any], options: Mapping[str, Hashable]) -> None:
    for name, value in options.items():
        try:
            hash(value)
        except TypeError:
            raise AnalysisError(
                f"the option {name}={value!r} of {analysis.name} cannot be hashed; use a tuple, a frozenset or a string"
            ) from None


def _store_key(key: _Key) -> str | None:
    """Return the key of a result in a store; None if the analysis has no fingerprint."""
    fingerprint, analysis, options = key
    identity = stored_identity(f"the analysis {analysis.name}", (analysis, options))
    # 3 is the version of the format; see `_dump`.
    return None if identity is None else f"analysis/3/{identity}/{fingerprint}"


def _dump(analysis: Analysis[Any], entry: _CachedResult) -> bytes:
    """Return the bytes for a store: one line with the dependencies, then the result."""
    try:
        needs = sorted(need if isinstance(need, str) else need.key for need in entry.needs)
        return json.dumps(needs).encode() + b"\n" + analysis.dumps(entry.value)
    except (TypeError, ValueError) as error:
        raise AnalysisError(f"the result of {analysis.name} cannot be written to a store: {error}") from error


def _load(analysis: Analysis[Any], data: bytes) -> _CachedResult:
    """Return the result that `_dump` wrote.

    Raises:
        Exception: any error, if `_dump` did not write `data`.

    """
    needs, separator, body = data.partition(b"\n")
    names: object = json.loads(needs)
    if not separator or not isinstance(names, list):
        raise ValueError("the value has no list of dependencies")
    return _CachedResult(analysis.loads(body), frozenset(map(str, cast("list[object]", names))))
