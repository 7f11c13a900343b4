"""`optimize_stream`: runs a pass on a possibly endless stream of modules."""

from collections import deque
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

import anyio
from anyio.to_thread import run_sync

from apass.batch.execution import module_runner
from apass.batch.journal import JournalChoice, OpenJournal, check_journal, describe_run, finish
from apass.batch.source import ModuleSource
from apass.batch.workers import ModuleWorkers
from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope
from apass.core.displayed import Displayed
from apass.core.executor import ExecutorChoice, check_executor
from apass.core.pass_setup import PassSetup
from apass.core.run import enter_module
from apass.core.tracebacks import hide_runner_frames
from apass.errors import PassCancelledError, PassContextError
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass
from apass.util.checks import check_type, is_count
from apass.util.text import count_of, shorten

__all__ = ["DEFAULT_LIMIT", "KeyT", "Modules", "Outcome", "OutcomeStream", "optimize_stream"]

KeyT = TypeVar("KeyT", bound=Hashable)

Modules = Mapping[KeyT, ModT] | Iterable[ModT] | AsyncIterable[ModT]
"""Modules by key or in order; an async iterable may be endless."""

DEFAULT_LIMIT = 256
"""The default number of modules in flight."""


@dataclass(frozen=True, slots=True)
class Outcome(Displayed, Generic[ModT]):
    """The result or the error of one module."""

    name: Any
    """The key in the mapping, or the index in the input, from 0."""
    module: ModT | None
    """The new module; None if a pass failed."""
    error: Exception | None
    """The error of a pass, with notes that give the location; None on success."""
    seconds: float
    """Wall time from the start of the first pass to the end of the last."""
    resumed: bool = False
    """Whether the result comes from the journal, so that no pass ran."""

    def __block__(self) -> object:
        # The blocks take long to import, and most programs show no outcome.
        from apass.core.view import module_block
        from apass.display.blocks import Code, Fold, Span
        from apass.display.highlight import plain_lines

        title = (*self._line(), Span(f"  {self.seconds:.3f} s", "muted"))
        if self.error is None:
            return Fold(title, module_block(self.module))
        notes: list[str] = getattr(self.error, "__notes__", [])
        lines = [line for note in notes for line in plain_lines(str(note))]
        return Fold(title, Code([(Span(line, "muted"),) for line in lines])) if lines else title

    @classmethod
    def __block_of__(cls, items: Sequence["Outcome[Any]"]) -> object:
        # See `__block__`.
        from apass.display.blocks import Bar, Group, Row, Span, Table, limited

        failed = [outcome for outcome in items if outcome.error is not None]
        resumed = sum(outcome.resumed for outcome in items)
        heading: list[Span] = [Span(count_of(len(items), "module"), "name")]
        heading += [Span(f"  {len(failed)} failed", "bad")] if failed else []
        heading += [Span(f"  {resumed} resumed", "note")] if resumed else []
        longest = max((outcome.seconds for outcome in items), default=0.0)
        ordered = [*failed, *(outcome for outcome in items if outcome.error is None)]
        rows = [
            Row([(Span(f"{outcome.seconds:.3f}"),), Bar.of(outcome.seconds, 0.0, longest), outcome._line()])
            for outcome in ordered
        ]
        return Group([tuple(heading), limited(Table(["seconds", "", "module"], rows, numbers=1))])

    def _line(self) -> tuple[Any, ...]:
        # See `__block__`.
        from apass.display.blocks import Span

        name = Span(f" {self.name}", "name")
        if self.error is not None:
            reason = shorten(f"{type(self.error).__name__}: {self.error}")
            return (Span("failed", "bad"), name, Span(f"  {reason}"))
        return (Span("resumed" if self.resumed else "done", "note" if self.resumed else "good"), name)

    def unwrap(self) -> ModT:
        """Return the module, or raise the error."""
        if self.error is not None:
            try:
                raise self.error
            except Exception as error:
                hide_runner_frames(error)
                raise
        assert self.module is not None
        return self.module


@overload
def optimize_stream(
    modules: Mapping[KeyT, ModT],
    pass_: Pass[ModT] | str,
    *,
    limit: int | None = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
    context: PassContext | None = ...,
) -> "OutcomeStream[ModT]": ...


