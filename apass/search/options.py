"""`SearchOptions`: how a search runs, and its `Budget`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from apass.core.executor import ExecutorChoice, check_executor
from apass.errors import SearchError
from apass.search.strategies.strategy import StrategyMaker
from apass.util.checks import check_type, is_count, is_seconds

__all__ = ["Budget", "SearchOptions"]


@dataclass(frozen=True, slots=True)
class Budget:
    """How long a search lasts: until the first of these limits is reached."""

    evaluations: int | None = 100
    """Candidates that are built, for all modules together, without baselines; None for no limit."""
    seconds: float | None = None
    """Seconds of this process; None for no limit."""

    def __post_init__(self) -> None:
        """Check the limits.

        Raises:
            SearchError: if there is no limit, or one is not positive.

        """
        if self.evaluations is None and self.seconds is None:
            raise SearchError("the budget has no limit; set evaluations or seconds")
        if self.evaluations is not None and not is_count(self.evaluations):
            raise SearchError(f"evaluations must be an int of at least 1 or None, got {self.evaluations!r}")
        if self.seconds is not None and not is_seconds(self.seconds):
            raise SearchError(f"seconds must be a positive number or None, got {self.seconds!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How a search runs, beside its space and objective."""

    strategy: str | StrategyMaker = "evolution"
    """Proposes candidates: a name, such as `tpe` or `nevergrad:OnePlusOne`, or a function of a `StrategySetup`."""
    budget: Budget = field(default_factory=Budget)
    """How long the search lasts."""
    baseline: str = ""
    """The pipeline that results are compared with; empty for the module as it is."""
    constraints: Mapping[str, float] = field(default_factory=dict[str, float])
    """The greatest allowed value of some of the objective's values; the others are minimized."""
    journal: Path | str | None = None
    """The file of the study, from which the same search continues; None for none."""
    executor: ExecutorChoice = None
    """Where candidates are built; None for the choice of the context."""
    workers: int | None = None
    """Candidates at the same time; None for the workers of the executor, or the number of cores."""
    timeout: float | None = None
    """Seconds for building a candidate, and for its objective; None for no limit."""
    verify_outputs: bool = True
    """Whether the outputs of each candidate that is better are compared with those of the module."""
    reproducers: Path | str | None = None
    """The folder of reproducers for candidates that fail; None for none."""
    seed: int = 0
    """The seed of random choices."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            SearchError: if one is out of range.
            TypeError: if one has another type.

        """
        check_type("strategy", self.strategy, str | Callable)
        check_type("budget", self.budget, Budget)
        check_type("baseline", self.baseline, str)
        check_executor("search", self.executor)
        if self.workers is not None and not is_count(self.workers):
            raise SearchError(f"workers must be an int of at least 1 or None, got {self.workers!r}")
        if self.timeout is not None and not is_seconds(self.timeout):
            raise SearchError(f"timeout must be a positive number of seconds or None, got {self.timeout!r}")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise SearchError(f"seed must be an int, got {self.seed!r}")

    def using(self, executor: ExecutorChoice) -> "SearchOptions":
        """Return the options with another executor."""
        return replace(self, executor=executor)
