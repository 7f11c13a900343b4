"""`optimize_all`: runs a pass on many modules in one event loop."""

from collections.abc import (
    AsyncIterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, Literal, cast, overload

from apass.batch.journal import JournalChoice
from apass.batch.stream import DEFAULT_LIMIT, KeyT, Outcome, OutcomeStream
from apass.concurrency.shielding import flatten_errors
from apass.core.adapter import ModT
from apass.core.context import PassContext
from apass.core.executor import ExecutorChoice
from apass.core.tracebacks import hide_runner_frames
from apass.passes.base import Pass

__all__ = ["optimize_all"]


@overload
async def optimize_all(
    modules: Mapping[KeyT, ModT],
    pass_: Pass[ModT] | str,
    *,
    limit: int | None = ...,
    errors: Literal["raise"] = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
    context: PassContext | None = ...,
) -> dict[KeyT, ModT]: ...
@overload
async def optimize_all(
    modules: Mapping[KeyT, ModT],
    pass_: Pass[ModT] | str,
    *,
    limit: int | None = ...,
    errors: Literal["collect"],
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
    context: PassContext | None = ...,
) -> dict[KeyT, Outcome[ModT]]: ...
@overload
async def optimize_all(
    modules: Sequence[ModT] | Iterator[ModT],
    pass_: Pass[ModT] | str,
    *,
    limit: int | None = ...,
    errors: Literal["raise"] = ...,
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
    context: PassContext | None = ...,
) -> list[ModT]: ...
@overload
async def optimize_all(
    modules: Sequence[ModT] | Iterator[ModT],
    pass_: Pass[ModT] | str,
    *,
    limit: int | None = ...,
    errors: Literal["collect"],
    executor: ExecutorChoice = ...,
    journal: JournalChoice = ...,
    context: PassContext | None = ...,
) -> list[Outcome[ModT]]: ...
async def optimize_all(
    modules: Any,
    pass_: Pass[Any] | str,
    *,
    limit: int | None = DEFAULT_LIMIT,
    errors: Literal["raise", "collect"] = "raise",
    executor: ExecutorChoice = None,
    journal: JournalChoice = None,
    context: PassContext | None = None,
) -> Any:
    """Run `pass_` on all modules concurrently, and return the results.

    The results have the same keys as the modules, or the same order.

    Parameters:
        modules: a mapping, or an iterable.
        pass_: the pass, or the text of a pipeline.
        limit: the maximum number of modules in flight; None for no limit.
        errors: `"raise"` cancels the other modules if one fails, and raises its error. `"collect"` runs all modules and
            returns an `Outcome` for each.
        executor: runs whole modules elsewhere, with `pass_` and the options of the context; None runs them in this
            event loop. Instruments must define `for_worker` (see `PortableInstrument`).
        journal: a `Journal` or its path. Results are stored in it, and the same call in another process reuses them.
            Failures are not stored.
        context: the `PassContext` to run in; None for the current one.

    Raises:
        PassContextError: if there is an executor, and an instrument of the context cannot be used in a worker.
        JournalError: if the journal belongs to another run or cannot be used.
        Exception: the error of a pass, or one group of several.

    >>> import anyio
    >>> from apass.passes.decorators import module_pass
    >>> double = module_pass(lambda mod, ctx: {name: 2 * n for name, n in mod.items()}, opt_level=0, name="Double")
    >>> anyio.run(optimize_all, {"a": {"f": 1}, "b": {"f": 2}}, double)
    {'a': {'f': 2}, 'b': {'f': 4}}

    """
    if errors not in ("raise", "collect"):
        raise ValueError(f"errors must be 'raise' or 'collect', got {errors!r}")
    if isinstance(modules, AsyncIterable):
        raise TypeError("optimize_all takes a mapping or an iterable; use optimize_stream for an async iterable")
    finished: dict[Any, Outcome[Any]] = {}
    try:
        async with OutcomeStream(modules, pass_, limit, executor, journal, context) as outcomes:
            failed = False
            while not failed and (batch := await outcomes.next_outcomes()):
                for outcome in batch:
                    finished[outcome.name] = outcome
                    if outcome.error is not None and errors == "raise":
                        failed = True
                        break
        if errors == "raise":
            raised = [outcome.error for outcome in finished.values() if outcome.error is not None]
            if raised:
                raise flatten_errors("several modules failed", [*raised, *outcomes.late_errors])
    except BaseException as error:
        hide_runner_frames(error)
        raise
    keyed = isinstance(modules, Mapping)
    # Modules finish in any order; the results have the order of the input.
    keys = list(cast("Mapping[Any, Any]", modules)) if keyed else range(len(finished))
    results = {key: finished[key] if errors == "collect" else finished[key].module for key in keys}
    return results if keyed else list(results.values())
