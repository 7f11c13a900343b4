"""The funnel that every execution of a pass goes through: hooks around its work, and the checks on its result."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import CoroutineType
from typing import Any, TypeVar

import anyio

from apass.concurrency.coroutines import is_awaitable, metered_pass
from apass.concurrency.shielding import Call, call_to_the_end
from apass.core.adapter import ModT, adapter_for, adapter_of_type
from apass.core.context import PassContext, current_scope
from apass.core.deadline import Budget
from apass.core.info import PassInfo
from apass.core.instrument import Hooks, instrument_name
from apass.core.run import Run, current_run, note_whereabouts
from apass.errors import PassResultError
from apass.guard import within
from apass.runner.result_cache import cached
from apass.transformer import Transformer

__all__ = ["execute", "execute_bare", "execute_between_hooks"]

_COROUTINE: Any = CoroutineType

T = TypeVar("T")


def execute(pass_: Transformer[ModT], mod: ModT, ctx: PassContext) -> Coroutine[Any, Any, ModT]:
    """Run a pass on `mod`, with the hooks of the instruments in force, and return the module that it gave.

    Raises:
        PassResultError: if it gave none.
        Exception: what the pass or a hook raised, with a note that says where.

    """
    if ctx.results is not None:
        pass_ = cached(pass_, ctx)
    if ctx.may_be_limited:
        budget = current_scope().budget
        if budget is not None and pass_.is_cut_as_one():
            pass_ = _Limited(pass_, budget)
    return (execute_between_hooks if ctx.hooks.instruments else execute_bare)(pass_, mod, ctx)


class _Limited(Transformer[T]):
    """The work of a pass, up to the end of a budget; its hooks lie outside."""

    def __init__(self, pass_: Transformer[T], budget: Budget) -> None:
        self.info = pass_.info
        self.preserves = pass_.preserves
        self.pass_ = pass_
        self.budget = budget

    def transform(self, mod: T, ctx: PassContext) -> T | Awaitable[T]:
        return within(self.budget, f"pass {self.info.name!r}", self.pass_.transform, mod, ctx)

    def is_cut_as_one(self) -> bool:
        return True

    def cache_key(self, ctx: PassContext) -> str | None:
        return self.pass_.cache_key(ctx)


async def execute_bare(pass_: Transformer[ModT], mod: ModT, ctx: PassContext) -> ModT:
    """Run a pass where there is neither a store nor a budget, nor an instrument by now."""
    try:
        result: Any = pass_.transform(mod, ctx)
        if type(result) is _COROUTINE:
            result = await result
        # A glance is enough where the module keeps its type.
        kind: type[Any] = type(mod)
        if type(result) is not kind:
            result = await _module(result, mod, pass_.info)
        if result is not mod and pass_.preserves:
            await _preserve(pass_, mod, result, ctx)
        # The pass itself may have given its context instruments.
        if ctx.hooks.after:
            for _, hook in ctx.hooks.after:
                outcome = hook(result, pass_.info)
                if is_awaitable(outcome):
                    await outcome
        new: ModT = result
        return new
    except BaseException as error:
        _note(error, pass_.info)
        raise


async def execute_between_hooks(pass_: Transformer[ModT], mod: ModT, ctx: PassContext) -> ModT:
    """Run a pass where there is neither a store nor a budget, with the hooks of the instruments."""
    info = pass_.info
    hooks = now = ctx.hooks
    announced = told = 0
    try:
        if hooks.should_run and info.name not in ctx.required_pass:
            may_run = True
            for place, hook in hooks.should_run:
                answer = hook(mod, info)
                # Every instrument is asked, whatever the others say.
                if answer is not True and not await _answer(answer, hooks, place, info):
                    may_run = False
            if not may_run:
                return mod
            # Whoever is in force by now: a hook may have overridden the instruments.
            hooks = ctx.hooks
        for announced, hook in hooks.before:  # noqa: B007  used below, after an error
            outcome = hook(mod, info)
            if outcome is not None and is_awaitable(outcome):
                await outcome
        announced = len(hooks.instruments)
        result: Any = await _timed(pass_, mod, ctx, hooks) if hooks.steps else pass_.transform(mod, ctx)
        if type(result) is _COROUTINE:
            result = await result
        kind: type[Any] = type(mod)
        if type(result) is not kind:
            result = await _module(result, mod, info)
        if result is not mod and pass_.preserves:
            await _preserve(pass_, mod, result, ctx)
        now = ctx.hooks
        for place, hook in now.after:
            told = place + 1
            outcome = hook(result, info)
            if outcome is not None and is_awaitable(outcome):
                await outcome
        new: ModT = result
        return new
    except BaseException as error:
        _note(error, info)
        if hooks.failed:
            told_of_end = [now.instruments[place] for place, _ in now.after if place < told]
            open_ = _left_open(hooks, announced, told_of_end)
            await _announce_failure(open_, mod, info, error, ctx.exit_grace)
        raise


async def _preserve(pass_: Transformer[Any], mod: Any, result: Any, ctx: PassContext) -> None:
    """Take over the analyses that still hold, of the module and of each function that was changed."""
    before, after = adapter_for(mod), adapter_for(result)
    old = dict(before.functions(mod))
    changed = [(old[name], new) for name, new in after.functions(result) if name in old and old[name] is not new]
    pairs = [(mod, result), *changed]
    await ctx.analyses.carry(pass_.info.name, pass_.preserves, pairs, ctx, (before, after))


async def _answer(answer: Any, hooks: Hooks, place: int, info: PassInfo) -> bool:
    """Return what a `should_run` answered that was not simply True."""
    if is_awaitable(answer):
        answer = await answer
    if answer is None:
        what = f"should_run of instrument {instrument_name(hooks.instruments[place])!r}"
        raise PassResultError(f"{what} returned None for pass {info.name!r}; return True or False")
    return bool(answer)


async def _timed(pass_: Transformer[ModT], mod: ModT, ctx: PassContext, hooks: Hooks) -> Any:
    """Run the work of a pass, reporting each of its steps to the instruments that asked for them."""
    run = current_run() or Run(pass_.info, None)

    def report(start: float, end: float) -> None:
        for hook in hooks.steps:
            hook(run, start, end)

    return await metered_pass(_work(pass_, mod, ctx), report)


async def _work(pass_: Transformer[ModT], mod: ModT, ctx: PassContext) -> Any:
    result: Any = pass_.transform(mod, ctx)
    return await result if is_awaitable(result) else result


async def _module(result: Any, mod: object, info: PassInfo) -> Any:
    """Return the module that a pass returned in an unusual way: awaitable, or of another type than its input."""
    if is_awaitable(result):
        result = await result
    kind = result.__class__
    if kind is not type(mod) and (result is None or adapter_of_type(kind) is None):
        given = "None" if result is None else f"{result!r}, which is no module (a {kind.__qualname__})"
        raise PassResultError(f"pass {info.name!r} returned {given}; return the new module, or `mod` if unchanged")
    return result


def _left_open(hooks: Hooks, announced: int, told: list[object]) -> list[tuple[str, Callable[..., Any]]]:
    """Return the failure hooks of the instruments that were told of the pass's start and not of its end."""
    started = [(hooks.instruments[place], hook) for place, hook in hooks.failed if place < announced]
    return [
        (f"run_after_pass_failed of instrument {instrument_name(one)!r}", hook)
        for one, hook in started
        if not any(one is other for other in told)
    ]


async def _announce_failure(
    hooks: list[tuple[str, Callable[..., Any]]], mod: object, info: PassInfo, error: BaseException, grace: float
) -> None:
    """Call each of `hooks` to its end.

    What they raise is noted on `error`; where that is a cancellation, which nobody will read, it is raised.
    """
    calls: list[Call] = [(what, partial(hook, mod, info, error)) for what, hook in hooks]
    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    for failure in await call_to_the_end(calls, grace=grace, cancelled=cancelled):
        if cancelled:
            raise failure
        error.add_note(f"and then a run_after_pass_failed raised {type(failure).__name__}: {failure}")


def _note(error: BaseException, info: PassInfo) -> None:
    if not isinstance(error, GeneratorExit | anyio.get_cancelled_exc_class()):
        note_whereabouts(error, current_run() or Run(info, None))
