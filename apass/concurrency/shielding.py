"""Calling what must be called to the end: exit hooks and failure hooks, under cancellation too; for the runner."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, cast

import anyio

from apass.concurrency.coroutines import is_awaitable
from apass.errors import PassTimeoutError

__all__ = ["call_to_the_end", "combine"]


Call = tuple[str, Callable[[], Any]]
"""What is called, in words for a message, and the call."""


async def call_to_the_end(
    calls: Sequence[Call], *, grace: float, cancelled: bool, stop_at_error: bool = False
) -> list[BaseException]:
    """Make each of `calls` in order and return what they raised; a cancellation from outside interrupts none.

    A cancellation that comes meanwhile goes on at the caller's next wait.

    Calls that return nothing to await cost no more than a call. From the first one that does, the rest runs shielded.
    Once a cancellation has come (`cancelled` says that it has already) the rest has `grace` seconds; running over
    them ends the calls and gives a PassTimeoutError. With `stop_at_error`, the calls after a failed one are not made.
    """
    errors: list[BaseException] = []
    pending = iter(calls)
    for what, call in pending:
        outcome = _attempt(call, errors)
        if is_awaitable(outcome):
            await _finish_shielded(_Rest(what, outcome, pending, errors, stop_at_error), grace, cancelled)
            break
        if errors and stop_at_error:
            break
    return errors


def combine(message: str, errors: Sequence[BaseException]) -> BaseException:
    """Return the one error itself, or one flat group of several: the leaves of groups, each once, never nested.

    Copies of an error, as several have who waited for the same, are one.
    """
    if len(errors) == 1:
        return errors[0]
    leaves: dict[int, BaseException] = {}
    for error in errors:
        for leaf in _leaves(error):
            leaves.setdefault(id(_place_of_raising(leaf) or leaf), leaf)
    found = list(leaves.values())
    return found[0] if len(found) == 1 else BaseExceptionGroup(message, found)


def _place_of_raising(error: BaseException) -> TracebackType | None:
    """Return the innermost entry of the traceback, which an error shares with its copies and with nothing else."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place


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


class _Rest:
    """The calls from the first one that must be awaited."""

    def __init__(
        self, what: str, first: Any, pending: Iterator[Call], errors: list[BaseException], stop_at_error: bool
    ) -> None:
        self.what = what
        self.first = first
        self.pending = pending
        self.errors = errors
        self.stop_at_error = stop_at_error

    async def run(self) -> None:
        await self._wait_for(self.first)
        for what, call in self.pending:
            if self.errors and self.stop_at_error:
                return
            self.what = what
            outcome = _attempt(call, self.errors)
            if is_awaitable(outcome):
                await self._wait_for(outcome)

    async def _wait_for(self, outcome: Any) -> None:
        try:
            await outcome
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:
            self.errors.append(error)


async def _finish_shielded(rest: _Rest, grace: float, cancelled: bool) -> None:
    scope = anyio.CancelScope(shield=True)
    async with anyio.create_task_group() as watchers:
        with scope:
            if cancelled:
                scope.deadline = anyio.current_time() + grace
            else:
                watchers.start_soon(_limit_when_cancelled, scope, grace)
            await rest.run()
        # The cancellation that ended the watcher goes on at the next wait outside, after what is being raised.
        watchers.cancel_scope.shield = True
        watchers.cancel_scope.cancel()
    if scope.cancel_called:
        rest.errors.append(PassTimeoutError(f"{rest.what} did not end within {grace:g} s of a cancellation"))


async def _limit_when_cancelled(scope: anyio.CancelScope, grace: float) -> None:
    try:
        await anyio.sleep_forever()
    finally:
        scope.deadline = anyio.current_time() + grace
