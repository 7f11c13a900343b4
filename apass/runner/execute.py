"""`execute`: one execution of a pass, from its first hook to its last."""

from types import CoroutineType
from typing import Any

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.core.adapter import ModT
from apass.core.context import PassScope
from apass.core.hooks import NO_HOOKS
from apass.core.run import RunCursor, note_whereabouts
from apass.core.tracebacks import hidden_in_pytest, hide_runner_frames
from apass.runner.changes import CHANGES
from apass.runner.layers import Runnable, layered
from apass.runner.pass_hooks import PassHooks
from apass.runner.results import carry_analyses, check_module

__all__ = ["execute"]

__tracebackhide__ = hidden_in_pytest

_COROUTINE: Any = CoroutineType


async def execute(pass_: Runnable[ModT], mod: ModT, scope: PassScope, cursor: RunCursor) -> ModT:
    """Run a pass on `mod` with the hooks of instruments, and return the new module.

    Every execution of every pass goes through here. The pass is the `item` of `cursor`.

    Raises:
        PassResultError: if the pass returned no module.
        Exception: any error of the pass or of a hook, with a note that names the place.

    """
    state = scope.state
    cursor.mod = mod
    hooks = None if state.hooks is NO_HOOKS else cursor.hooks or PassHooks(pass_.info, scope, cursor)
    try:
        # `start` returns True itself unless a hook must be awaited: most hooks are plain.
        if hooks is not None and (may_run := hooks.start(pass_, mod, cursor)) is not True and not await may_run:
            return mod
        # Looked up after the hooks, which may have called `override_instruments`. Most passes need no layer.
        if scope.is_plain and pass_.is_bare and (hooks is None or not state.hooks.wraps):
            result: Any = pass_.transform(mod, scope.ctx)
        else:
            result = layered(pass_, scope, cursor)(mod, scope.ctx)
        if result is not mod:
            kind: type[Any] = type(mod)
            # Exact types first: `is_awaitable` looks up an attribute of each class, which takes longer.
            if type(result) is _COROUTINE or (type(result) is not kind and is_awaitable(result)):
                result = await result
            if result is not mod and (
                type(result) is not kind or pass_.contract.preserves or CHANGES.get() is not None
            ):
                await _accept(result, pass_, mod, scope, cursor)
        if hooks is not None:
            rest = hooks.after(result, cursor)
            if rest is not None:
                await rest
        elif state.hooks is not NO_HOOKS:
            # The pass has called `override_instruments`.
            await PassHooks(pass_.info, scope, cursor).after_override(result, cursor)
        new: ModT = result
        return new
    except BaseException as error:
        await _note_failure(error, hooks, mod, cursor)
        raise


async def _accept(result: Any, pass_: Runnable[Any], mod: Any, scope: PassScope, cursor: RunCursor) -> None:
    """Check a result, record the change, and keep the analyses that are preserved."""
    if type(result) is not type(mod):
        check_module(result, pass_.info)
    changes = CHANGES.get()
    if changes is not None:
        changes.record(pass_.info.name, cursor)
    # With `run_around_pass`, the result may not be the one of the pass.
    if pass_.contract.preserves and not scope.state.hooks.around:
        await carry_analyses(pass_.info, pass_.contract.preserves, mod, result, scope)


async def _note_failure(error: BaseException, hooks: PassHooks | None, mod: Any, cursor: RunCursor) -> None:
    """Record where an error was raised, and call the failure hooks."""
    cursor.end()
    run = cursor.run()
    # A cancellation has no place: the runner of the cancelled scope catches it, and no user reads its notes.
    if run is not None and not isinstance(error, anyio.get_cancelled_exc_class()):
        note_whereabouts(error, run)
    hide_runner_frames(error)
    if hooks is not None:
        await hooks.failed(mod, error)
