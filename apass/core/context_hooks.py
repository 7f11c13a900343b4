"""The hooks of entering and leaving a context, and their failures.

For example, with instruments A and B whose `enter_pass_ctx` both work, `A.exit_pass_ctx` is called first at the end. If
`B.enter_pass_ctx` raises, A is exited, and the context has no instruments from then on, as in TVM.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.shielding import Call, flatten_errors, run_shielded
from apass.core.hooks import NO_HOOKS, Hooks, find_hook
from apass.core.instrument import instrument_name
from apass.core.scope import ContextState

__all__ = ["enter_instruments", "exit_instruments", "replace_instruments"]


async def enter_instruments(state: ContextState, grace: float) -> None:
    """Call `enter_pass_ctx` of the instruments in force.

    Parameters:
        state: the state of the context.
        grace: seconds that `exit_pass_ctx` has, for the instruments that are entered before one fails.

    Raises:
        Exception: the error of a hook; with further errors of the exits, a group of all.

    """
    instruments = state.hooks.instruments
    entered: list[object] = []
    try:
        for instrument in instruments:
            hook = find_hook(instrument, "enter_pass_ctx")
            outcome: Any = None if hook is None else hook()
            if is_awaitable(outcome):
                await outcome
            entered.append(instrument)
    except BaseException as error:
        # The one that failed counts as not entered: its hook may have done nothing yet.
        _report_failure(instruments[len(entered) :], error, is_entered=False)
        await _undo_entering(state, entered, grace, error)
        raise


async def _undo_entering(state: ContextState, entered: list[object], grace: float, error: BaseException) -> None:
    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    if not cancelled:
        # A cancellation is no failure of the instruments: they stay, and the context can be entered again.
        state.hooks = NO_HOOKS
    errors = await run_shielded(_exits(reversed(entered), []), grace=grace, error=error)
    if errors:
        # The cause of the group, not a member: asyncio does not recognize a cancellation within a group.
        every = errors if cancelled else [error, *errors]
        message = "entering a PassContext failed, and so did leaving the instruments already entered"
        raise flatten_errors(message, every) from (error if cancelled else None)


async def exit_instruments(state: ContextState, grace: float, error: BaseException | None = None) -> None:
    """Call `exit_pass_ctx` of the instruments in force, shielded from cancellation.

    Parameters:
        state: the state of the context.
        grace: seconds that the hooks have after a cancellation.
        error: the error that ends the block of the context, or None.

    Raises:
        Exception: the first error of a hook. The hooks after it are not called, and the context has none any more.

    """
    instruments = state.hooks.instruments
    exited: list[object] = []
    errors = await run_shielded(_exits(instruments, exited), grace=grace, error=error, stop_at_error=True)
    if errors:
        state.hooks = NO_HOOKS
        _report_failure(instruments[len(exited) :], errors[0], is_entered=True)
        raise errors[0]


async def replace_instruments(state: ContextState, new: Hooks, grace: float) -> None:
    """Exit the instruments in force and enter others, if the context is entered.

    Parameters:
        state: the state of the context.
        new: the hooks of the other instruments.
        grace: see `exit_instruments`.

    Raises:
        Exception: the error of a hook; the context has no instruments then.

    """
    if not state.scopes:
        state.hooks = new
        return
    try:
        await exit_instruments(state, grace)
    except BaseException as error:
        # `exit_instruments` does this for an error of a hook only, and a cancellation may come between two hooks.
        state.hooks = NO_HOOKS
        _report_failure(new.instruments, error, is_entered=False)
        raise
    try:
        state.hooks = new
        await enter_instruments(state, grace)
    except BaseException:
        # The context stays current; leaving it must not exit instruments that were not entered.
        state.hooks = NO_HOOKS
        raise


def _exits(instruments: Iterable[object], exited: list[object]) -> list[Call]:
    """Return the calls that exit `instruments`; each adds its one to `exited`."""

    def leave(instrument: object) -> Any:
        # Before the hook: one that raises has been called.
        exited.append(instrument)
        hook = find_hook(instrument, "exit_pass_ctx")
        return None if hook is None else hook()

    return [
        (f"exit_pass_ctx of instrument {instrument_name(instrument)!r}", partial(leave, instrument))
        for instrument in instruments
    ]


def _report_failure(instruments: Iterable[object], error: BaseException, *, is_entered: bool) -> None:
    """Call `on_context_failed` of each instrument.

    An exception of the hook becomes a note on `error`, as for `run_after_pass_failed`.
    """
    for instrument in instruments:
        hook = find_hook(instrument, "on_context_failed")
        try:
            if hook is not None:
                hook(error, is_entered)
        except Exception as raised:
            error.add_note(f"on_context_failed of instrument {instrument_name(instrument)!r} raised {raised!r}")
