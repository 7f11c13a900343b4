"""Calling the hooks around the bodies of function passes; used only where an instrument defines some."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import perf_counter
from typing import Any

from apass.concurrency.coroutines import is_async, is_awaitable, metered
from apass.core.instrument import FunctionHooks
from apass.core.run import current_run

__all__ = ["observed"]


def observed(body: Callable[..., Any], hooks: FunctionHooks) -> Callable[..., Any]:
    """Return `body`, which takes a function, the module and the context, with `hooks` called around it.

    What is async stays so, and what is not stays so.
    """

    def run_body(func: Any, mod: Any, ctx: Any) -> Any:
        watch = _Watch(hooks, func)
        start = perf_counter()
        try:
            result = body(func, mod, ctx)
        except BaseException as error:
            watch.step(start, perf_counter())
            watch.failed(error)
            raise
        watch.step(start, perf_counter())
        if is_awaitable(result):
            return _Finishing(watch, result)
        watch.done(result)
        return result

    async def await_body(func: Any, mod: Any, ctx: Any) -> Any:
        return await _Watch(hooks, func).finish(body(func, mod, ctx))

    return await_body if is_async(body) else run_body


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


class _Watch:
    """One body that is watched."""

    __slots__ = ("_func", "_hooks", "_run")

    def __init__(self, hooks: FunctionHooks, func: Any) -> None:
        run = current_run()
        assert run is not None, "a body runs within a pass"
        self._hooks, self._func, self._run = hooks, func, run
        for hook in hooks.before:
            hook(func, run)

    async def finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the work of the body, reporting its steps and its end."""
        try:
            result = await (metered(work, self.step) if self._hooks.steps else work)
        except BaseException as error:
            self.failed(error)
            raise
        self.done(result)
        return result

    def step(self, start: float, end: float) -> None:
        """Report a step."""
        for hook in self._hooks.steps:
            hook(self._run, start, end)

    def done(self, result: Any) -> None:
        """Report the end."""
        for hook in self._hooks.after:
            hook(self._func, result, self._run)

    def failed(self, error: BaseException) -> None:
        """Report the failure; what a hook raises then is noted on the error."""
        for hook in self._hooks.failed:
            try:
                hook(self._func, self._run, error)
            except Exception as another:
                error.add_note(f"and then a run_after_function_failed raised {type(another).__name__}: {another}")


class _Finishing(Coroutine[Any, Any, Any]):
    """What a plain body returned that must be awaited, watched; closing it closes that too, as if it were bare."""

    def __init__(self, watch: _Watch, result: Any) -> None:
        # Only a coroutine can be closed, and complains if nobody does.
        self._result: Coroutine[Any, Any, Any] = result if isinstance(result, Coroutine) else _awaited(result)
        self._work = watch.finish(self._result)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def send(self, value: Any, /) -> Any:
        """Run on to the next suspension."""
        return self._work.send(value)

    def throw(self, *thrown: Any) -> Any:
        """Raise in the body."""
        return self._work.throw(*thrown)

    def close(self) -> None:
        """End without running on."""
        self._work.close()
        self._result.close()
