"""The layers of a pass: everything between the runner and the work of a pass.

A layer receives work, and returns other work that calls it, or the same if pass and scope do not need the layer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from apass.concurrency.coroutines import await_once, is_awaitable, metered_pass
from apass.core.analysis import Analysis
from apass.core.analysis_manager import Preserves, with_analyses
from apass.core.context import PassContext, PassScope
from apass.core.info import AnyPass
from apass.core.instrument import instrument_name
from apass.core.pass_setup import PassSetup
from apass.core.properties import Property
from apass.core.run import RunCursor
from apass.errors import PassResultError
from apass.runner.contract import with_contract
from apass.runner.error_policy import OnError, note_failure, with_deadline, with_error_policy
from apass.runner.function_hooks import with_function_hooks
from apass.runner.result_cache import with_function_cache, with_module_cache
from apass.runner.results import carry_analyses, check_module
from apass.runner.step_hooks import StepHooks

__all__ = ["BODY_LAYERS", "PASS_LAYERS", "BodyRun", "Runnable", "layered", "layered_body"]

T = TypeVar("T")

Work = Callable[[Any, PassContext], Any]
"""The work of a pass, called as `work(mod, ctx)`, plain or async."""

Body = Callable[..., Any]
"""The body of a function pass, called as `body(func, mod, ctx)`, plain or async."""


class Runnable(AnyPass, Protocol[T]):
    """The interface of a pass to the runner, which is below the passes."""

    is_bare: bool
    """Whether its class declares nothing that a layer does."""
    preserves: Preserves
    """The analyses that still hold for its result."""
    requires: tuple[str | Property, ...]
    """The properties that its input must have."""
    ensures: tuple[str | Property, ...]
    """The properties that its result has."""
    idempotent: bool
    """Whether it changes nothing in its own result."""
    has_open: bool
    """Whether it has an `open` of its own."""

    def transform(self, mod: T, ctx: PassContext) -> T | Awaitable[T]:
        """Do the work."""
        ...

    def opens_here(self, ctx: PassContext) -> bool:
        """Return whether the program opens it, rather than its workers."""
        ...

    def cache_key(self, ctx: PassContext) -> str | None:
        """Return the cache key without the input; None if not cached as a whole."""
        ...

    def key_parts(self, ctx: PassContext) -> Mapping[str, str]:
        """Return the parts of the cache key, as short texts by name."""
        ...

    def runs_as_whole(self) -> bool:
        """Return whether a deadline applies to the whole work rather than to its parts."""
        ...


def layered(pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Return the work of a pass in all layers that it needs in a scope."""
    return _within(PASS_LAYERS, pass_, scope, cursor)


