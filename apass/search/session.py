"""`search`: finds the best pipelines of a space for modules."""

from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Generic, Self

import anyio

from apass.concurrency.measuring import MeasurementLane
from apass.core.adapter import ModT
from apass.core.context import PassContext, current_scope
from apass.core.executor import ExecutorChoice
from apass.core.ir_plugin import ir_of_type
from apass.errors import SearchError
from apass.search.ablation import Effect, ablate
from apass.search.named_objectives import find_objective
from apass.search.named_spaces import check_ir, find_space
from apass.search.objective import Objective
from apass.search.options import Budget, SearchOptions
from apass.search.prefixes import Elements
from apass.search.programs import Program
from apass.search.result import ModuleResult, SearchResult, mean_ratio
from apass.search.run import SearchRun
from apass.search.space import Space
from apass.search.strategies.strategy import StrategyMaker
from apass.search.trial import Trial, elements_of, front_of
from apass.util.checks import check_type

__all__ = ["Search", "search"]

WAITING: Final = 64
"""Trials that may wait for a consumer before the search waits for it."""


def search(
    modules: Mapping[Any, ModT] | Sequence[ModT],
    space: Space | str,
    objective: Objective | str,
    *,
    strategy: str | StrategyMaker = "evolution",
    budget: Budget | int = 100,
    baseline: str = "",
    constraints: Mapping[str, float] | None = None,
    journal: Path | str | None = None,
    executor: ExecutorChoice = None,
    workers: int | None = None,
    timeout: float | None = None,
    verify_outputs: bool = True,
    reproducers: Path | str | None = None,
    seed: int = 0,
    context: PassContext | None = None,
) -> "Search[ModT]":
    """Search the best pipeline of a space for each module.

    `await` it for the result. Candidates are built concurrently, and rated by the objective. A candidate that fails, is
    invalid, changes outputs or takes too long is a failed trial, and the search goes on. Equal modules are rated once.

    With `async with search(...) as trials`, iterate over the trials as they end, and call `await trials.finish()` for
    the result. Leaving the block early cancels the rest.

    Parameters:
        modules: a mapping, or a sequence.
        space: the space, its name, or its text with holes.
        objective: called as `objective(candidate, attempt)` (see `Candidate`, `Attempt`), plain or async; or the name
            of one. It returns a number, or several by name, of which the first decides which trial is the best.
            Smaller is better. If it measures times and has a true attribute `measures`, candidates are built on other
            cores, and the best is measured twice.
        strategy: proposes candidates: `random`, `greedy`, `evolution`, `coreset`, `tpe`, `gp`, `cmaes`, `nsga2`,
            `nevergrad:NAME`, another entry point, or a function of a `StrategySetup`.
        budget: a `Budget`, or the number of candidates for all modules together. It goes where it gains most.
        baseline: the pipeline that results are compared with; empty for the module as it is.
        constraints: the greatest allowed value of some of the objective's values; the others are minimized.
        journal: the file of the study, from which the same search continues after any end of the process.
        executor: where candidates are built; None for the choice of the context.
        workers: candidates at the same time; None for the workers of the executor, or the number of cores.
        timeout: seconds for building a candidate, and as many for its objective; None for no limit.
        verify_outputs: whether the outputs of each candidate that is better are compared with those of the module.
        reproducers: the folder of reproducers for candidates that fail; None for none.
        seed: the seed of random choices. With one worker, the same seed gives the same trials.
        context: the `PassContext` to run in; None for the current one.

    Raises:
        SearchError: if the space, the budget or the strategy is invalid, the study belongs to another search, or the
            baseline of a module fails.

    >>> from apass.passes.decorators import module_pass
    >>> from apass.passes.registry import register_pass, unregister_pass
    >>> def add(n: int):
    ...     return module_pass(lambda mod, ctx: {"f": mod["f"] + n}, opt_level=0, name="Add")
    >>> _ = register_pass("doc.Add", add)
    >>> async def main():
    ...     space = "?{0..3}(doc.Add{n=-2}|doc.Add{n=1})"
    ...     return await search([{"f": 7}], space, lambda candidate, _: abs(candidate.module["f"]))
    >>> result = anyio.run(main)
    >>> result.modules[0].pipeline, result.modules[0].values
    ('doc.Add{n=-2},doc.Add{n=-2},doc.Add{n=-2}', {'value': 1.0})
    >>> unregister_pass("doc.Add")

    """
    options = SearchOptions(
        strategy=strategy,
        budget=Budget(budget) if isinstance(budget, int) else budget,
        baseline=baseline,
        constraints=constraints or {},
        journal=journal,
        executor=executor,
        workers=workers,
        timeout=timeout,
        verify_outputs=verify_outputs,
        reproducers=reproducers,
        seed=seed,
    )
    return Search(modules, space, objective, options, context)


