"""`Evaluator`: builds a candidate, checks it and asks the objective."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from time import perf_counter
from typing import Any, Final

from apass.batch.execution import module_runner
from apass.concurrency.single_flight import SingleFlight
from apass.concurrency.work_limits import limited_work
from apass.core.adapter import adapter_for, exact_fingerprint, run_in_thread_if_safe
from apass.core.context import PassContext
from apass.core.executor import ExecutorChoice
from apass.core.ir_plugin import compare_outputs, plugin_for
from apass.core.run import enter_module
from apass.errors import ClusterLostError, ExecutorError, MissingExtraError, SearchError
from apass.instruments.reproducer.instrument import ReproducerInstrument
from apass.search.objective import Attempt, Candidate, Objective, checked_values, name_of
from apass.search.prefixes import Elements, PrefixTree
from apass.search.space import pipeline_of
from apass.search.study import Study
from apass.search.trial import Trial
from apass.util.text import shorten

__all__ = ["Built", "Evaluator", "Input"]

MOST_REPRODUCERS: Final = 20
"""Failures of a search that get a folder."""


@dataclass(slots=True, kw_only=True)
class Input:
    """A module to optimize, with its baseline."""

    name: str
    """The name of the module."""
    module: Any
    """The module."""
    fingerprint: str
    """Its fingerprint."""
    baseline: Any = None
    """The module after the baseline."""
    names: frozenset[str] = frozenset()
    """The names of the baseline's values; empty until they are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A trial with the module that was built for it."""

    trial: Trial
    """The trial."""
    module: Any = None
    """The module; None if there is none."""
    fingerprint: str | None = None
    """The fingerprint of the module."""


@dataclass(slots=True)
class _Found:
    """What is known about a candidate so far."""

    module: Any = None
    fingerprint: str | None = None
    values: Mapping[str, float] = field(default_factory=dict[str, float])
    reason: str = ""
    equal: int | None = None
    """The trial whose values these are; None for those of the objective."""