@overload
def optimize_stream(
    modules: Iterable[ModT] | AsyncIterable[ModT],
    pass_: Pass[ModT] | str,
    *,
    limit: int | None = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
    context: PassContext | None = ...,
) -> "OutcomeStream[ModT]": ...


def optimize_stream(
    modules: Any,
    pass_: Pass[Any] | str,
    *,
    limit: int | None = DEFAULT_LIMIT,
    executor: ExecutorChoice = None,
    journal: JournalChoice = None,
    context: PassContext | None = None,
) -> "OutcomeStream[Any]":
    """Run `pass_` on modules as they arrive, and return the outcomes as they finish.

    `modules` may be an endless async iterable. The next module is requested only if fewer than `limit` are in flight,
    including those whose outcome has not been consumed. Leaving the block early cancels the modules in flight. An
    `executor` runs whole modules, as in `optimize_all`.

    With a `journal` (a `Journal` or its path), each result is stored before its outcome is returned. The same call in
    another process reuses the stored results and runs the pass on the other modules only, even if this process was
    killed. A stored result is found by the contents of the module and, if `modules` is a mapping, its key. Failures are
    not stored, so failed modules run again.

    `pass_` may be the text of a pipeline. With a `context`, everything runs in that `PassContext`, else in the current
    one.

    Raises:
        JournalError: on entering the block, if the journal belongs to another run or cannot be used.

    >>> from apass.passes.decorators import module_pass
    >>> async def main():
    ...     negate = module_pass(lambda mod, ctx: {"f": -mod["f"]}, opt_level=0, name="Negate")
    ...     async with optimize_stream([{"f": 1}, {"f": 2}], negate) as outcomes:
    ...         return sorted([[outcome.name, outcome.module] async for outcome in outcomes])
    >>> anyio.run(main)
    [[0, {'f': -1}], [1, {'f': -2}]]

    """
    return OutcomeStream(modules, pass_, limit, executor, journal, context)


