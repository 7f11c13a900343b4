"""Many modules in one event loop."""

from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, cast, overload

import anyio
from anyio.to_thread import run_sync

from apass.batch.journal import JournalChoice, OpenJournal, check_journal, describe_run, finish
from apass.batch.source import ModuleSource
from apass.concurrency.shielding import combine
from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.core.executor import ExecutorChoice, check_executor, executor_in_force
from apass.core.instrument import instrument_name
from apass.core.run import enter_module
from apass.errors import PassCancelledError, PassContextError
from apass.passes.base import Pass
from apass.util.checks import is_count

__all__ = ["Modules", "Outcome", "OutcomeStream", "optimize_all", "optimize_stream", "runner"]

KeyT = TypeVar("KeyT", bound=Hashable)

Modules = Mapping[KeyT, ModT] | Iterable[ModT] | AsyncIterable[ModT]
"""Modules by key, or in order; an async iterable may go on for ever."""

DEFAULT_LIMIT = 256
"""How many modules are in flight at once where the caller does not say."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ModT]):
    """What became of one module."""

    name: Any
    """Its key in the mapping, or its place in the order, from 0."""
    module: ModT | None
    """The new module; None if a pass failed."""
    error: Exception | None
    """What the pass raised, with notes that say where; None if none did."""
    seconds: float
    """Wall time from the first pass's start to the last one's end."""
    resumed: bool = False
    """Whether the journal had the result, so that no pass ran."""

    def unwrap(self) -> ModT:
        """Return the module, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.module is not None
        return self.module


@overload
async def optimize_all(
    modules: Mapping[KeyT, ModT],
    pass_: Pass[ModT],
    *,
    limit: int | None = ...,
    errors: Literal["raise"] = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
) -> dict[KeyT, ModT]: ...
@overload
async def optimize_all(
    modules: Mapping[KeyT, ModT],
    pass_: Pass[ModT],
    *,
    limit: int | None = ...,
    errors: Literal["collect"],
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
) -> dict[KeyT, Outcome[ModT]]: ...
@overload
async def optimize_all(
    modules: Sequence[ModT] | Iterator[ModT],
    pass_: Pass[ModT],
    *,
    limit: int | None = ...,
    errors: Literal["raise"] = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
) -> list[ModT]: ...
@overload
async def optimize_all(
    modules: Sequence[ModT] | Iterator[ModT],
    pass_: Pass[ModT],
    *,
    limit: int | None = ...,
    errors: Literal["collect"],
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
) -> list[Outcome[ModT]]: ...
async def optimize_all(
    modules: Any,
    pass_: Pass[Any],
    *,
    limit: int | None = DEFAULT_LIMIT,
    errors: Literal["raise", "collect"] = "raise",
    executor: ExecutorChoice = None,
    journal: JournalChoice = None,
) -> Any:
    """Run `pass_` on every module concurrently; return the results under the same keys, or in the same order.

    Parameters:
        modules: a mapping, or an iterable.
        pass_: what runs on each of them, in the current `PassContext`.
        limit: at most so many modules in flight; None for all at once.
        errors: `"raise"` cancels the others when one fails, and raises its error; `"collect"` lets them all go on and
            returns an `Outcome` for each.
        executor: where each module goes as a whole, with `pass_` and the options of the context, rather than in this
            event loop. Instruments do not go along.
        journal: a `Journal`, or the path of one: what is finished is kept there, and the same call in another process
            goes on from it. Failures are not kept.

    Raises:
        PassContextError: if there is an executor, and the context has instruments.
        JournalError: if the journal is of another run, or cannot be used.
        Exception: what a pass raised, several of them as one group.

    >>> from apass.passes.decorators import module_pass
    >>> double = module_pass(lambda mod, ctx: {name: 2 * n for name, n in mod.items()}, opt_level=0, name="Double")
    >>> anyio.run(optimize_all, {"a": {"f": 1}, "b": {"f": 2}}, double)
    {'a': {'f': 2}, 'b': {'f': 4}}

    """
    if errors not in ("raise", "collect"):
        raise ValueError(f"errors must be 'raise' or 'collect', not {errors!r}")
    if isinstance(modules, AsyncIterable):
        raise TypeError("optimize_all takes modules that are all there; use optimize_stream for an async iterable")
    found: dict[Any, Outcome[Any]] = {}
    async with OutcomeStream(modules, pass_, limit, executor, journal) as outcomes:
        async for outcome in outcomes:
            found[outcome.name] = outcome
            if outcome.error is not None and errors == "raise":
                break
    if errors == "raise":
        raised = [one.error for one in found.values() if one.error is not None]
        if raised:
            raise combine("several modules failed", [*raised, *outcomes.late_errors])
    keyed = isinstance(modules, Mapping)
    keys = list(cast("Mapping[Any, Any]", modules)) if keyed else range(len(found))
    results = {key: found[key] if errors == "collect" else found[key].module for key in keys}
    return results if keyed else list(results.values())