@dataclass(slots=True, kw_only=True)
class Evaluator:
    """Evaluates candidates: builds, checks, rates."""

    objective: Objective
    """Rates a candidate."""
    study: Study
    """The trials, among which an equal module may be."""
    constraints: Mapping[str, float]
    """The greatest allowed values, by name."""
    executor: ExecutorChoice
    """Runs the passes; None for the event loop."""
    timeout: float | None
    """Seconds for the passes of a candidate, and for its objective; None for no limit."""
    verifies_outputs: bool
    """Whether the outputs of a candidate that may be chosen are compared with those of the module."""
    reproducers: str
    """The folder for failures; empty for none."""
    tree: PrefixTree = field(init=False)
    """What candidates with a common beginning share."""
    _flights: SingleFlight[tuple[str, str], tuple[int, dict[str, float]]] = field(
        default_factory=SingleFlight[tuple[str, str], tuple[int, dict[str, float]]], init=False
    )
    _failures: set[str] = field(default_factory=set[str], init=False)
    """The reasons for which a reproducer was written."""
    _has_built: bool = field(default=False, init=False)
    """Whether the executor has run the passes of a candidate."""

    def __post_init__(self) -> None:
        self.tree = PrefixTree(self._run)

    async def _run(self, mod: Any, elements: Elements) -> Any:
        return await module_runner(pipeline_of(elements), self.executor, self.timeout)(mod)

    async def evaluate(
        self, given: Input, number: int, elements: Elements, is_better: Callable[[Mapping[str, float]], bool]
    ) -> Built:
        """Return the trial of a candidate; a failure is its reason.

        Parameters:
            given: the module.
            number: the number of the trial.
            elements: the texts of the passes.
            is_better: returns whether the values are an improvement, so that the outputs are compared.

        Raises:
            MissingExtraError: if a library is not installed.
            ExecutorError: if the executor cannot run the first candidate.
            ClusterLostError: if the cluster of the executor was lost.

        """
        start = perf_counter()
        enter_module(given.name)
        attempt, found = Attempt(number), _Found()
        reproducer = ""
        try:
            # The order is checked as a whole, although a beginning may run apart.
            pipeline_of(elements)
            found.module = await self.tree.build(given.fingerprint, given.module, elements)
            self._has_built = self._has_built or bool(elements)
            found.fingerprint = await self._checked_fingerprint(found.module)
            await self._rate(given, elements, attempt, found)
            found.reason = found.reason or self._broken_constraint(found.values)
            if not found.reason and self.verifies_outputs and is_better(found.values):
                found.reason = await self._changed_outputs(given, found.module, attempt)
        except (MissingExtraError, ClusterLostError):
            raise  # every other candidate would fail for the same reason
        except SearchError as error:
            found.reason = str(error)
        except Exception as error:
            if isinstance(error, ExecutorError) and not self._has_built:
                raise  # the same
            found.reason = shorten(f"{type(error).__name__}: {error}", 400)
            if found.module is None:
                reproducer = await self._reproduce(given, elements, error)
        trial = Trial(
            number=number,
            module=given.name,
            pipeline=",".join(elements),
            values=found.values,
            reason=found.reason,
            seconds=perf_counter() - start,
            source="measured" if found.equal is None else "equal",
            details=attempt.details if found.equal is None else attempt.details | {"equal": found.equal},
            reproducer=reproducer,
        )
        return Built(trial=trial, module=found.module, fingerprint=found.fingerprint)

    async def _rate(self, given: Input, elements: Elements, attempt: Attempt, found: _Found) -> None:
        """Set the values of a module: of an equal one, or of the objective."""
        assert found.fingerprint is not None
        equal = self.study.find_equal(given.fingerprint, found.fingerprint)
        if equal is not None:
            found.values, found.reason, found.equal = equal.values, equal.reason, equal.number
            return
        candidate = self._candidate(given, found.module, ",".join(elements))
        # Concurrent equal candidates share one call.
        key = given.fingerprint, found.fingerprint
        number, found.values = await self._flights.get(key, partial(self._ask, candidate, attempt))
        found.equal = None if number == attempt.number else number
        if given.names and found.values.keys() != given.names:
            names, expected = sorted(found.values), sorted(given.names)
            found.values = {}
            raise SearchError(
                f"the objective {name_of(self.objective)!r} returned the values {', '.join(names)}; expected those of "
                f"the baseline: {', '.join(expected)}"
            )

    async def evaluate_baseline(self, given: Input, number: int, elements: Elements, known: Trial | None) -> Built:
        """Return the trial of the baseline, whose values may be known.

        Raises:
            SearchError: if the baseline fails.

        """
        if known is None:
            built = await self.evaluate(given, number, elements, lambda _: True)
            if built.trial.is_valid:
                return built
            reason = built.trial.reason
        else:
            try:
                return Built(trial=known, module=(await self.build_whole(given, known.pipeline))[0])
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
        what = f"the baseline {','.join(elements)}" if elements else "the module itself, which is the baseline,"
        raise SearchError(f"{given.name}: {what} has no value to compare with: {reason}")

    async def build_whole(self, given: Input, pipeline: str) -> tuple[Any, str]:
        """Return the module after a pipeline that runs in one piece, and its fingerprint.

        Raises:
            Exception: any error of a pass.

        """
        mod = await self._run(given.module, (pipeline,)) if pipeline else given.module
        return mod, await self._checked_fingerprint(mod)

    async def rate_again(self, given: Input, trial: Trial, mod: Any) -> Mapping[str, float]:
        """Return the values of a candidate, measured once more.

        Raises:
            Exception: any error of the objective.

        """
        return (await self._ask(self._candidate(given, mod, trial.pipeline), Attempt(trial.number)))[1]

    async def _checked_fingerprint(self, mod: Any) -> str:
        """Return the fingerprint of a valid module.

        Raises:
            VerifyError: if the module is invalid.

        """
        adapter = adapter_for(mod)

        def check() -> str:
            adapter.verify(mod)
            return exact_fingerprint(adapter, mod)

        return await run_in_thread_if_safe(adapter, mod, check)

    def _candidate(self, given: Input, mod: Any, pipeline: str) -> Candidate[Any]:
        baseline = mod if given.baseline is None else given.baseline
        return Candidate(name=given.name, module=mod, original=given.module, baseline=baseline, pipeline=pipeline)

    async def _ask(self, candidate: Candidate[Any], attempt: Attempt) -> tuple[int, dict[str, float]]:
        """Return the number of the trial, and the values of the objective."""
        name = name_of(self.objective)
        # The time in the queue of the measurement lane does not count.
        with limited_work(self.timeout or math.inf):
            returned = self.objective(candidate, attempt)
            return attempt.number, checked_values(await returned if isawaitable(returned) else returned, name)
        # A time limit gives no value: not even a bad one.
        raise SearchError(f"the objective {name!r} took longer than {self.timeout:g} s")

    def _broken_constraint(self, values: Mapping[str, float]) -> str:
        for name, most in self.constraints.items():
            if name not in values:
                known = ", ".join(values)
                raise SearchError(f"the constraint {name!r} is not one of the objective's values; it has {known}")
            if values[name] > most:
                return f"{name} is {values[name]:g}, of at most {most:g}"
        return ""

    async def _changed_outputs(self, given: Input, mod: Any, attempt: Attempt) -> str:
        """Return what has changed; empty if nothing has, or it cannot be verified."""
        if mod is given.module:
            return ""
        try:
            comparison = await compare_outputs(plugin_for(mod), given.module, mod)
        except MissingExtraError as error:
            advice = "to search without a comparison of outputs, use verify_outputs=False or --no-verify-outputs"
            raise MissingExtraError(f"{error}; {advice}") from error
        if comparison.changed is None:
            attempt.details["outputs"] = comparison.text
        return comparison.text if comparison.changed else ""

    async def _reproduce(self, given: Input, elements: Elements, error: Exception) -> str:
        """Run a failed candidate again to write a reproducer; return its folder, or ""."""
        kind = f"{type(error).__name__}: {shorten(str(error), 80)}"
        if not self.reproducers or kind in self._failures or len(self._failures) >= MOST_REPRODUCERS:
            return ""
        self._failures.add(kind)
        instrument = ReproducerInstrument(self.reproducers)
        try:
            async with PassContext.current().extend(instruments=[instrument]):
                await module_runner(pipeline_of(elements), self.executor, self.timeout)(given.module)
        except Exception:
            return str(instrument.folders[0]) if instrument.folders else ""
        return ""