class OutcomeStream(Generic[ModT]):
    """The outcomes of `optimize_stream`: an async context manager and iterator."""

    def __init__(
        self,
        modules: Any,
        pass_: Pass[ModT] | str,
        limit: int | None,
        executor: ExecutorChoice = None,
        journal: JournalChoice = None,
        context: PassContext | None = None,
    ) -> None:
        if limit is not None and not is_count(limit):
            raise ValueError(f"limit must be an int of at least 1 or None, got {limit!r}")
        if isinstance(modules, Pass):
            raise TypeError("the modules come first and then the pass; write optimize_all(modules, pass_)")
        check_type("context", context, PassContext | None)
        self._pass: Pass[ModT] = as_pass("optimize_all(modules, pass_)", pass_)
        self.late_errors: list[Exception] = []
        """The errors that passes raised after the block was left."""
        self._executor: ExecutorChoice = check_executor("optimize_stream", executor)
        self._journal = check_journal(journal)
        self._opened: OpenJournal | None = None
        self._source = ModuleSource(modules)
        self._context = context
        self._limit = limit
        self._outcomes: deque[Outcome[ModT]] = deque()
        """The outcomes that have not been consumed."""
        self._finished = 0
        """How many modules have an outcome."""
        self._news: anyio.Event | None = None
        """Set when there is an outcome or the stream ends, if a consumer waits."""
        self._was_entered = False
        self._leaving = False
        self._is_open = False
        self._fatal: BaseException | None = None

    async def __aenter__(self) -> Self:
        if self._was_entered:
            raise PassContextError(
                "this stream was entered before and its modules are consumed; call optimize_stream again"
            )
        self._was_entered = True
        if self._context is None:
            return await self._open()
        await self._context.__aenter__()
        try:
            return await self._open()
        except BaseException as error:
            await self._context.__aexit__(type(error), error, error.__traceback__)
            raise

    async def _open(self) -> Self:
        # This looks up the current context. If none was entered, all modules share one default context from here on.
        scope = current_scope()
        self._run = module_runner(self._pass, self._executor)
        if self._journal is not None:
            described = describe_run({"": self._pass}, PassContext.current())
            self._opened = await run_sync(OpenJournal, self._journal, described)
        # An executor opens the passes in its workers.
        passes = self._pass.passes_to_open(scope.ctx) if self._pass.has_setup and self._executor is None else ()
        self._setup = PassSetup(passes, scope.ctx)
        try:
            await self._setup.__aenter__()
        except BaseException:
            if self._opened is not None:
                self._opened.close()
            raise
        self._scheduler = scope.state.scheduler
        grace = scope.ctx.exit_grace
        self._workers = ModuleWorkers(self._source, self._limit, self._scheduler, self._optimize, grace)
        self._group = await anyio.create_task_group().__aenter__()
        self._workers.start(self._group, self._wake_consumers)
        self._is_open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            try:
                await self._close()
            finally:
                await self._setup.__aexit__(exc_type, exc, traceback)
        finally:
            if self._context is not None:
                await self._context.__aexit__(exc_type, exc, traceback)

    async def _close(self) -> None:
        self._leaving = self._workers.stopped = True
        self._is_open = False
        self._group.cancel_scope.cancel()
        try:
            # The tasks raise no errors, so the group does not wrap an error of the block in an exception group.
            await self._group.__aexit__(None, None, None)
        finally:
            self._wake_consumers()
            if self._opened is not None:
                self._opened.close()
            if self._fatal is not None:
                raise self._fatal

    def __aiter__(self) -> AsyncIterator[Outcome[ModT]]:
        self._check_open()
        return self

    def _check_open(self) -> None:
        if not self._is_open:
            raise PassContextError(
                "outcomes are available only inside `async with optimize_stream(...) as outcomes:`; iterate there"
            )

    async def __anext__(self) -> Outcome[ModT]:
        """Return the next outcome, in the order in which modules finish.

        Raises:
            Exception: any error that iterating over `modules` raised, after the outcomes of the earlier modules.

        """
        if not self._is_open:
            self._check_open()
        # Not a checkpoint for each outcome, which would cost half as much as a pass that does nothing. Without one,
        # no other task and no timer can have cancelled the consumer either.
        if perf_counter() > self._scheduler.slice_ends:
            await self._scheduler.yield_to_loop()
        if not self._outcomes:
            await self._wait_for_outcomes()
        # The receiver frees the slot, because the next module may start before the outcome is consumed.
        self._workers.release()
        return self._outcomes.popleft()

    async def next_outcomes(self) -> Sequence[Outcome[ModT]]:
        """Return all outcomes that are there, at least one; none at the end of the stream.

        Raises:
            Exception: as `__anext__`.

        """
        try:
            await self._wait_for_outcomes()
        except StopAsyncIteration:
            return ()
        outcomes = [*self._outcomes]
        self._outcomes.clear()
        self._workers.release(len(outcomes))
        return outcomes

    async def _wait_for_outcomes(self) -> None:
        """Return when an outcome is there.

        Raises:
            StopAsyncIteration: at the end of the stream.
            Exception: the error of the source, at the end.

        """
        workers = self._workers
        while not self._outcomes:
            if self._leaving or (workers.ended and workers.taken == self._finished):
                raise workers.source_error or StopAsyncIteration
            if self._news is None:
                self._news = anyio.Event()
            await self._news.wait()

    def _wake_consumers(self) -> None:
        if self._news is not None:
            self._news.set()
            self._news = None

    async def _optimize(self, name: Any, mod: ModT) -> Exception | None:
        """Run the pass on a module, and return its error or None."""
        enter_module(str(name))
        result: ModT | None = None
        failure: Exception | None = None
        resumed = False
        start = perf_counter()
        try:
            if self._opened is None:
                result = await self._run(mod)
            else:
                lasting_name = self._source.lasting_name(name)
                finished: tuple[ModT, bool] = await finish(self._opened, lasting_name, mod, self._run)
                result, resumed = finished
        except Exception as error:
            hide_runner_frames(error)
            failure = error
            if self._leaving:
                self.late_errors.append(error)
        except anyio.get_cancelled_exc_class() as cancellation:
            if anyio.current_effective_deadline() == float("-inf"):
                raise
            # No scope around this task was cancelled, so the cancellation is an error of the pass.
            failure = PassCancelledError("the pass awaited something that was cancelled elsewhere")
            failure.__cause__ = cancellation
        except BaseException as fatal:
            self._fatal = fatal
            self._workers.stopped = True
            self._group.cancel_scope.cancel()
            return None
        self._outcomes.append(Outcome(name, result, failure, perf_counter() - start, resumed))
        self._finished += 1
        if self._news is not None:
            self._wake_consumers()
        return failure
