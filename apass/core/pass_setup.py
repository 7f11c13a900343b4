"""`PassSetup`: opens passes for a run, and closes them after it."""

import inspect
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup

from apass.concurrency.shielding import flatten_errors, run_shielded
from apass.core.context import OPENED, PassContext, current_scope
from apass.core.pass_info import AnyPass
from apass.errors import PassContextError, PassDefinitionError
from apass.util.text import text_of_error

__all__ = ["PassSetup"]


class PassSetup:
    """An async context manager in which some passes are set up.

    It calls `open` of each pass, in order, and closes them in reverse. What is open already is not opened again. Bodies
    get it by `ctx.opened`.

    Each manager is entered and left in a task of its own, which is shielded from cancellation. A cancelled run
    therefore ends first, and its passes are closed after it; they have `exit_grace` seconds for this.

    Errors of closing are raised, unless the run has failed: then they become notes on its error. If a manager fails
    while the passes run, these are cancelled, and its error is raised.
    """

    def __init__(self, passes: Iterable[AnyPass], ctx: PassContext) -> None:
        self._ctx = ctx
        self._before = self.values = OPENED.get()
        """What is open, by opener."""
        self._passes = list({pass_.open: pass_ for pass_ in passes if pass_.open not in self.values}.values())
        self._hosts: Final[list[_Host]] = []
        """The passes that are open or being opened."""
        self._group: TaskGroup | None = None

    async def __aenter__(self) -> Self:
        if not self._passes:
            return self
        group = self._group = await anyio.create_task_group().__aenter__()
        try:
            for pass_ in self._passes:
                host = _Host(pass_)
                self._hosts.append(host)
                group.start_soon(host.run, self._ctx, group.cancel_scope)
                # One after the other, and closed in reverse, as in an AsyncExitStack.
                await self._wait_until_open(host)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        self.values = {**self.values, **{host.pass_.open: host.value for host in self._hosts}}
        OPENED.set(self.values)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        group = self._group
        if group is None:
            return
        OPENED.set(self._before)
        is_cancelled = isinstance(exc, anyio.get_cancelled_exc_class())
        calls = [(f"closing pass {host.name!r}", host.finish) for host in reversed(self._hosts)]
        errors = await run_shielded(calls, grace=self._ctx.exit_grace, error=exc)
        # The managers that have not ended within the grace.
        for host in self._hosts:
            host.scope.cancel()
        errors += [host.error for host in self._hosts if host.error is not None and host.error is not exc]
        if not is_cancelled:
            # The exit of the group must not replace an error by a cancellation that waits outside.
            group.cancel_scope.shield = True
            group.cancel_scope.cancel()
        try:
            # The group absorbs the cancellation by a manager that failed, whose error is raised below.
            await group.__aexit__(*((exc_type, exc, traceback) if is_cancelled else (None, None, None)))
        except BaseExceptionGroup as raised:
            errors += raised.exceptions
        except anyio.get_cancelled_exc_class():
            if not errors:
                raise
        if exc is not None and not is_cancelled:
            for error in errors:
                exc.add_note(f"and then {type(error).__name__} was raised: {text_of_error(error)}")
        elif errors:
            raise flatten_errors("several passes could not be closed", errors)

    async def _wait_until_open(self, host: "_Host") -> None:
        deadline = current_scope().deadline
        with anyio.move_on_after(float("inf") if deadline is None else deadline.left()):
            await host.ready.wait()
        if deadline is not None and not host.ready.is_set():
            raise deadline.exceeded(f"opening pass {host.name!r}")
        if host.error is not None:
            raise host.error


class _Host:
    """The task that enters and leaves the manager of one pass."""

    def __init__(self, pass_: AnyPass) -> None:
        self.pass_: Final = pass_
        self.name: Final = pass_.info.name
        self.ready: Final = anyio.Event()
        """Set when the manager was entered, or failed."""
        self.close: Final = anyio.Event()
        """Set when the manager shall be left."""
        self.closed: Final = anyio.Event()
        """Set when the task has ended."""
        self.scope: Final = anyio.CancelScope(shield=True)
        self.value: Any = None
        """What the manager returned."""
        self.error: Exception | None = None

    async def run(self, ctx: PassContext, users: anyio.CancelScope) -> None:
        """Enter the manager, and leave it when `close` is set.

        If it fails before, cancel `users`.
        """
        try:
            with self.scope:
                async with _manager(self.pass_, ctx) as self.value:
                    self.ready.set()
                    await self.close.wait()
                if not self.close.is_set():
                    self.error = PassContextError(f"open of pass {self.name!r} ended before the run; wait in `yield`")
        except Exception as error:
            error.add_note(f"in `open` of pass {self.name!r}")
            self.error = error
        finally:
            # The manager ended while passes use it, for example because a connection broke.
            if self.ready.is_set() and not self.close.is_set():
                users.cancel()
            self.ready.set()
            self.closed.set()

    async def finish(self) -> None:
        """Leave the manager, or give up entering it."""
        self.close.set()
        if not self.ready.is_set():
            self.scope.cancel()
        await self.closed.wait()


def _manager(pass_: AnyPass, ctx: PassContext) -> AbstractAsyncContextManager[Any]:
    """Return the context manager of a pass.

    Raises:
        PassDefinitionError: if `open` returns something else.

    """
    opener: Any = pass_.open
    manager: Any = asynccontextmanager(opener)(ctx) if inspect.isasyncgenfunction(opener) else opener(ctx)
    if not hasattr(manager.__class__, "__aenter__"):
        raise PassDefinitionError(
            f"open of pass {pass_.info.name!r} returned {manager!r}, expected an async context manager; write `async "
            "def open(self, ctx)` with one `yield`"
        )
    opened: AbstractAsyncContextManager[Any] = manager
    return opened