class Search(Generic[ModT]):
    """A search: an awaitable, an async context manager and iterator."""

    def __init__(
        self,
        modules: Mapping[Any, ModT] | Sequence[ModT],
        space: Space | str,
        objective: Objective | str,
        options: SearchOptions,
        context: PassContext | None = None,
    ) -> None:
        check_type("context", context, PassContext | None)
        if not isinstance(objective, str) and not callable(objective):
            raise TypeError(
                f"objective must be a name, or a function of a candidate and its attempt, got {objective!r}"
            )
        named = modules.items() if isinstance(modules, Mapping) else enumerate(modules)
        self._modules: dict[Any, ModT] = dict(named)
        if not self._modules:
            raise SearchError("there is no module to optimize; expected at least one")
        self.space: Final = find_space(space) if isinstance(space, str) else space
        """The space."""
        self.options: Final = options
        """The options."""
        irs = {ir for mod in self._modules.values() if (ir := ir_of_type(type(mod))) is not None}
        check_ir(self.space, irs)
        self._objective = find_objective([objective], sorted(irs)) if isinstance(objective, str) else objective
        self._context = context
        self._exits = AsyncExitStack()
        self._run: SearchRun | None = None
        """The run within the block; it stays afterwards, but its study is closed."""
        self._is_open = False

    def __await__(self) -> Generator[Any, Any, SearchResult[ModT]]:
        return self._await().__await__()

    async def _await(self) -> SearchResult[ModT]:
        async with self:
            async for _ in self:
                pass
            return await self.finish()

    async def __aenter__(self) -> Self:
        if self._run is not None:
            raise SearchError("this search was started before; call search again")
        self._start = perf_counter()
        async with AsyncExitStack() as exits:
            if self._context is not None:
                await exits.enter_async_context(self._context)
            # All candidates share one default context, if none was entered.
            current_scope()
            run = self._run = SearchRun(self._modules, self.space, self._objective, self.options)
            exits.callback(run.study.close)
            if getattr(self._objective, "measures", False):
                # Candidates are built on the other cores, and by workers that start from now on.
                exits.enter_context(MeasurementLane().reserved())
            await run.prepare()
            sender, self._trials = anyio.create_memory_object_stream[Trial](WAITING)
            exits.enter_context(self._trials)
            self._group = await anyio.create_task_group().__aenter__()
            self._group.start_soon(run.work, sender)
            self._exits = exits.pop_all()
        self._is_open = True
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        try:
            self._group.cancel_scope.cancel()
            # The tasks raise no errors, so the group does not wrap an error of the block in an exception group.
            await self._group.__aexit__(None, None, None)
        finally:
            await self._exits.__aexit__(exc_type, exc, traceback)

    def __aiter__(self) -> AsyncIterator[Trial]:
        return self

    async def __anext__(self) -> Trial:
        """Return the next trial, in the order in which they end.

        Raises:
            Exception: any error of the strategy.

        """
        async for trial in self._trials:
            return trial
        raise self._opened().error or StopAsyncIteration

    @property
    def ratio(self) -> float | None:
        """The geometric mean of the best first values, relative to the baselines."""
        return mean_ratio(self._result("", program).ratio for program in self._opened().programs.all)

    async def finish(self, *, checked: bool = True) -> SearchResult[ModT]:
        """Return the best of each module so far, within the block of the search.

        Candidates that still run are cancelled.

        Parameters:
            checked: whether the best pipelines are built once more, in one piece. A trial whose module is another one
                then becomes invalid, and the next best is taken.

        Raises:
            SearchError: outside of the block.

        """
        run = self._opened()
        await run.stop()
        for program in run.programs.all:
            while checked or program.module is None:
                if await _is_repeated(run, program):
                    break
                program.choose(run.choice(program))
        return SearchResult(
            modules={key: self._result(str(key), program) for key, program in run.owners.items()},
            evaluations=run.evaluations,
            resumed=run.resumed,
            duplicates=run.duplicates,
            equal=run.equal,
            failed=run.failed,
            prefixes=run.evaluator.tree.statistics,
            seconds=perf_counter() - self._start,
            finished=not run.is_interrupted and run.error is None,
        )

    async def ablate(self) -> Mapping[Any, Sequence[Effect]]:
        """Drop useless passes of the best pipelines; return what the others contribute.

        Each pass is left out once, beyond the budget. What the space requires is not dropped. Candidates that still run
        are cancelled. Call it before `finish`, which then returns the shorter pipelines.

        Raises:
            SearchError: outside of the block of the search.

        """
        run = self._opened()
        await run.stop()
        effects: dict[int, Sequence[Effect]] = {}
        for program in run.programs.all:
            name = program.names[0]

            async def evaluate(elements: Elements, program: Program = program, name: str = name) -> float | None:
                trial = (await run.tried(program, elements)).trial
                return trial.values[name] if trial.is_valid else None

            def contains(elements: Elements) -> bool:
                return self.space.point_of(",".join(elements)) is not None

            elements = tuple(elements_of(program.best.pipeline))
            shorter, effects[id(program)] = await ablate(elements, program.best.values[name], evaluate, contains)
            if shorter != elements:
                built = await run.tried(program, shorter)
                program.best, program.module = built.trial, built.module
                program.front = front_of([built.trial, *run.choice(program)], program.names)
        return {key: effects[id(program)] for key, program in run.owners.items()}

    def trials(self) -> Mapping[Any, Iterator[Trial]]:
        """Return the trials of each module in their order, with the baseline.

        Raises:
            SearchError: outside of the block of the search.

        """
        run = self._opened()
        return {key: run.study.trials(program.given.fingerprint) for key, program in run.owners.items()}

    def _opened(self) -> SearchRun:
        if self._run is None or not self._is_open:
            message = "a search has results inside `async with search(...) as running:` only"
            raise SearchError(f"{message}; call finish there")
        return self._run

    def _result(self, name: str, program: Program) -> ModuleResult[ModT]:
        first, *others = program.names
        return ModuleResult(
            name=name,
            objective=first,
            baseline=program.baseline,
            best=program.best,
            module=program.module,
            front=program.front if others else (program.best,),
            trials=program.trials,
        )


async def _is_repeated(run: SearchRun, program: Program) -> bool:
    """Build the best pipeline again, in one piece; return whether it holds."""
    best = program.best
    if best.number == program.baseline.number:
        program.module = program.given.baseline
        return True
    try:
        program.module, result = await run.evaluator.build_whole(program.given, best.pipeline)
        reason = "" if result == run.study.result_of(best.number) else "another module when it was built again"
        # The least of many noisy values may be so by chance.
        if not reason and getattr(run.evaluator.objective, "measures", False):
            name = program.names[0]
            again = (await run.evaluator.rate_again(program.given, best, program.module))[name]
            if again >= program.baseline.values[name]:
                reason = f"not better when it was measured again: {name} {again:.4g}"
    except Exception as error:
        reason = f"failed when it was built again: {type(error).__name__}: {error}"
    if reason:
        run.study.reject(best.number, reason)
    return not reason