@overload
def optimize_stream(
    modules: Mapping[KeyT, ModT],
    pass_: Pass[ModT],
    *,
    limit: int | None = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
) -> "OutcomeStream[ModT]": ...
@overload
def optimize_stream(
    modules: Iterable[ModT] | AsyncIterable[ModT],
    pass_: Pass[ModT],
    *,
    limit: int | None = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
) -> "OutcomeStream[ModT]": ...
def optimize_stream(
    modules: Any,
    pass_: Pass[Any],
    *,
    limit: int | None = DEFAULT_LIMIT,
    executor: ExecutorChoice = None,
    journal: JournalChoice = None,
) -> "OutcomeStream[Any]":
    """Run `pass_` on modules as they come, and give outcomes as they are done.

    `modules` may be an async iterable without an end: a module is only asked for when fewer than `limit` are in
    flight, counting those whose outcome nobody has taken yet. Leaving the block early cancels what is in flight. With
    an `executor`, modules go there, as with `optimize_all`.

    With a `journal`, a `Journal` or the path of one, each result is kept there before its outcome is given out. The
    same call in another process, however this one ended, finds it there by the module's contents (and its key, if
    `modules` is a mapping) and runs the pass on the others. Failures are not kept; they are tried again.

    Raises:
        JournalError: on entering, if the journal is of another run, or cannot be used.

    >>> from apass.passes.decorators import module_pass
    >>> async def main():
    ...     negate = module_pass(lambda mod, ctx: {"f": -mod["f"]}, opt_level=0, name="Negate")
    ...     async with optimize_stream([{"f": 1}, {"f": 2}], negate) as outcomes:
    ...         return sorted([[one.name, one.module] async for one in outcomes])
    >>> anyio.run(main)
    [[0, {'f': -1}], [1, {'f': -2}]]

    """
    return OutcomeStream(modules, pass_, limit, executor, journal)


