"""Calls that must complete despite a cancellation: exit hooks and failure hooks."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, cast

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.concurrency.native_cancellation import cancel_again, run_uncancelled
from apass.errors import PassTimeoutError

__all__ = ["flatten_errors", "run_shielded"]

Call = tuple[str, Callable[[], Any]]
"""A description of a call, for messages, and the call."""


async def run_shielded(
    calls: Sequence[Call], *, grace: float, error: BaseException | None = None, stop_at_error: bool = False
) -> list[BaseException]:
    """Make the calls in order, shielded from cancellation, and return their errors.

    A cancellation that arrives during the calls is raised at the caller's next checkpoint. The caller of this function
    raises the returned errors, or else `error`. If there is neither, a native cancellation of asyncio is raised at
    once. Plain calls have no overhead: the shield starts with the first call that returns an awaitable.

    Parameters:
        calls: the calls to make.
        grace: seconds that the calls have after a cancellation. If they exceed it, the remaining calls are skipped,
            and a PassTimeoutError is among the errors.
        error: the error that is already being raised, for example the cancellation of the caller.
        stop_at_error: whether to skip the calls after one that failed.

    """
    errors: list[BaseException] = []
    pending = iter(calls)
    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
    native: BaseException | None = None
    for description, call in pending:
        outcome = _attempt(call, errors)
        if is_awaitable(outcome):
            remaining = _RemainingCalls(description, outcome, pending, errors, stop_at_error)
            native = await _finish_shielded(remaining, grace, cancelled)
            break
        if errors and stop_at_error:
            break
    if native is not None and error is None and not errors:
        raise native
    # Another error is raised in place of the cancellation.
    if (native is not None or cancelled) and (errors or not cancelled):
        cancel_again()
    return errors


def flatten_errors(message: str, errors: Sequence[BaseException]) -> BaseException:
    """Return a single error unchanged, or one flat group of the leaves of several.

    Each leaf occurs once. Copies of an error, which `SingleFlight` makes for concurrent callers, count as one leaf.
    """
    if len(errors) == 1:
        return errors[0]
    leaves: dict[int, BaseException] = {}
    for error in errors:
        for leaf in _leaves(error):
            # Copies are different objects, but share the traceback entry at which the original was raised.
            leaves.setdefault(id(_innermost_traceback(leaf) or leaf), leaf)
    unique = list(leaves.values())
    return unique[0] if len(unique) == 1 else BaseExceptionGroup(message, unique)


def _innermost_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback entry at which the error was raised, or None."""
    entry = error.__traceback__
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
    return entry


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        yield error
        return
    group = cast("BaseExceptionGroup[BaseException]", error)
    notes: list[str] = getattr(group, "__notes__", [])
    for inner in group.exceptions:
        for note in notes:
            inner.add_note(note)
        yield from _leaves(inner)


def _attempt(call: Callable[[], Any], errors: list[BaseException]) -> Any:
    try:
        return call()
    except BaseException as error:
        errors.append(error)
        return None


class _RemainingCalls:
    """The calls from the first one that returned an awaitable."""

    def __init__(
        self, description: str, first: Any, pending: Iterator[Call], errors: list[BaseException], stop_at_error: bool
    ) -> None:
        self.description = description
        """The description of the current call."""
        self.first = first
        self.pending = pending
        self.errors = errors
        self.stop_at_error = stop_at_error
        self.scope = anyio.CancelScope(shield=True)
        """The shield; it is cancelled at the end of the grace period."""

    async def run(self) -> None:
        with self.scope:
            await self._wait_for(self.first)
            for description, call in self.pending:
                if self.errors and self.stop_at_error:
                    return
                self.description = description
                outcome = _attempt(call, self.errors)
                if is_awaitable(outcome):
                    await self._wait_for(outcome)

    async def _wait_for(self, outcome: Any) -> None:
        try:
            await outcome
        except BaseException as error:
            if self.scope.cancel_called and isinstance(error, anyio.get_cancelled_exc_class()):
                raise
            self.errors.append(error)


async def _finish_shielded(remaining: _RemainingCalls, grace: float, cancelled: bool) -> BaseException | None:
    """Make the remaining calls; return the native cancellation that arrived, or None."""

    def start_grace() -> None:
        scope.deadline = min(scope.deadline, anyio.current_time() + grace)

    async def start_grace_when_cancelled() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            start_grace()

    scope = remaining.scope
    if cancelled:
        start_grace()
    native: BaseException | None = None
    try:
        async with anyio.create_task_group() as watchers:
            # The watcher is outside the shield: an outer cancellation reaches it and starts the grace period.
            watchers.start_soon(start_grace_when_cancelled)
            native = await run_uncancelled(remaining.run, start_grace_when_cancelled)
            # Shield the exit of the group: a pending cancellation is then raised at the caller's next checkpoint, and
            # does not replace the errors collected here.
            watchers.cancel_scope.shield = True
            watchers.cancel_scope.cancel()
    except anyio.get_cancelled_exc_class() as error:
        native = error
    # A call may hide that it was cancelled, so the scope is asked, not the call.
    if scope.cancel_called:
        message = f"{remaining.description} did not end within {grace:g} s of a cancellation"
        remaining.errors.append(PassTimeoutError(message))
    return native
