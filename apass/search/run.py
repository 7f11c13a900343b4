"""`SearchRun`: the tasks of a search, which evaluate candidates."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectSendStream

from apass.concurrency.limits import usable_cores
from apass.core.adapter import adapter_for, exact_fingerprint, run_in_thread_if_safe
from apass.core.context import PassContext, current_scope
from apass.core.executor import executor_in_force
from apass.errors import SearchError
from apass.pipelines.parser import parse_pipeline
from apass.search.evaluation import Built, Evaluator, Input
from apass.search.objective import Objective, name_of
from apass.search.options import SearchOptions
from apass.search.prefixes import Elements
from apass.search.programs import Program, Programs
from apass.search.space import Space
from apass.search.strategies.strategy import StrategySetup, find_strategy
from apass.search.study import Study
from apass.search.template import Point
from apass.search.trial import Trial

__all__ = ["SearchRun"]

MOST_DUPLICATES: Final = 500
"""Proposals in a row that were known already, after which a strategy has ended."""


class SearchRun:
    """The state of a search, and the tasks that evaluate candidates.

    Parameters:
        modules: the modules by key.
        space: the space.
        objective: rates candidates.
        options: the options.

    Raises:
        SearchError: if no strategy has the name, or the study cannot be used.

    """

    def __init__(self, modules: Mapping[Any, Any], space: Space, objective: Objective, options: SearchOptions) -> None:
        self._modules = modules
        self._space = space
        self._objective = objective
        self._options = options
        choice = options.strategy
        self._maker, self._argument = find_strategy(choice) if isinstance(choice, str) else (choice, "")
        # A small space is known to be exhausted sooner.
        self._most_duplicates = min(MOST_DUPLICATES, 20 * space.size)
        journal = options.journal
        self.study: Final = Study(None if journal is None else Path(journal), self._description())
        """The trials."""
        self.evaluator: Final = Evaluator(
            objective=objective,
            study=self.study,
            constraints=options.constraints,
            executor=options.executor,
            timeout=options.timeout,
            verifies_outputs=options.verify_outputs,
            reproducers=str(options.reproducers or ""),
        )
        """Evaluates candidates."""
        self.programs = Programs([], options.seed)
        """The different modules."""
        self.owners: Final[dict[Any, Program]] = {}
        """The program of each key."""
        self.evaluations = 0
        """Candidates that were built, also by earlier processes."""
        self.resumed = 0
        """Candidates of earlier processes."""
        self.duplicates = 0
        """Proposals that were known already."""
        self.equal = 0
        """Candidates whose module was known already."""
        self.failed = 0
        """Candidates that failed."""
        self.is_interrupted = False
        """Whether `stop` has ended the search."""
        self.error: Exception | None = None
        """The error of a strategy, which ends the search."""
        self._number = self.study.next_number
        self._scope = anyio.CancelScope()
        """Cancels the candidates."""
        self._ended = anyio.Event()
        """Set when no candidate runs any more."""
        self._news = anyio.Event()
        """Set when a strategy has learned something."""

    def _description(self) -> dict[str, str]:
        """Return what the values depend on beside the modules, for the study."""
        ctx = PassContext.current()
        return {
            "format": "1",
            "space": self._space.text,
            "objective": getattr(self._objective, "objective_text", name_of(self._objective)),
            "constraints": str(dict(self._options.constraints)),
            "baseline": self._options.baseline,
            "opt_level": str(ctx.opt_level),
            "disabled passes": str(sorted(ctx.disabled_pass)),
            "config": str({key: ctx.config[key] for key in sorted(ctx.config)}),
        }

    async def prepare(self) -> None:
        """Evaluate the baselines, and take up the trials of an earlier process."""
        programs: dict[str, Program] = {}
        for key, mod in self._modules.items():
            adapter = adapter_for(mod)
            fingerprint = await run_in_thread_if_safe(adapter, mod, partial(exact_fingerprint, adapter, mod))
            if fingerprint not in programs:
                self.study.add_module(fingerprint, str(key))
                given = Input(name=str(key), module=mod, fingerprint=fingerprint)
                programs[fingerprint] = await self._program(given, len(programs))
            self.owners[key] = programs[fingerprint]
        self.programs = Programs([*programs.values()], self._options.seed)
        most = self._options.budget.evaluations
        if most is not None and most < len(programs):
            count = len(programs)
            raise SearchError(
                f"a budget of {most} evaluations is too small for {count} modules; expected {count} or more"
            )

    async def _program(self, given: Input, index: int) -> Program:
        """Return a module with its baseline and its earlier trials."""
        baseline = self.study.find(given.fingerprint, self._options.baseline)
        elements = (self._options.baseline,) if self._options.baseline else ()
        if elements:
            parse_pipeline(self._options.baseline)
        built = await self.evaluator.evaluate_baseline(given, self._number, elements, baseline)
        given.baseline = built.module
        if baseline is None:
            baseline = built.trial
            self.study.add(given.fingerprint, baseline, None, built.fingerprint)
            self._number += 1
        given.names = frozenset(baseline.values)
        names = tuple(name for name in baseline.values if name not in self._options.constraints)
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
        for value, trial in self.study.points(given.fingerprint):
            program.strategy.tell(self._space.from_json(value), program.values_of(trial))
            self._count(program, Built(trial=trial))
            self.resumed += 1
            self.evaluations += 1
        return program

    def _setup(self, given: Input, index: int, objectives: int) -> StrategySetup:
        most = self._options.budget.evaluations
        expected = 100 if most is None else max(1, most // len(self._modules))
        # An interrupted search goes on with other random points, and does not draw the same again.
        seed = (self._options.seed + index + 7919 * self.study.candidates) % 2**31
        return StrategySetup(self._space, seed, objectives, expected, self._argument, given.fingerprint)

    async def work(self, trials: MemoryObjectSendStream[Trial]) -> None:
        """Evaluate candidates until the budget is spent."""
        executor = executor_in_force(self._options.executor or current_scope().ctx.executor)
        count = self._options.workers or getattr(executor, "workers", None) or usable_cores()
        async with trials:
            try:
                with self._scope:
                    if self._options.budget.seconds is not None:
                        self._scope.deadline = anyio.current_time() + self._options.budget.seconds
                    async with anyio.create_task_group() as group:
                        for _ in range(count):
                            group.start_soon(self._work, trials)
            except ExceptionGroup as errors:
                # The others were cancelled, or failed for the same reason.
                self.error = errors.exceptions[0]
            finally:
                self._ended.set()

    async def _work(self, trials: MemoryObjectSendStream[Trial]) -> None:
        """Evaluate one candidate after the other."""
        while not self._is_spent():
            program = self.programs.next()
            if program is None:
                if not any(program.running for program in self.programs.all):
                    return
                await self._news.wait()
                continue
            point = await _call(program, program.strategy.ask)
            if point is None or program.duplicates > self._most_duplicates:
                program.waits, program.ended = bool(program.running), not program.running
                continue
            elements = self._space.elements_of(point)
            if await self._is_known(program, point, ",".join(elements)):
                continue
            if self._is_spent():
                # Another task has begun a candidate while the strategy worked in a thread.
                del program.running[",".join(elements)]
                return
            self.evaluations += 1
            number, self._number = self._number, self._number + 1
            trial = await self._evaluate(program, point, elements, number)
            await trials.send(trial)

    def _is_spent(self) -> bool:
        most = self._options.budget.evaluations
        return most is not None and self.evaluations >= most

    async def _is_known(self, program: Program, point: Point, pipeline: str) -> bool:
        """Return whether a pipeline needs no evaluation; give the strategy its values."""
        if pipeline in program.running:
            program.running[pipeline].append(point)
        else:
            known = self.study.find(program.given.fingerprint, pipeline)
            if known is None:
                program.duplicates = 0
                program.running[pipeline] = [point]
                return False
            await _call(program, partial(program.strategy.tell, point, program.values_of(known)))
        program.duplicates += 1
        self.duplicates += 1
        await checkpoint()
        return True

    async def _evaluate(self, program: Program, point: Point, elements: tuple[str, ...], number: int) -> Trial:
        """Evaluate a candidate; give its trial to the study and the strategy."""
        pipeline = ",".join(elements)
        try:
            built = await self.evaluator.evaluate(program.given, number, elements, program.is_better)
            self.study.add(program.given.fingerprint, built.trial, point, built.fingerprint)
        except BaseException:
            # Nothing is known about a cancelled candidate.
            self.evaluations -= 1
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
        self.equal += built.trial.source == "equal"
        self.failed += not built.trial.is_valid

    async def tried(self, program: Program, elements: Elements) -> Built:
        """Return the trial of a pipeline, which is evaluated unless it is known."""
        study, given = self.study, program.given
        pipeline = ",".join(elements)
        known = study.find(given.fingerprint, pipeline)
        if known is not None:
            return Built(trial=known)
        number, self._number = self._number, self._number + 1
        built = await self.evaluator.evaluate(given, number, elements, lambda _: True)
        # A strategy does not learn of a pipeline that is no point of the space.
        study.add(given.fingerprint, built.trial, self._space.point_of(pipeline), built.fingerprint)
        return built

    def choice(self, program: Program) -> Iterator[Trial]:
        """Iterate over trials that may be the best: the baseline and points of the space."""
        yield program.baseline
        yield from (trial for _, trial in self.study.points(program.given.fingerprint))

    async def stop(self) -> None:
        """Cancel candidates that still run, and return when none runs any more."""
        if not self._ended.is_set():
            self.is_interrupted = True
            self._scope.cancel()
            await self._ended.wait()


async def _call(program: Program, function: Callable[[], Any]) -> Any:
    """Call the strategy of a module: in a thread, if it may take long."""
    if getattr(program.strategy, "is_fast", False):
        return function()
    async with program.lock:
        return await anyio.to_thread.run_sync(function)
