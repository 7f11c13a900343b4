"""`search`: finds the best pipelines of a space for modules."""

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Generic, Self

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectSendStream

from apass.concurrency.limits import usable_cores
from apass.concurrency.measuring import MeasurementLane
from apass.core.adapter import ModT, adapter_for, exact_fingerprint, run_in_thread_if_safe
from apass.core.context import PassContext, current_scope
from apass.core.executor import ExecutorChoice, executor_in_force
from apass.errors import SearchError
from apass.pipelines.parser import parse_pipeline
from apass.search.ablation import Effect, ablate
from apass.search.evaluation import Built, Evaluator, Input
from apass.search.named_spaces import find_space
from apass.search.objective import Objective, name_of
from apass.search.options import Budget, SearchOptions
from apass.search.prefixes import Elements
from apass.search.programs import Program, Programs
from apass.search.result import ModuleResult, SearchResult, mean_ratio
from apass.search.space import Space
from apass.search.strategies.strategy import StrategyMaker, StrategySetup, find_strategy
from apass.search.study import Study
from apass.search.template import Point
from apass.search.trial import Trial, elements_of, front_of
from apass.util.checks import check_type

__all__ = ["Search", "search"]

MOST_DUPLICATES: Final = 500
"""Proposals in a row that were known already, after which a strategy has ended."""
WAITING: Final = 64
"""Trials that may wait for a consumer before the search waits for it."""