class OutcomeStream(Generic[ModT]):
    """The outcomes of `optimize_stream`: an async context manager, and within it an async iterator."""

    def __init__(
        self,
        modules: Any,
        pass_: Pass[ModT],
        limit: int | None,
        executor: ExecutorChoice = None,
        journal: JournalChoice = None,
    ) -> None:
        if limit is not None and not is_count(limit):
            raise ValueError(f"limit must be an int of at least 1, or None for no limit; not {limit!r}")
        if not isinstance(pass_, Pass):
            raise TypeError(
                f"a pass is needed, not {pass_!r}; make it one with module_pass, function_pass or Sequential"
            )
        self.late_errors: list[Exception] = []
        """What passes raised after the block was left."""
        self._executor: ExecutorChoice = check_executor("optimize_stream", executor)
        self._journal = check_journal(journal)
        self._opened: OpenJournal | None = None
        self._source = ModuleSource(modules)
        self._pass = pass_
        self._limit = limit
        self._source_error: Exception | None = None
        self._was_entered = False
        self._leaving = False
        self._is_open = False
        self._fatal: BaseException | None = None

    async def __aenter__(self) -> Self:
        if self._was_entered:
            raise PassContextError(
                "these outcomes have been asked for before, and their modules are gone; call optimize_stream again"
            )
        self._was_entered = True
        # Looks up the current context; where that is a default one, all modules share it from here on.
        self._run = runner(self._pass, self._executor)
        if self._journal is not None:
            described = describe_run({"": self._pass}, PassContext.current())
            self._opened = await run_sync(OpenJournal, self._journal, described)
        self._send, self._outcomes = anyio.create_memory_object_stream[Outcome[ModT]](0)
        self._slots = None if self._limit is None else anyio.Semaphore(self._limit, fast_acquire=True)
        self._at_work = 1
        self._group = await anyio.create_task_group().__aenter__()
        self._group.start_soon(self._feed)
        self._is_open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leaving = True
        self._is_open = False
        self._group.cancel_scope.cancel()
        try:
            # The tasks keep their errors to themselves, so the group has none to wrap the body's in.
            await self._group.__aexit__(None, None, None)
        finally:
            self._outcomes.close()
            self._send.close()
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
                "outcomes come only within `async with optimize_stream(...) as outcomes:`; iterate over them there"
            )

    async def __anext__(self) -> Outcome[ModT]:
        """Return the next outcome, in the order in which modules are done.

        Raises:
            Exception: what the iteration of `modules` raised, once the modules that came before are done.

        """
        self._check_open()
        try:
            outcome = await self._outcomes.receive()
        except anyio.EndOfStream:
            outcome = None
        if outcome is None:
            raise self._source_error or StopAsyncIteration
        # Not by the sender: its task may go on before this one knows of the outcome.
        if self._slots is not None:
            self._slots.release()
        return outcome

    async def _feed(self) -> None:
        try:
            while True:
                await self._take_slot()
                name, mod = await self._source.next()
                self._at_work += 1
                self._group.start_soon(self._optimize, name, mod)
        except StopAsyncIteration:
            pass
        except Exception as error:
            self._source_error = error
        finally:
            await self._source.close(PassContext.current().exit_grace)
        self._end_one()

    async def _take_slot(self) -> None:
        if self._slots is not None:
            await self._slots.acquire()

    async def _optimize(self, name: Any, mod: ModT) -> None:
        enter_module(str(name))
        start = perf_counter()
        result: ModT | None = None
        failure: Exception | None = None
        resumed = False
        try:
            result, resumed = await self._finish(name, mod)
        except Exception as error:
            failure = error
            if self._leaving:
                self.late_errors.append(error)
        except anyio.get_cancelled_exc_class() as stray:
            if anyio.current_effective_deadline() == float("-inf"):
                raise
            failure = PassCancelledError("the pass awaited something that somebody else had cancelled")
            failure.__cause__ = stray
        except BaseException as fatal:
            self._fatal = fatal
            self._group.cancel_scope.cancel()
            return
        await self._send.send(Outcome(name, result, failure, perf_counter() - start, resumed))
        self._end_one()

    async def _finish(self, name: Any, mod: ModT) -> tuple[ModT, bool]:
        """Return the result, and whether the journal had it."""
        if self._opened is None:
            return await self._run(mod), False
        return await finish(self._opened, self._source.lasting_name(name), mod, self._run)

    def _end_one(self) -> None:
        """Count one task as done; after the last, there are no more outcomes."""
        self._at_work -= 1
        if self._at_work == 0:
            self._send.close()


def runner(pass_: Pass[ModT], choice: ExecutorChoice) -> Callable[[ModT], Awaitable[ModT]]:
    """Return what runs a pass on a module in the current context, here or in the executor that is chosen.

    Raises:
        PassContextError: if there is an executor, and the context has instruments.

    """
    executor = executor_in_force(choice)
    ctx = PassContext.current()
    if executor is None:
        return pass_
    if ctx.instruments:
        names = ", ".join(map(instrument_name, ctx.instruments))
        raise PassContextError(
            f"instruments ({names}) do not go to an executor with whole modules, and would see nothing; leave them "
            "out, or let single passes choose it: function_pass(executor=...)"
        )

    async def run_elsewhere(mod: ModT) -> ModT:
        made: ModT = await executor.optimize(pass_, mod, ctx)
        return made

    return run_elsewhere
