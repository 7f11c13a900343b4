"""The hooks around bodies of function passes, for instruments that define them."""

from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import perf_counter
from typing import Any

from apass.concurrency.coroutines import is_async, is_awaitable, metered
from apass.core.hooks import FunctionHooks
from apass.core.run import current_run
from apass.runner.hook_time import HookTime
from apass.runner.step_hooks import StepHooks

__all__ = ["with_function_hooks"]


def with_function_hooks(body: Callable[..., Any], hooks: FunctionHooks, steps: StepHooks | None) -> Callable[..., Any]:
    """Return `body`, called as `body(func, mod, ctx)`, with `hooks` called around it.

    An async body stays async, and a plain one stays plain. `steps` are the step hooks among `hooks`, if there are any.
    """

    def run_plain(func: Any, mod: Any, ctx: Any) -> Any:
        observer = _Observer(hooks, steps, func)
        start = perf_counter()
        try:
            try:
                result = body(func, mod, ctx)
            finally:
                if steps is not None:
                    observer.step(start, perf_counter())
            if is_awaitable(result):
                return _ObservedAwaitable(observer, result)
            if steps is not None:
                steps.check()
        except BaseException as error:
            observer.failed(error)
            raise
        observer.done(result)
        return result

    async def run_async(func: Any, mod: Any, ctx: Any) -> Any:
        return await _Observer(hooks, steps, func).finish(body(func, mod, ctx))

    return run_async if is_async(body) else run_plain


class _Observer:
    """Calls the hooks for one body."""

    __slots__ = ("_func", "_hooks", "_run", "_steps")

    def __init__(self, hooks: FunctionHooks, steps: StepHooks | None, func: Any) -> None:
        run = current_run()
        assert run is not None, "a body runs within a pass"
        self._hooks, self._steps, self._func, self._run = hooks, steps, func, run
        clock = HookTime(hooks.times) if hooks.times else None
        for hook in hooks.before:
            hook(func, run)
        if clock is not None:
            clock.report(run.body_of)
        run.started = perf_counter()

    async def finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await the work of the body, and report its steps and its end."""
        try:
            result = await (work if self._steps is None else metered(work, self.step))
        except BaseException as error:
            self.failed(error)
            raise
        self.done(result)
        return result

    def step(self, start: float, end: float) -> None:
        """Report a step."""
        assert self._steps is not None, "only called if there are step hooks"
        self._steps.report(self._run, start, end)

    def done(self, result: Any) -> None:
        """Report the result."""
        self._run.ended = perf_counter()
        clock = HookTime(self._hooks.times) if self._hooks.times else None
        for hook in self._hooks.after:
            hook(self._func, result, self._run)
        if clock is not None:
            clock.report(self._run.body_of)

    def failed(self, error: BaseException) -> None:
        """Report the failure. Errors raised by hooks are added to `error` as notes."""
        self._run.ended = perf_counter()
        for hook in self._hooks.failed:
            try:
                hook(self._func, self._run, error)
            except Exception as another:
                error.add_note(f"and then a run_after_function_failed raised {type(another).__name__}: {another}")


async def _awaited(result: Awaitable[Any]) -> Any:
    return await result


class _ObservedAwaitable(Coroutine[Any, Any, Any]):
    """The awaitable that a plain body returned, observed.

    Closing it closes the awaitable too.
    """

    def __init__(self, observer: _Observer, result: Any) -> None:
        # Only a coroutine can be closed, and it warns if it is neither awaited nor closed.
        self._result: Coroutine[Any, Any, Any] = result if isinstance(result, Coroutine) else _awaited(result)
        self._work = observer.finish(self._result)

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def send(self, value: Any, /) -> Any:
        """Run to the next suspension."""
        return self._work.send(value)

    def throw(self, *exc_info: Any) -> Any:
        """Raise an exception in the body."""
        return self._work.throw(*exc_info)

    def close(self) -> None:
        """Close the body without running it to its end."""
        self._work.close()
        self._result.close()
