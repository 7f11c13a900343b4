"""`SearchResult`: the best pipelines that a search has found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any, Generic

from apass.core.adapter import ModT
from apass.search.prefixes import PrefixStatistics
from apass.search.trial import Trial

__all__ = ["ModuleResult", "SearchResult", "mean_ratio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleResult(Generic[ModT]):
    """What a search has found for one module."""

    name: str
    """The name of the module."""
    objective: str
    """The name of the first value, by which `best` is chosen."""
    baseline: Trial
    """The trial of the baseline."""
    best: Trial
    """The trial with the least first value; the baseline if nothing is better."""
    module: ModT
    """The module after the pipeline of `best`."""
    front: tuple[Trial, ...]
    """The trials that no other one dominates, with several values; else `best` alone."""
    trials: int
    """How many candidates were tried."""

    @property
    def pipeline(self) -> str:
        """The best pipeline as text; empty if the module as it is was the best."""
        return self.best.pipeline

    @property
    def values(self) -> Mapping[str, float]:
        """The values of `best`."""
        return self.best.values

    @property
    def ratio(self) -> float | None:
        """The first value relative to the baseline: 0.9 is 10% less.

        None if one of them is not positive.
        """
        before, after = self.baseline.values[self.objective], self.best.values[self.objective]
        return after / before if before > 0 and after > 0 else None

    def as_json(self) -> dict[str, Any]:
        """Return the result as values of JSON, without the module."""
        return {
            "module": self.name,
            "pipeline": self.pipeline,
            "values": dict(self.values),
            "baseline": self.baseline.as_json(),
            "ratio": self.ratio,
            "trials": self.trials,
            "best": self.best.as_json(),
            "front": [trial.as_json() for trial in self.front],
        }


def mean_ratio(ratios: Iterable[float | None]) -> float | None:
    """Return the geometric mean of the ratios that are known; None if there is none."""
    known = [ratio for ratio in ratios if ratio is not None]
    return exp(sum(map(log, known)) / len(known)) if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult(Generic[ModT]):
    """What a search has found."""

    modules: Mapping[Any, ModuleResult[ModT]]
    """The results of the modules, by key or index, in the order of the input."""
    evaluations: int
    """Candidates that were built, in this process and in earlier ones of the same study."""
    resumed: int
    """Of these, the ones of earlier processes."""
    duplicates: int
    """Proposals that were known already, so that nothing was built."""
    equal: int
    """Candidates whose module was equal to a known one, so that nothing was measured."""
    failed: int
    """Candidates that failed."""
    prefixes: PrefixStatistics
    """How many runs of passes were saved by common beginnings."""
    seconds: float
    """How long the search took in this process."""
    finished: bool = True
    """Whether the budget was spent or the space exhausted; False after an interruption."""

    @property
    def ratio(self) -> float | None:
        """The geometric mean of the ratios of the modules; None if there is none."""
        return mean_ratio(result.ratio for result in self.modules.values())

    def as_json(self) -> dict[str, Any]:
        """Return the result as values of JSON, without the modules."""
        return {
            "ratio": self.ratio,
            "evaluations": self.evaluations,
            "resumed": self.resumed,
            "duplicates": self.duplicates,
            "equal": self.equal,
            "failed": self.failed,
            "passes": {"all": self.prefixes.passes, "run": self.prefixes.runs},
            "seconds": round(self.seconds, 3),
            "finished": self.finished,
            "modules": [result.as_json() for result in self.modules.values()],
        }
