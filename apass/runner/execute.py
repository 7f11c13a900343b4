"""`execute`: the life of one execution of a pass, from its first hook to its last."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import perf_counter
from types import CoroutineType
from typing import Any, Protocol, TypeVar

import anyio

from apass.concurrency.coroutines import await_once, is_awaitable, metered_pass, missing_await
from apass.concurrency.shielding import Call, run_shielded
from apass.core.adapter import ModT, adapter_for, adapter_of_type
from apass.core.analysis_manager import Preserves
from apass.core.changes import CHANGES
from apass.core.context import PassContext, PassScope
from apass.core.info import AnyPass, PassInfo
from apass.core.instrument import NO_HOOKS, Hooks, answer_of_should_run, instrument_name
from apass.core.run import Run, RunCursor, note_whereabouts
from apass.core.tracebacks import hidden_in_pytest, hide_runner_frames
from apass.errors import PassResultError
from apass.runner.error_policy import note_failure, with_deadline
from apass.runner.hook_time import HookTime
from apass.runner.result_cache import with_module_cache
from apass.runner.step_hooks import StepHooks
from apass.util.text import text_of_error

__all__ = ["Runnable", "execute"]

__tracebackhide__ = hidden_in_pytest

_COROUTINE: Any = CoroutineType

T = TypeVar("T")


class Runnable(AnyPass, Protocol[T]):
    """The interface of a pass to the runner, which lies below the passes that call it."""

    preserves: Preserves
    """The analyses that still hold for its result."""

    def transform(self, mod: T, ctx: PassContext) -> T | Awaitable[T]:
        """Do the work."""
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


async def execute(pass_: Runnable[ModT], mod: ModT, scope: PassScope, cursor: RunCursor) -> ModT:
    """Run a pass on `mod` with the hooks of instruments, and return the new module.

    The pass is the `item` of `cursor`.

    Raises:
        PassResultError: if the pass returned no module.
        Exception: any error of the pass or of a hook, with a note that names the place.

    """
    state, ctx = scope.state, scope.ctx
    cursor.mod = mod
    hooks = latest = state.hooks
    started = finished = 0
    is_timed = False
    try:
        if hooks is NO_HOOKS and scope.is_plain:
            # Most passes run like this. The branch halves the time that the runner takes for a pass that does nothing.
            result: Any = pass_.transform(mod, ctx)
        else:
            info = pass_.info
            clock = HookTime(hooks.times) if hooks.times else None
            if hooks.should_run and (not ctx.required_pass or ctx.required_pass.isdisjoint(pass_.all_names)):
                may_run = True
                for index, hook in hooks.should_run:
                    answer = hook(mod, info)
                    if clock is not None and is_awaitable(answer):
                        answer = clock.wait(answer)
                    # Every instrument is asked, whatever the others answer.
                    if answer is not True and not await answer_of_should_run(answer, hooks.instruments[index], info):
                        may_run = False
                if not may_run:
                    if clock is not None:
                        clock.report(cursor.parent)
                    return mod
                # Re-read the hooks: a hook may have called `override_instruments`.
                hooks = state.hooks
            for started, hook in hooks.before:  # noqa: B007  used below, after an error
                outcome = hook(mod, info)
                if outcome is not None and is_awaitable(outcome):
                    await (outcome if clock is None else clock.wait(outcome))
            started = len(hooks.instruments)
            if hooks is not NO_HOOKS:
                if clock is not None:
                    clock.report(cursor.parent)
                is_timed = True
                # The cursor keeps the times until a hook requests the run: most passes between hooks need none.
                item = cursor.item
                (item if type(item) is Run else cursor).started = perf_counter()
            is_bare = scope.is_plain and not hooks.steps and not hooks.around
            wrap = _with_around_hooks if hooks.around else _wrapped
            result = (pass_.transform if is_bare else wrap(pass_, scope, hooks, cursor))(mod, ctx)
        kind: type[Any] = type(mod)
        if type(result) is _COROUTINE or (type(result) is not kind and is_awaitable(result)):
            result = await result
        if is_timed:
            item = cursor.item
            (item if type(item) is Run else cursor).ended = perf_counter()
        # Skip the full check if the type is unchanged.
        if type(result) is not kind:
            _check_module(result, pass_.info)
        if result is not mod:
            changes = CHANGES.get()
            if changes is not None:
                changes.record(pass_.info.name, cursor)
            # With `run_around_pass`, the result may be no result of the pass.
            if pass_.preserves and not hooks.around:
                await _carry_analyses(pass_, mod, result, scope)
        # Re-read the hooks: the pass may have called `override_instruments`.
        latest = state.hooks
        if latest is not NO_HOOKS:
            info = pass_.info
            clock = HookTime(latest.times) if latest.times else None
            for index, hook in latest.after:
                finished = index + 1
                outcome = hook(result, info)
                if outcome is not None and is_awaitable(outcome):
                    await (outcome if clock is None else clock.wait(outcome))
            if clock is not None:
                clock.report(cursor.parent)
        if is_timed:
            # The next pass of the cursor may run without hooks.
            cursor.started = cursor.ended = 0.0
        new: ModT = result
        return new
    except BaseException as error:
        run = cursor.run()
        assert run is not None, "the pass is the item of the cursor"
        if is_timed and not run.ended:
            run.ended = perf_counter()
        if not isinstance(error, anyio.get_cancelled_exc_class()):
            note_whereabouts(error, run)
        hide_runner_frames(error)
        if hooks.failed:
            await _call_failure_hooks(hooks, started, latest, finished, mod, pass_.info, error, ctx.exit_grace)
        raise
    finally:
        # Contexts of callbacks keep the cursor after the run.
        cursor.mod = None


def _wrapped(
    pass_: Runnable[ModT], scope: PassScope, hooks: Hooks, cursor: RunCursor
) -> Callable[[ModT, PassContext], Any]:
    """Return the work of a pass in the wrappers that pass, scope and hooks require."""
    # Innermost first: cache, deadline, step hooks, hooks around the work.
    work: Callable[[ModT, PassContext], Any] = pass_.transform
    store = scope.state.store
    key = None if store is None else pass_.cache_key(scope.ctx)
    if store is not None and key is not None:
        work = with_module_cache(work, key, store, partial(pass_.key_parts, scope.ctx))
    if scope.deadline is not None and pass_.runs_as_whole():
        work = with_deadline(work, scope.deadline, f"pass {pass_.info.name!r}")
    if hooks.steps:
        work = _with_step_hooks(work, hooks, cursor)
    return work


def _with_around_hooks(
    pass_: Runnable[ModT], scope: PassScope, hooks: Hooks, cursor: RunCursor
) -> Callable[[ModT, PassContext], Any]:
    """Return the work of a pass as the `run_around_pass` hooks see it."""

    async def run(mod: ModT, ctx: PassContext) -> Any:
        # A result that is not that of the pass itself for `mod`.
        is_altered = True
        own: Any = None

        async def run_pass(module: ModT, other: Runnable[ModT] | None = None, /) -> Any:
            nonlocal own, is_altered
            runnable = pass_ if other is None else other
            outcome = _wrapped(runnable, scope, hooks, cursor)(module, ctx)
            result = await outcome if is_awaitable(outcome) else outcome
            _check_module(result, runnable.info)
            if runnable.preserves and result is not module:
                await _carry_analyses(runnable, module, result, scope)
            own, is_altered = result, module is not mod or other is not None
            return result

        work: Callable[..., Awaitable[Any]] = run_pass
        for index, hook in reversed(hooks.around):
            work = partial(_call_around_hook, hook, hooks.instruments[index], pass_.info, work)
        result = await work(mod)
        if is_altered or result is not own:
            # A surrounding pass must not be stored with it.
            note_failure()
        return result

    return run


async def _call_around_hook(
    hook: Callable[..., Any], instrument: object, info: PassInfo, work: Callable[..., Awaitable[Any]], mod: Any
) -> Any:
    label = f"run_around_pass of instrument {instrument_name(instrument)!r}"
    result = await await_once(hook(mod, info, work), label)
    if result is None:
        raise PassResultError(f"{label} returned None for pass {info.name!r}; return the result of `await work(mod)`")
    return result


def _with_step_hooks(
    work: Callable[[ModT, PassContext], Any], hooks: Hooks, cursor: RunCursor
) -> Callable[[ModT, PassContext], Any]:
    """Return `work`, reporting each of its steps to the `run_after_step` hooks."""

    async def awaited(mod: ModT, ctx: PassContext) -> Any:
        result = work(mod, ctx)
        return await result if is_awaitable(result) else result

    async def stepped(mod: ModT, ctx: PassContext) -> Any:
        run = cursor.run()
        assert run is not None, "the pass is the item of the cursor"
        steps = StepHooks(hooks.steps)
        return await steps.surround(metered_pass(awaited(mod, ctx), partial(steps.report, run)))

    return stepped


def _check_module(result: object, info: PassInfo) -> None:
    """Raise PassResultError unless the result, of a new type, is a module."""
    if is_awaitable(result):
        raise missing_await(result, f"pass {info.name!r}", "a module")
    kind = result.__class__
    if result is None or adapter_of_type(kind) is None:
        description = "None" if result is None else f"{result!r}, which is no module (a {kind.__qualname__})"
        raise PassResultError(
            f"pass {info.name!r} returned {description}; return the new module, or `mod` if unchanged"
        )


async def _carry_analyses(pass_: Runnable[Any], mod: Any, result: Any, scope: PassScope) -> None:
    """Carry over the analyses that the pass preserves, for module and functions."""
    before, after = adapter_for(mod), adapter_for(result)
    old = dict(before.functions(mod))
    changed = [(old[name], new) for name, new in after.functions(result) if name in old and old[name] is not new]
    pairs = [(mod, result), *changed]
    await scope.state.analyses.carry(pass_.info.name, pass_.preserves, pairs, scope.ctx, (before, after))


async def _call_failure_hooks(
    hooks: Hooks,
    started: int,
    latest: Hooks,
    finished: int,
    mod: object,
    info: PassInfo,
    error: BaseException,
    grace: float,
) -> None:
    """Call `run_after_pass_failed` of the instruments that saw the pass start only.

    These are the first `started` instruments, except those whose `run_after_pass` was called: the first `finished`
    ones of `latest`, the hooks in force after the pass. Errors raised by hooks are added to `error` as notes. If
    `error` is a cancellation, they are raised: no code would read its notes.
    """
    # Not in `execute`: a comprehension there would make cells of its variables, for every pass.
    ended = [latest.instruments[index] for index, _ in latest.after if index < finished]
    calls: list[Call] = []
    for index, hook in hooks.failed:
        instrument = hooks.instruments[index]
        if index < started and not any(instrument is other for other in ended):
            hook_label = f"run_after_pass_failed of instrument {instrument_name(instrument)!r}"
            calls.append((hook_label, partial(hook, mod, info, error)))
    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    for failure in await run_shielded(calls, grace=grace, error=error):
        if cancelled:
            raise failure
        error.add_note(f"and then a run_after_pass_failed raised {type(failure).__name__}: {text_of_error(failure)}")
