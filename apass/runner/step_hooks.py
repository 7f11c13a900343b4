"""Step hooks: called between two steps of a coroutine, where nothing may raise."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import anyio

from apass.concurrency.native_cancellation import cancel_again
from apass.core.run import Run, note_whereabouts

__all__ = ["StepHooks"]

R = TypeVar("R")


class StepHooks:
    """The step hooks around one execution of a pass.

    If a hook raises, the execution is cancelled, and fails with the error of the hook. The error cannot be raised
    at once: the coroutine is suspended then, with scopes open and with entries in the queues of the event loop.
    """

    def __init__(self, hooks: Sequence[Callable[[Run, float, float], object]]) -> None:
        self._hooks: Final = hooks
        self._scope: Final = anyio.CancelScope()
        self._error: BaseException | None = None

    def report(self, run: Run, start: float, end: float) -> None:
        """Call the hooks, until one has raised."""
        if self._error is not None:
            return
        try:
            for hook in self._hooks:
                hook(run, start, end)
        except BaseException as error:
            note_whereabouts(error, run)
            self._error = error
            self._scope.cancel()

    def check(self) -> None:
        """Raise the error of a hook, if there is one."""
        if self._error is not None:
            raise self._error

    async def surround(self, work: Coroutine[Any, Any, R]) -> R:
        """Return the result of `work`, whose steps are reported.

        Raises:
            BaseException: the error of `work`, with a note if a hook has failed too; or the error of a hook.

        """
        results: list[R] = []
        try:
            with self._scope:
                results.append(await work)
        except anyio.get_cancelled_exc_class():
            if self._error is None:
                raise
            cancel_again()
        except BaseException as error:
            if self._error is not None and error is not self._error:
                error.add_note(f"and then a step hook raised {type(self._error).__name__}: {self._error}")
            raise
        self.check()
        return results[0]
