"""`Programs`: the modules of a search, and which of them gets the next candidate."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from random import Random
from typing import Any, Final

import anyio

from apass.search.evaluation import Built, Input
from apass.search.strategies.strategy import Strategy
from apass.search.template import Point
from apass.search.trial import Trial, front_of

__all__ = ["Program", "Programs"]

WINDOW: Final = 16
"""The candidates whose improvement decides about the next one."""
FAIR: Final = 0.5
"""The share of candidates that go to the module with the fewest."""


@dataclass(slots=True, kw_only=True)
class Program:
    """A module of a search, with what was found for it so far."""

    given: Input
    """The module."""
    strategy: Strategy
    """Proposes its points."""
    names: tuple[str, ...]
    """The names of the values that are minimized, the most important first."""
    baseline: Trial
    """The trial of the baseline."""
    best: Trial
    """The best trial."""
    module: Any
    """The module of the best trial; None if it was built by an earlier process."""
    front: tuple[Trial, ...]
    """The trials that no other one dominates."""
    trials: int = 0
    """The candidates so far."""
    running: dict[str, list[Point]] = field(default_factory=dict[str, list[Point]])
    """The points of each pipeline that is evaluated."""
    waits: bool = False
    """Whether the strategy waits for results."""
    ended: bool = False
    """Whether the strategy has no further points."""
    duplicates: int = 0
    """Proposals in a row that were known already."""
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while the strategy is called in a thread."""
    gains: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    """How much each of the last candidates has improved."""

    def is_better(self, values: Mapping[str, float]) -> bool:
        """Return whether values would improve the result, or be in the front."""
        if len(self.names) == 1:
            return values[self.names[0]] < self.best.values[self.names[0]]
        return all(any(values[name] < known.values[name] for name in self.names) for known in self.front)

    def values_of(self, trial: Trial) -> list[float] | None:
        """Return the values for the strategy; None if the trial is invalid."""
        return [trial.values[name] for name in self.names] if trial.is_valid else None

    def take(self, built: Built) -> bool:
        """Note a candidate; return whether it is better."""
        self.trials += 1
        trial = built.trial
        if not trial.is_valid or not self.is_better(trial.values):
            self.gains.append(0.0)
            if trial.is_valid and self._is_shorter(trial):
                self.best, self.module = trial, built.module
            return False
        name = self.names[0]
        before, after = self.best.values[name], trial.values[name]
        self.gains.append(log(before / after) if before > after > 0 else 1e-9)
        self.front = front_of([*self.front, trial], self.names)
        if after < before:
            self.best, self.module = trial, built.module
        return True

    def _is_shorter(self, trial: Trial) -> bool:
        """Return whether a trial has the best values, with a shorter pipeline."""
        best = self.best
        return (
            best.number != self.baseline.number
            and trial.values == best.values
            and len(trial.pipeline) < len(best.pipeline)
        )

    def choose(self, trials: Iterable[Trial]) -> None:
        """Choose the best again, among all trials of the module."""
        self.front = front_of(trials, self.names)
        self.best, self.module = self.front[0], None


class Programs:
    """Chooses the module that gets the next candidate.

    Half of the candidates go to the module with the fewest. The others go where the last `WINDOW` candidates have
    improved most, relative to the best value: a budget is spent where it gains most, and no module starves.
    """

    def __init__(self, programs: Sequence[Program], seed: int) -> None:
        self.all: Final = tuple(programs)
        """The modules."""
        self._random = Random(seed)

    def next(self) -> Program | None:
        """Return the module for the next candidate; None if no strategy has a point now."""
        open_programs = [program for program in self.all if not (program.ended or program.waits)]
        if not open_programs:
            return None
        fewest = min(open_programs, key=lambda program: program.trials + len(program.running))
        full = all(program.trials >= WINDOW for program in open_programs)
        if len(open_programs) == 1 or not full or self._random.random() < FAIR:
            return fewest
        return max(open_programs, key=lambda program: sum(program.gains))
