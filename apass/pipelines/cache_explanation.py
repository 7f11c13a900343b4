"""`explain_cache`: why the results of passes come from a store, or do not."""

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, cast

from apass.core.context import PassContext
from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.run import Run, current_run
from apass.core.store import REQUESTS, CacheRequest, FaultTolerantStore, Store, StoreInfo
from apass.errors import PassContextError
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.runner.cache_keys import store_key
from apass.util.checks import check_type

__all__ = ["CacheExplanation", "CacheState", "explain_cache"]


class CacheState(Enum):
    """Whether the result of a pass comes from the store."""

    STORED = "stored"
    """The store has the result, or those of all functions."""
    MISSING = "missing"
    """The store lacks the result, or that of a function."""
    NEVER = "never"
    """The results of the pass are not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheExplanation:
    """The state of one pass that has run."""

    path: tuple[str, ...]
    """The names of the passes from the outermost down to this one."""
    text: str
    """The pass with its options, as in the text of a pipeline."""
    state: CacheState
    """Whether its result comes from the store."""
    reason: str = ""
    """Why a result is missing or never stored."""
    functions: int = 0
    """How many functions have results of their own; 0 if the result is a whole module."""
    stored_functions: int = 0
    """How many of these results are stored."""

    @property
    def details(self) -> str:
        """The number of functions with stored results, if any, and the reason."""
        count = f"{self.stored_functions} of {self.functions} functions" if self.functions else ""
        return "; ".join(filter(None, (count, self.reason)))

    def __str__(self) -> str:
        return f"{self.state.value:<7}  {self.text}  {self.details}".rstrip()


async def explain_cache(pass_: Pass[Any] | str, mod: Any, ctx: PassContext) -> list[CacheExplanation]:
    """Return which results of a pass are in the store, and why others are not.

    The pass runs on the module, with the stored results, so that each part has its real input. Nothing is written to
    the store. A key is compared with those that earlier runs recorded: the latest 16 for each name of a pass.

    Parameters:
        pass_: the pass, or the text of a pipeline.
        mod: the module.
        ctx: the context whose settings and store are used; its instruments are not.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text, or `ctx` is not a PassContext.
        PassContextError: if the context has no store.
        Exception: the errors of the pass.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> from apass.stores import MemoryStore
    >>> def double(mod, ctx):
    ...     return {name: 2 * func for name, func in mod.items()}
    >>> Double = module_pass(double, opt_level=0, name="Double", cacheable=True)
    >>> async def main():
    ...     ctx = PassContext(store=MemoryStore())
    ...     print(*await explain_cache(Double, {"f": 1}, ctx))
    ...     await Double.run({"f": 1}, ctx=ctx)
    ...     print(*await explain_cache(Double, {"f": 1}, ctx))
    >>> anyio.run(main)
    missing  Double  no run has stored a result of this pass
    stored   Double

    """
    the_pass = as_pass("explain_cache(pass_, mod, ctx)", pass_)
    check_type("ctx", ctx, PassContext)
    if ctx.store is None:
        raise PassContextError("the context has no store; give it one: PassContext(store=...)")
    overlay = _ReadOnlyStore(ctx.store)
    observer = _Observer()
    requests: list[CacheRequest] = []
    instruments = [observer, replace(ctx.run_settings, strict=False)]
    async with ctx.replace(instruments=instruments, store=overlay, diag_ctx=None) as own:
        with REQUESTS.set_to(requests):
            await the_pass(mod)
    store = FaultTolerantStore(ctx.store)
    explained: list[CacheExplanation] = []
    by_run: defaultdict[Run, list[CacheRequest]] = defaultdict(list)
    computed: set[tuple[str, str]] = set()
    for item in requests:
        # The store of this run does have what this run has computed.
        is_repeated = (item.key, item.fingerprint) in computed
        if not item.is_stored:
            computed.add((item.key, item.fingerprint))
        by_run[item.run.body_of or item.run].append(item._replace(is_stored=item.is_stored and not is_repeated))
    for run, subject in observer.runs:
        own_requests = by_run[run]
        if any(subject.branches()) and not own_requests:
            continue
        explained.append(await _explained(run, subject, own_requests, store, own))
    return explained


async def _explained(
    run: Run,
    pass_: Pass[Any],
    requests: Sequence[CacheRequest],
    store: FaultTolerantStore,
    ctx: PassContext,
) -> CacheExplanation:
    text = _text_of(pass_)
    if not requests:
        return CacheExplanation(path=run.path, text=text, state=CacheState.NEVER, reason=_why_never(pass_, ctx))
    is_whole = requests[0].run is run
    missing = [item for item in requests if not item.is_stored]
    functions, stored = (0, 0) if is_whole else (len(requests), len(requests) - len(missing))
    if not missing:
        return CacheExplanation(
            path=run.path, text=text, state=CacheState.STORED, functions=functions, stored_functions=stored
        )
    recorded = await store.recorded_keys(run.info.name)
    reasons = [await _why_missing(item, is_whole, recorded, pass_.key_parts(ctx), store) for item in missing]
    # Functions mostly miss for one reason.
    reason = "; ".join(dict.fromkeys(reasons))
    return CacheExplanation(
        path=run.path,
        text=text,
        state=CacheState.MISSING,
        reason=reason,
        functions=functions,
        stored_functions=stored,
    )


async def _why_missing(
    request: CacheRequest,
    is_whole: bool,
    recorded: Mapping[str, Mapping[str, str]],
    parts: Mapping[str, str],
    store: FaultTolerantStore,
) -> str:
    kind = "module" if is_whole else "function"
    others = {key: value for key, value in recorded.items() if key != request.key}
    if is_whole:
        known = await store.module_results(request.fingerprint).known()
        if request.key in known:
            return "the store has removed it to make room"
        stored = [value for key, value in others.items() if key in known]
    else:
        fingerprint = request.fingerprint
        stored = [value for key, value in others.items() if await store.get(store_key(key, fingerprint)) is not None]
    if stored:
        return f"stored for this {kind} with {_difference(stored, parts)}"
    if request.key in recorded:
        return f"stored for other {kind}s only"
    if others:
        return f"stored with {_difference(list(others.values()), parts)}, for other {kind}s only"
    return "no run has stored a result of this pass"


def _difference(recorded: Sequence[Mapping[str, str]], parts: Mapping[str, str]) -> str:
    """Return how the nearest of some keys differs; the latest of several."""
    differing = [[name for name in {**parts, **old} if parts.get(name) != old.get(name)] for old in recorded]
    index = min(range(len(recorded)), key=lambda number: (len(differing[number]), -number))
    return ", ".join(_changed(name, recorded[index].get(name), parts.get(name)) for name in differing[index])


def _changed(name: str, old: str | None, new: str | None) -> str:
    if name in ("code", "analyses", "contract"):
        return f"other {name}"
    return f"{name} {_shown(old)}, now {_shown(new)}"


def _shown(text: str | None) -> str:
    return "not set" if text is None else "another value" if text.startswith("#") else text


def _why_never(pass_: Pass[Any], ctx: PassContext) -> str:
    if not pass_.caching.cacheable:
        return "the pass is not cacheable"
    # The run has emitted the warning too, but a block around the run would hide those of other tasks.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pass_.own_cache_key(ctx)
    return str(caught[0].message) if caught else "the pass has no functions"


def _text_of(pass_: Pass[Any]) -> str:
    try:
        return pass_.info.name if any(pass_.branches()) else pass_.text()
    except TypeError:  # an option has no text
        return pass_.info.name


@pass_instrument
class _Observer:
    """Lists the passes that run. With it, no pipeline is looked up as a whole."""

    reads_modules = False

    def __init__(self) -> None:
        self.runs: list[tuple[Run, Pass[Any]]] = []

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        run = current_run()
        if run is not None:
            self.runs.append((run, cast("Pass[Any]", run.pass_)))


class _ReadOnlyStore:
    """A view of a store that drops new values."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.seals = bool(getattr(store, "seals", False))

    async def get(self, key: str) -> bytes | None:
        return await self._store.get(key)

    async def put(self, key: str, value: bytes) -> None:
        """Drop the value: no pass reads its own result."""

    async def info(self) -> StoreInfo:
        return await self._store.info()

    async def clear(self) -> None:
        """Change nothing."""