def search(
    modules: Mapping[Any, ModT] | Sequence[ModT],
    space: Space | str,
    objective: Objective,
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
        objective: called as `objective(candidate, attempt)` (see `Candidate`, `Attempt`), plain or async. It returns a
            number, or several by name, of which the first decides which trial is the best. Smaller is better.
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
    """A search: an awaitable, and an async context manager and iterator; see `search`."""

    def __init__(
        self,
        modules: Mapping[Any, ModT] | Sequence[ModT],
        space: Space | str,
        objective: Objective,
        options: SearchOptions,
        context: PassContext | None = None,
    ) -> None:
        check_type("context", context, PassContext | None)
        if not callable(objective):
            raise TypeError(f"objective must be a function of a candidate and its attempt, got {objective!r}")
        named = modules.items() if isinstance(modules, Mapping) else enumerate(modules)
        self._modules: dict[Any, ModT] = dict(named)
        if not self._modules:
            raise SearchError("there is no module to optimize; expected at least one")
        self.space: Final = find_space(space) if isinstance(space, str) else space
        """The space."""
        self.options: Final = options
        """The options."""
        self._objective = objective
        self._context = context
        self._maker, self._argument = _strategy_of(options.strategy)
        # A small space is known to be exhausted sooner.
        self._most_duplicates = min(MOST_DUPLICATES, 20 * self.space.size)
        self._exits = AsyncExitStack()
        self._study: Study | None = None
        self._programs = Programs([], options.seed)
        self._owners: dict[Any, Program] = {}
        """The program of each module."""
        self._evaluations = self._resumed = self._duplicates = self._equal = self._failed = self._number = 0
        self._is_interrupted = False
        self._scope = anyio.CancelScope()
        """Cancels the candidates."""
        self._ended = anyio.Event()
        """Set when no candidate runs any more."""
        self._error: BaseException | None = None
        self._news = anyio.Event()

    def __await__(self) -> Generator[Any, Any, SearchResult[ModT]]:
        return self._run().__await__()

    async def _run(self) -> SearchResult[ModT]:
        async with self:
            async for _ in self:
                pass
            return await self.finish()

    async def __aenter__(self) -> Self:
        if self._study is not None:
            raise SearchError("this search was started before; call search again")
        self._start = perf_counter()
        async with AsyncExitStack() as exits:
            if self._context is not None:
                await exits.enter_async_context(self._context)
            current_scope()
            self._study = Study(
                None if self.options.journal is None else Path(self.options.journal), self._description()
            )
            exits.callback(self._study.close)
            self._evaluator = Evaluator(
                objective=self._objective,
                study=self._study,
                constraints=self.options.constraints,
                executor=self.options.executor,
                timeout=self.options.timeout,
                verifies_outputs=self.options.verify_outputs,
                reproducers=str(self.options.reproducers or ""),
            )
            if getattr(self._objective, "measures", False):
                # Candidates are built on the other cores, and by workers that start from now on.
                exits.enter_context(MeasurementLane().reserved())
            await self._prepare()
            sender, self._trials = anyio.create_memory_object_stream[Trial](WAITING)
            exits.enter_context(self._trials)
            self._group = await anyio.create_task_group().__aenter__()
            self._group.start_soon(self._work_all, sender)
            self._exits = exits.pop_all()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
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
        raise self._error or StopAsyncIteration

    @property
    def ratio(self) -> float | None:
        """The geometric mean of the best first values, relative to the baselines."""
        return mean_ratio(self._result("", program).ratio for program in self._programs.all)

    def _description(self) -> dict[str, str]:
        """Return what the values depend on beside the modules, for the study."""
        ctx = PassContext.current()
        return {
            "format": "1",
            "space": self.space.text,
            "objective": getattr(self._objective, "objective_text", name_of(self._objective)),
            "constraints": str(dict(self.options.constraints)),
            "baseline": self.options.baseline,
            "opt_level": str(ctx.opt_level),
            "disabled passes": str(sorted(ctx.disabled_pass)),
            "config": str({key: ctx.config[key] for key in sorted(ctx.config)}),
        }

    async def _prepare(self) -> None:
        """Evaluate the baselines, and take up the trials of an earlier process."""
        assert self._study is not None
        self._number = self._study.next_number
        programs: dict[str, Program] = {}
        for key, mod in self._modules.items():
            adapter = adapter_for(mod)
            fingerprint = await run_in_thread_if_safe(adapter, mod, partial(exact_fingerprint, adapter, mod))
            if fingerprint not in programs:
                self._study.add_module(fingerprint, str(key))
                given = Input(name=str(key), module=mod, fingerprint=fingerprint)
                programs[fingerprint] = await self._program(given, len(programs))
            self._owners[key] = programs[fingerprint]
        self._programs = Programs([*programs.values()], self.options.seed)
        most = self.options.budget.evaluations
        if most is not None and most < len(programs):
            count = len(programs)
            raise SearchError(
                f"a budget of {most} evaluations is too small for {count} modules; expected {count} or more"
            )

    async def _program(self, given: Input, index: int) -> Program:
        """Return a module with its baseline and its earlier trials."""
        assert self._study is not None
        baseline = self._study.find(given.fingerprint, self.options.baseline)
        elements = (self.options.baseline,) if self.options.baseline else ()
        if elements:
            parse_pipeline(self.options.baseline)
        built = await self._evaluator.evaluate_baseline(given, self._number, elements, baseline)
        given.baseline = built.module
        if baseline is None:
            baseline = built.trial
            self._study.add(given.fingerprint, baseline, None, built.fingerprint)
            self._number += 1
        names = tuple(name for name in baseline.values if name not in self.options.constraints)
        if not names:
            raise SearchError("every value of the objective is a constraint; leave one to minimize")
        program = Program(
            given=given,
            strategy=self._maker(self._setup(given, index, len(names))),
            names=names,
            baseline=baseline,
            best=baseline,
            module=built.module,
            front=(baseline,),
        )
        for value, trial in self._study.points(given.fingerprint):
            program.strategy.tell(self.space.from_json(value), program.values_of(trial))
            self._count(program, Built(trial=trial))
            self._resumed += 1
            self._evaluations += 1
        return program

    def _setup(self, given: Input, index: int, objectives: int) -> StrategySetup:
        assert self._study is not None
        most = self.options.budget.evaluations
        expected = 100 if most is None else max(1, most // len(self._modules))
        # An interrupted search goes on with other random points, and does not draw the same again.
        seed = (self.options.seed + index + 7919 * self._study.candidates) % 2**31
        return StrategySetup(self.space, seed, objectives, expected, self._argument, given.fingerprint)

    async def _work_all(self, trials: MemoryObjectSendStream[Trial]) -> None:
        """Evaluate candidates until the budget is spent."""
        executor = executor_in_force(self.options.executor or current_scope().ctx.executor)
        count = self.options.workers or getattr(executor, "workers", None) or usable_cores()
        async with trials:
            try:
                with self._scope:
                    if self.options.budget.seconds is not None:
                        self._scope.deadline = anyio.current_time() + self.options.budget.seconds
                    async with anyio.create_task_group() as group:
                        for _ in range(count):
                            group.start_soon(self._work, trials)
            except ExceptionGroup as errors:
                # The others were cancelled, or failed for the same reason.
                self._error = errors.exceptions[0]
            finally:
                self._ended.set()

    async def _work(self, trials: MemoryObjectSendStream[Trial]) -> None:
        """Evaluate one candidate after the other."""
        while not self._is_spent():
            program = self._programs.next()
            if program is None:
                if not any(program.running for program in self._programs.all):
                    return
                await self._news.wait()
                continue
            point = await _call(program, program.strategy.ask)
            if point is None or program.duplicates > self._most_duplicates:
                program.waits, program.ended = bool(program.running), not program.running
                continue
            elements = self.space.elements_of(point)
            if await self._is_known(program, point, ",".join(elements)):
                continue
            if self._is_spent():
                # Another task has begun a candidate while the strategy worked in a thread.
                del program.running[",".join(elements)]
                return
            self._evaluations += 1
            number, self._number = self._number, self._number + 1
            trial = await self._evaluate(program, point, elements, number)
            await trials.send(trial)

    def _is_spent(self) -> bool:
        most = self.options.budget.evaluations
        return most is not None and self._evaluations >= most

    async def _is_known(self, program: Program, point: Point, pipeline: str) -> bool:
        """Return whether a pipeline needs no evaluation; give the strategy its values."""
        assert self._study is not None
        if pipeline in program.running:
            program.running[pipeline].append(point)
        else:
            known = self._study.find(program.given.fingerprint, pipeline)
            if known is None:
                program.duplicates = 0
                program.running[pipeline] = [point]
                return False
            await _call(program, partial(program.strategy.tell, point, program.values_of(known)))
        program.duplicates += 1
        self._duplicates += 1
        await checkpoint()
        return True

    async def _evaluate(self, program: Program, point: Point, elements: tuple[str, ...], number: int) -> Trial:
        """Evaluate a candidate; give its trial to the study and the strategy."""
        assert self._study is not None
        pipeline = ",".join(elements)
        try:
            built = await self._evaluator.evaluate(program.given, number, elements, program.is_better)
            self._study.add(program.given.fingerprint, built.trial, point, built.fingerprint)
        except BaseException:
            # Nothing is known about a cancelled candidate.
            self._evaluations -= 1
            del program.running[pipeline]
            raise
        self._count(program, built)
        for waiting in program.running.pop(pipeline):
            await _call(program, partial(program.strategy.tell, waiting, program.values_of(built.trial)))
        program.waits = False
        self._news.set()
        self._news = anyio.Event()
        return built.trial

    def _count(self, program: Program, built: Built) -> None:
        program.take(built)
        self._equal += built.trial.source == "equal"
        self._failed += not built.trial.is_valid

    async def finish(self, *, checked: bool = True) -> SearchResult[ModT]:
        """Return the best of each module so far, within the block of the search.

        Candidates that still run are cancelled.

        Parameters:
            checked: whether the best pipelines are built once more, in one piece. A trial whose module is another one
                then becomes invalid, and the next best is taken.

        Raises:
            SearchError: outside of the block.

        """
        study = await self._stopped()
        for program in self._programs.all:
            while checked or program.module is None:
                if await self._is_repeated(program):
                    break
                program.choose(study.trials(program.given.fingerprint))
        results = {key: self._result(str(key), program) for key, program in self._owners.items()}
        return SearchResult(
            modules=results,
            evaluations=self._evaluations,
            resumed=self._resumed,
            duplicates=self._duplicates,
            equal=self._equal,
            failed=self._failed,
            prefixes=self._evaluator.tree.statistics,
            seconds=perf_counter() - self._start,
            finished=not self._is_interrupted and self._error is None,
        )

    async def ablate(self) -> Mapping[Any, Sequence[Effect]]:
        """Leave out useless passes of the best pipelines; return what the others contribute.

        Each pass is left out once, beyond the budget. Candidates that still run are cancelled. Call it before `finish`,
        which then returns the shorter pipelines.

        Raises:
            SearchError: outside of the block of the search.

        """
        study = await self._stopped()
        effects: dict[int, Sequence[Effect]] = {}
        for program in self._programs.all:
            name = program.names[0]

            async def evaluate(elements: Elements, program: Program = program) -> Trial:
                return (await self._tried(program, elements)).trial

            elements = tuple(elements_of(program.best.pipeline))
            shorter, effects[id(program)] = await ablate(elements, program.best.values[name], evaluate, name)
            if shorter != elements:
                built = await self._tried(program, shorter)
                program.best, program.module = built.trial, built.module
                program.front = front_of([built.trial, *study.trials(program.given.fingerprint)], program.names)
        return {key: effects[id(program)] for key, program in self._owners.items()}

    async def _tried(self, program: Program, elements: Elements) -> Built:
        """Return the trial of a pipeline, which is evaluated unless it is known."""
        study, given = self._study, program.given
        assert study is not None
        pipeline = ",".join(elements)
        known = study.find(given.fingerprint, pipeline)
        if known is not None:
            return Built(trial=known)
        number, self._number = self._number, self._number + 1
        built = await self._evaluator.evaluate(given, number, elements, lambda _: True)
        # A strategy does not learn of a pipeline that is no point of the space.
        study.add(given.fingerprint, built.trial, self.space.point_of(pipeline), built.fingerprint)
        return built

    def trials(self) -> Mapping[Any, Iterator[Trial]]:
        """Return the trials of each module in their order, with the baseline.

        Raises:
            SearchError: outside of the block of the search.

        """
        if self._study is None:
            raise _outside()
        return {key: self._study.trials(program.given.fingerprint) for key, program in self._owners.items()}

    async def _stopped(self) -> Study:
        """Cancel candidates that still run, and return the study."""
        if self._study is None or not self._owners:
            raise _outside()
        if not self._ended.is_set():
            self._is_interrupted = True
            self._scope.cancel()
            await self._ended.wait()
        return self._study

    async def _is_repeated(self, program: Program) -> bool:
        """Build the best pipeline in one piece; return whether it makes the same module."""
        assert self._study is not None
        best = program.best
        if best.number == program.baseline.number:
            program.module = program.given.baseline
            return True
        try:
            program.module, result = await self._evaluator.build_whole(program.given, best.pipeline)
            reason = "" if result == self._study.result_of(best.number) else "another module when it was built again"
        except Exception as error:
            reason = f"failed when it was built again: {type(error).__name__}: {error}"
        if reason:
            self._study.reject(best.number, reason)
        return not reason

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


def _outside() -> SearchError:
    return SearchError("a search has results inside `async with search(...) as running:` only; call finish there")


def _strategy_of(choice: str | StrategyMaker) -> tuple[StrategyMaker, str]:
    return find_strategy(choice) if isinstance(choice, str) else (choice, "")


async def _call(program: Program, function: Callable[[], Any]) -> Any:
    """Call the strategy of a module: in a thread, if it may take long."""
    if getattr(program.strategy, "is_fast", False):
        return function()
    async with program.lock:
        return await anyio.to_thread.run_sync(function)
