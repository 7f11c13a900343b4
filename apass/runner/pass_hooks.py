"""`PassHooks`: the hooks of instruments around a pass."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import perf_counter
from typing import Any, Final, Literal

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.shielding import Call, run_shielded
from apass.core.context import PassScope
from apass.core.hooks import NO_HOOKS, Hooks, answer_of_should_run
from apass.core.instrument import instrument_name
from apass.core.pass_info import AnyPass, PassInfo
from apass.core.run import Run, RunCursor
from apass.runner.hook_time import HookTime
from apass.util.text import text_of_error

__all__ = ["PassHooks"]

_IndexedHooks = Iterable[tuple[int, Callable[..., Any]]]
"""Hooks, each with the index of its instrument."""

_NONE: Final = (-1, None)
"""The index and the outcome of the last hook that was called: here, none was."""


class PassHooks:
    """Calls the hooks of instruments around each pass of a loop.

    It knows which instruments have seen the start of the current pass, and which its end: `failed` is for those between
    the two. The cursor of the loop keeps the object for the next pass.

    `start` and `after` return at once if no hook must be awaited. With a coroutine for each of them, and an object for
    each pass, a pass between the hooks of one instrument would take 1.5 times as long.
    """

    __slots__ = ("_at_end", "_at_start", "_index", "_info", "_scope")

    def __init__(self, info: PassInfo, scope: PassScope, cursor: RunCursor) -> None:
        cursor.hooks = self
        self._info: PassInfo = info
        self._scope: Final = scope
        self._at_start: Hooks = NO_HOOKS
        """The hooks before the current pass."""
        self._at_end: Hooks | None = None
        """The hooks after it, once it has ended; other ones if the instruments were overridden meanwhile."""
        self._index = 0
        """The index of the instrument whose hook runs; the number of instruments after the last hook of the start."""

    def start(self, pass_: AnyPass, mod: Any, cursor: RunCursor) -> Literal[True] | Awaitable[bool]:
        """Call `should_run` and `run_before_pass`; return whether the pass may run.

        If a `should_run` returns False, it may not, and no `run_before_pass` is called. A pass that `required_pass`
        names may run in any case.

        Raises:
            PassResultError: if a `should_run` returns None.

        """
        scope, info = self._scope, pass_.info
        hooks = self._at_start = scope.state.hooks
        self._info, self._at_end, self._index = info, None, 0
        questions = hooks.should_run
        if scope.records_passes and not scope.ctx.required_pass.isdisjoint(pass_.all_names):
            questions = ()
        if hooks.times:
            return self._ask(questions, mod, cursor, HookTime(hooks.times))
        for index, hook in questions:
            answer = hook(mod, info)
            if answer is not True:
                return self._ask(questions, mod, cursor, None, (index, answer))
        # Again: a hook may have called `override_instruments`.
        hooks = self._at_start = scope.state.hooks
        for self._index, hook in hooks.before:
            outcome = hook(mod, info)
            if outcome is not None and is_awaitable(outcome):
                return self._before(mod, cursor, None, (self._index, outcome))
        self._index = len(hooks.instruments)
        # What `cursor.begin()` does: a call would take 4% of the time of a pass between the hooks of one instrument.
        item = cursor.item
        (item if type(item) is Run else cursor).started = perf_counter()
        return True

    async def _ask(
        self,
        questions: _IndexedHooks,
        mod: Any,
        cursor: RunCursor,
        clock: HookTime | None,
        known: tuple[int, Any] = _NONE,
    ) -> bool:
        """Do the rest of `start`, from the `should_run` that is `known`."""
        instruments, may_run = self._at_start.instruments, True
        for index, hook in questions:
            if index >= known[0]:
                answer = known[1] if index == known[0] else hook(mod, self._info)
                if clock is not None and is_awaitable(answer):
                    answer = clock.wait(answer)
                # Every instrument is asked, whatever the others answer.
                may_run = await answer_of_should_run(answer, instruments[index], self._info) and may_run
        if may_run:
            self._at_start = self._scope.state.hooks
            return await self._before(mod, cursor, clock)
        if clock is not None:
            clock.report(cursor.parent)
        return False

    async def _before(
        self, mod: Any, cursor: RunCursor, clock: HookTime | None, known: tuple[int, Any] = _NONE
    ) -> Literal[True]:
        """Do the rest of `start`, from the `run_before_pass` that is `known`."""
        hooks = self._at_start
        await self._call(hooks.before, mod, cursor, clock, known)
        self._index = len(hooks.instruments)
        cursor.begin()
        return True

    def after(self, result: Any, cursor: RunCursor) -> Awaitable[None] | None:
        """Call `run_after_pass`; return what is left to await."""
        # What `cursor.end()` does, see `start`.
        item = cursor.item
        (item if type(item) is Run else cursor).ended = perf_counter()
        # Again: the pass may have called `override_instruments`.
        hooks = self._at_end = self._scope.state.hooks
        self._index = -1
        if hooks.times:
            return self._after(result, cursor, HookTime(hooks.times))
        for self._index, hook in hooks.after:
            outcome = hook(result, self._info)
            if outcome is not None and is_awaitable(outcome):
                return self._after(result, cursor, None, (self._index, outcome))
        # The next pass of the loop may run without hooks.
        cursor.started = cursor.ended = 0.0
        return None

    async def _after(
        self, result: Any, cursor: RunCursor, clock: HookTime | None, known: tuple[int, Any] = _NONE
    ) -> None:
        """Do the rest of `after`, from the `run_after_pass` that is `known`."""
        assert self._at_end is not None, "the pass has ended"
        await self._call(self._at_end.after, result, cursor, clock, known)
        cursor.started = cursor.ended = 0.0

    async def after_override(self, result: Any, cursor: RunCursor) -> None:
        """Call `run_after_pass` of instruments that a pass without any has chosen."""
        hooks = self._at_end = self._scope.state.hooks
        await self._after(result, cursor, HookTime(hooks.times) if hooks.times else None)

    async def _call(
        self, hooks: _IndexedHooks, mod: Any, cursor: RunCursor, clock: HookTime | None, known: tuple[int, Any]
    ) -> None:
        """Call hooks from the one that is `known`, await them, and report the time."""
        for index, hook in hooks:
            if index >= known[0]:
                self._index = index
                outcome = known[1] if index == known[0] else hook(mod, self._info)
                if outcome is not None and is_awaitable(outcome):
                    await (outcome if clock is None else clock.wait(outcome))
        if clock is not None:
            clock.report(cursor.parent)

    async def failed(self, mod: Any, error: BaseException) -> None:
        """Call `run_after_pass_failed` of the instruments between start and end.

        Errors of hooks are added to `error` as notes. If `error` is a cancellation, they are raised: no code would read
        its notes.
        """
        hooks, at_end = self._at_start, self._at_end
        if not hooks.failed:
            return
        started = self._index if at_end is None else len(hooks.instruments)
        ended = [at_end.instruments[index] for index, _ in at_end.after if index <= self._index] if at_end else []
        calls: list[Call] = []
        for index, hook in hooks.failed:
            instrument = hooks.instruments[index]
            # By identity, not by index: the instruments after the pass may be others (see `override_instruments`).
            if index < started and not any(instrument is other for other in ended):
                hook_label = f"run_after_pass_failed of instrument {instrument_name(instrument)!r}"
                calls.append((hook_label, partial(hook, mod, self._info, error)))
        # Shielded: after a cancellation, hooks may still await something for the grace of the context.
        is_cancelled = isinstance(error, anyio.get_cancelled_exc_class())
        for failure in await run_shielded(calls, grace=self._scope.ctx.exit_grace, error=error):
            if is_cancelled:
                raise failure
            error.add_note(
                f"and then a run_after_pass_failed raised {type(failure).__name__}: {text_of_error(failure)}"
            )