def _within(layers: "Sequence[PassLayer]", pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    work: Work = pass_.transform
    for layer in layers:
        work = layer(work, pass_, scope, cursor)
    return work


def contract(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Check the properties that the pass requires and ensures."""
    return with_contract(work, pass_) if pass_.requires or pass_.ensures or pass_.idempotent else work


def opened(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Open the pass, unless the run has opened it."""
    if not pass_.has_open:
        return work

    async def run(mod: Any, ctx: PassContext) -> Any:
        async with PassSetup([pass_] if pass_.opens_here(ctx) else [], ctx):
            result = work(mod, ctx)
            return await result if is_awaitable(result) else result

    return run


def module_cache(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Look up the result in the store, or keep it there."""
    store = scope.state.store
    key = None if store is None else pass_.cache_key(scope.ctx)
    if store is None or key is None:
        return work
    return with_module_cache(work, key, store, partial(pass_.key_parts, scope.ctx))


def deadline(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """End the work at the deadline of the scope."""
    if scope.deadline is None or not pass_.runs_as_whole():
        return work
    return with_deadline(work, scope.deadline, f"pass {pass_.info.name!r}")


def steps(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Report each step of the work to the `run_after_step` hooks."""
    hooks = scope.state.hooks.steps
    if not hooks:
        return work

    async def awaited(mod: Any, ctx: PassContext) -> Any:
        result = work(mod, ctx)
        return await result if is_awaitable(result) else result

    async def stepped(mod: Any, ctx: PassContext) -> Any:
        run = cursor.run()
        assert run is not None, "the pass is the item of the cursor"
        observer = StepHooks(hooks)
        return await observer.surround(metered_pass(awaited(mod, ctx), partial(observer.report, run)))

    return stepped


def around(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Give the work to the `run_around_pass` hooks; the first one is outermost."""
    hooks = scope.state.hooks
    if not hooks.around:
        return work
    info, inner = pass_.info, PASS_LAYERS[: PASS_LAYERS.index(around)]

    async def run(mod: Any, ctx: PassContext) -> Any:
        # A result that is not the one of the pass itself for `mod`.
        is_altered = True
        own: Any = None

        async def run_pass(module: Any, other: Runnable[Any] | None = None, /) -> Any:
            nonlocal own, is_altered
            runnable = pass_ if other is None else other
            outcome = _within(inner, runnable, scope, cursor)(module, ctx)
            result = await outcome if is_awaitable(outcome) else outcome
            check_module(result, runnable.info)
            if runnable.preserves and result is not module:
                await carry_analyses(runnable.info, runnable.preserves, module, result, scope)
            own, is_altered = result, module is not mod or other is not None
            return result

        async def call(
            hook: Callable[..., Any], label: str, next_work: Callable[..., Awaitable[Any]], module: Any
        ) -> Any:
            result = await await_once(hook(module, info, next_work), label)
            if result is None:
                advice = "return the result of `await work(mod)`"
                raise PassResultError(f"{label} returned None for pass {info.name!r}; {advice}")
            return result

        outer: Callable[..., Awaitable[Any]] = run_pass
        for index, hook in reversed(hooks.around):
            label = f"run_around_pass of instrument {instrument_name(hooks.instruments[index])!r}"
            outer = partial(call, hook, label, outer)
        result = await outer(mod)
        if is_altered or result is not own:
            # A surrounding pass must not be stored with it.
            note_failure()
        return result

    return run


PassLayer = Callable[[Work, Runnable[Any], PassScope, RunCursor], Work]
"""A layer around the work of a pass."""

PASS_LAYERS: Final[tuple[PassLayer, ...]] = (contract, opened, module_cache, deadline, steps, around)
"""The layers around the work of a pass, innermost first."""


class RunnableBody(Runnable[T], Protocol[T]):
    """The interface of a function pass to the layers of its bodies."""

    cacheable: Any
    """Whether the result for each function is cached."""
    analyses: tuple[Analysis[Any], ...]
    """The analyses that are computed before each body."""
    on_error: OnError
    """The reaction to the failure of a body."""

    def own_cache_key(self, ctx: PassContext) -> str | None:
        """Return the key of its results."""
        ...


@dataclass(frozen=True, slots=True)
class BodyRun:
    """What the layers of a body know of the execution of its function pass."""

    pass_: RunnableBody[Any]
    """The function pass."""
    scope: PassScope
    """The scope that it runs in."""
    timeout: float | None
    """Seconds for one body; None where the executor limits them, because time in its queue must not count."""
    steps: StepHooks | None
    """The step hooks around the execution."""


def layered_body(body: Body, run: BodyRun) -> Body:
    """Return the body of a function pass in all layers that the execution requires."""
    for layer in BODY_LAYERS:
        body = layer(body, run)
    return body


def function_cache(body: Body, run: BodyRun) -> Body:
    """Look up the result for the function in the store, or keep it there."""
    store, pass_, ctx = run.scope.state.store, run.pass_, run.scope.ctx
    key = pass_.own_cache_key(ctx) if pass_.cacheable is True and store is not None else None
    return (
        body if key is None or store is None else with_function_cache(body, key, store, partial(pass_.key_parts, ctx))
    )


def error_policy(body: Body, run: BodyRun) -> Body:
    """Apply timeout, `on_error` and deadline.

    Outside of the cache: a function that `on_error` keeps is not stored as a result.
    """
    pass_, end = run.pass_, run.scope.deadline
    if run.timeout is None and pass_.on_error == "raise" and end is None:
        return body
    return with_error_policy(body, pass_.info, run.timeout, pass_.on_error, end)


def analyses(body: Body, run: BodyRun) -> Body:
    """Compute the analyses that the pass requires."""
    return with_analyses(body, run.pass_.analyses) if run.pass_.analyses else body


def function_hooks(body: Body, run: BodyRun) -> Body:
    """Call the hooks of instruments around the body."""
    hooks = run.scope.state.hooks.functions
    return body if hooks is None else with_function_hooks(body, hooks, run.steps)


BODY_LAYERS: Final = (function_cache, error_policy, analyses, function_hooks)
"""The layers around the body of a function pass, innermost first."""
