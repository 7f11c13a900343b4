"""The layers of a pass: what can be between the runner and the work, or a body."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from apass.concurrency.coroutines import await_once, is_awaitable, metered_pass
from apass.core.analysis import Analysis
from apass.core.analysis_manager import with_analyses
from apass.core.context import PassContext, PassScope
from apass.core.declarations import Caching, Contract
from apass.core.failures import note_failure
from apass.core.instrument import instrument_name
from apass.core.pass_info import AnyPass
from apass.core.pass_setup import PassSetup
from apass.core.run import Run, RunCursor
from apass.errors import PassResultError
from apass.runner.contract import with_contract
from apass.runner.error_policy import OnError, with_deadline, with_error_policy, with_limits
from apass.runner.function_hooks import with_function_hooks
from apass.runner.result_cache import with_function_cache, with_module_cache
from apass.runner.results import carry_analyses, check_module
from apass.runner.step_hooks import StepHooks

__all__ = ["Runnable", "layered", "layered_body"]

T = TypeVar("T")

Work = Callable[[Any, PassContext], Any]
"""The work of a pass, called as `work(mod, ctx)`, plain or async."""

Body = Callable[..., Any]
"""The body of a function pass, called as `body(func, mod, ctx)`, plain or async."""


class Runnable(AnyPass, Protocol[T]):
    """The interface of a pass to the runner, which is below the passes."""

    is_bare: bool
    """Whether its class declares nothing that a layer does."""
    contract: Contract
    """What it requires, ensures and preserves."""
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


def layered(pass_: Runnable[Any], scope: PassScope, cursor: RunCursor, *, is_inner: bool = False) -> Work:
    """Return the work of a pass in the layers that it needs; innermost first.

    For example, a cacheable pass with a contract, in a context with store and deadline, runs as
    `with_deadline(with_module_cache(with_contract(transform)))`. Most passes run as `transform` alone.

    With `is_inner`, the hooks around the work are left out, because they call it.
    """
    ctx, store, hooks = scope.ctx, scope.state.store, scope.state.hooks
    work: Work = pass_.transform
    if not pass_.is_bare:
        if pass_.contract.is_checked:
            work = with_contract(work, pass_)
        if pass_.has_open:
            work = with_setup(work, pass_)
    # Outside of the contract: a stored result has passed its checks.
    if store is not None and (key := pass_.cache_key(ctx)) is not None:
        work = with_module_cache(work, key, store, partial(pass_.key_parts, ctx))
    # Outside of the cache: reading a result counts as well.
    if scope.deadline is not None and pass_.runs_as_whole():
        work = with_deadline(work, scope.deadline, f"pass {pass_.info.name!r}")
    # Outside of the deadline: a step that a cancellation ends is reported too.
    if hooks.steps:
        work = with_step_hooks(work, hooks.steps, cursor)
    if hooks.around and not is_inner:
        work = with_around_hooks(work, pass_, scope, cursor)
    return work


def with_setup(work: Work, pass_: Runnable[Any]) -> Work:
    """Return the work of a pass that is opened before, unless the run has opened it."""

    async def run(mod: Any, ctx: PassContext) -> Any:
        async with PassSetup([pass_] if pass_.opens_here(ctx) else [], ctx):
            result = work(mod, ctx)
            return await result if is_awaitable(result) else result

    return run


def with_step_hooks(work: Work, hooks: Sequence[Callable[[Run, float, float], object]], cursor: RunCursor) -> Work:
    """Return work each step of which is reported to the `run_after_step` hooks."""

    async def awaited(mod: Any, ctx: PassContext) -> Any:
        result = work(mod, ctx)
        return await result if is_awaitable(result) else result

    async def run(mod: Any, ctx: PassContext) -> Any:
        current = cursor.run()
        assert current is not None, "the pass is the item of the cursor"
        observer = StepHooks(hooks)
        return await observer.surround(metered_pass(awaited(mod, ctx), partial(observer.report, current)))

    return run


def with_around_hooks(work: Work, pass_: Runnable[Any], scope: PassScope, cursor: RunCursor) -> Work:
    """Return work that the `run_around_pass` hooks do; the first one is outermost.

    Each gets what it surrounds as a function `(mod, pass_=None)`. The innermost one is `work`, or another pass's work.
    """
    hooks, info = scope.state.hooks, pass_.info

    async def run(mod: Any, ctx: PassContext) -> Any:
        # A result that is not the one of the pass itself for `mod`.
        is_altered = True
        own: Any = None

        async def run_pass(module: Any, other: Runnable[Any] | None = None, /) -> Any:
            nonlocal own, is_altered
            runnable = pass_ if other is None else other
            outcome = (work if other is None else layered(other, scope, cursor, is_inner=True))(module, ctx)
            result = await outcome if is_awaitable(outcome) else outcome
            check_module(result, runnable.info)
            if runnable.contract.preserves and result is not module:
                await carry_analyses(runnable.info, runnable.contract.preserves, module, result, scope)
            own, is_altered = result, module is not mod or other is not None
            return result

        async def call(hook: Callable[..., Any], label: str, inner: Callable[..., Any], module: Any) -> Any:
            result = await await_once(hook(module, info, inner), label)
            if result is None:
                advice = "return the result of `await work(mod)`"
                raise PassResultError(f"{label} returned None for pass {info.name!r}; {advice}")
            return result

        outer: Callable[..., Any] = run_pass
        for index, hook in reversed(hooks.around):
            label = f"run_around_pass of instrument {instrument_name(hooks.instruments[index])!r}"
            outer = partial(call, hook, label, outer)
        result = await outer(mod)
        if is_altered or result is not own:
            # A surrounding pass must not be stored with it.
            note_failure()
        return result

    return run


class RunnableBody(Runnable[T], Protocol[T]):
    """The interface of a function pass to the layers of its bodies."""

    caching: Caching
    """Whether the result for each function is cached."""
    analyses: tuple[Analysis[Any], ...]
    """The analyses that are computed before each body."""
    on_error: OnError
    """The reaction to the failure of a body."""

    def own_cache_key(self, ctx: PassContext) -> str | None:
        """Return the key of its results."""
        ...


def layered_body(
    body: Body, pass_: RunnableBody[Any], scope: PassScope, timeout: float | None, steps: StepHooks | None
) -> Body:
    """Return the body of a function pass in its layers; innermost first.

    Parameters:
        body: called as `body(func, mod, ctx)`, plain or async.
        pass_: the function pass.
        scope: the scope that it runs in.
        timeout: seconds for one body; None where the executor limits them, because time in its queue must not count.
        steps: the step hooks around the execution.

    """
    ctx, store, hooks = scope.ctx, scope.state.store, scope.state.hooks.functions
    if store is not None and pass_.caching.cacheable is True and (key := pass_.own_cache_key(ctx)) is not None:
        body = with_function_cache(body, key, store, partial(pass_.key_parts, ctx))
    # Outside of the cache: a function that `on_error` keeps is not stored as a result.
    if timeout is not None or pass_.on_error != "raise" or scope.deadline is not None:
        body = with_limits(body, pass_.info.name, timeout, scope.deadline)
    if pass_.on_error != "raise":
        body = with_error_policy(body, pass_.info, pass_.on_error, scope.deadline)
    if pass_.analyses:
        body = with_analyses(body, pass_.analyses)
    if hooks is not None:
        body = with_function_hooks(body, hooks, steps)
    return body
