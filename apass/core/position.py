"""`PositionTracker`: reproducible positions of pass runs, for instruments."""

import re
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final, Self
from weakref import WeakKeyDictionary

from apass.concurrency.run_locals import RunLocal
from apass.core.run import Run, current_run

__all__ = ["Position", "PositionTracker", "in_branch"]

_BRANCH: Final[RunLocal[tuple[Run | None, str] | None]] = RunLocal("branch", None)
"""The run of a pass with branches, and the branch that this task executes."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a run: the module, and the path from the outermost pass.

    A position does not depend on scheduling or on other modules: each number counts only the runs that the same caller
    started before.

    >>> print(Position("net", ((0, "sequential", None), (2, "Tune", "main"), (0, "Inner", None))))
    net: 0:sequential/2:Tune@main/0:Inner
    """

    module: str | None
    """The name of the module; None if it has none."""
    steps: tuple[tuple[int, str, str | None], ...]
    """`(number, pass, part)` for each run from the outermost down.

    - number: the index of the run, from 0, among those that its caller started in the same part;
    - pass: the name of the pass;
    - part: the part of the pass that started the next run, or None if it has only one. A part is a function whose body
      runs, the `otherwise` of an If, or the number, from 1, of an alternative of a Race.
    """

    @classmethod
    def parse(cls, text: str, module: str | None = None) -> Self:
        """Return the position whose `text` is given.

        Raises:
            ValueError: if `text` is not a valid position.

        >>> Position.parse("0:sequential/2:Tune@main/0:Inner").steps
        ((0, 'sequential', None), (2, 'Tune', 'main'), (0, 'Inner', None))
        """
        steps: list[tuple[int, str, str | None]] = []
        # The name of a pass may contain a slash. A number and a colon begin the next part.
        for part in re.split(r"/(?=\d+:)", text):
            number, colon, name = part.partition(":")
            name, separator, function = name.partition("@")
            if not (colon and name and number.isdecimal()):
                raise ValueError(f"invalid position {text!r}; expected a form like 0:sequential/2:Tune@main/0:Inner")
            steps.append((int(number), name, function if separator else None))
        return cls(module, tuple(steps))

    @property
    def text(self) -> str:
        """The path without the module, such as `0:sequential/2:Tune@main/0:Inner`."""
        return "/".join(f"{number}:{name}" + (f"@{func}" if func else "") for number, name, func in self.steps)

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the path; a sort key that gives the order of a sequential run."""
        return tuple(number for number, _, _ in self.steps)

    def __str__(self) -> str:
        return self.text if self.module is None else f"{self.module}: {self.text}"


class PositionTracker:
    """Assigns positions to runs as they start; one tracker for each instrument.

    Memory grows with the number of module names, not of runs. The methods are thread-safe.

    Parameters:
        first: the numbers of the first outermost runs by module name; 0 by default.

    """

    def __init__(self, first: Mapping[str | None, int] | None = None) -> None:
        self._outermost: Counter[str | None] = Counter(first)
        # Weak keys: a run belongs to its task, and the tracker may serve a program for days.
        self._below: WeakKeyDictionary[Run, Counter[str | None]] = WeakKeyDictionary()
        self._positions: WeakKeyDictionary[Run, Position] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self, run: Run) -> Position:
        """Assign a position to a new run; call it once a run, in `run_before_pass`."""
        with self._lock:
            parent = run.parent
            counts = self._outermost if parent is None else self._below.setdefault(parent, Counter())
            # Outermost runs are counted by module, inner runs by parent and branch.
            key = run.module if parent is None else _branch_of(parent)
            step = (counts[key], run.info.name, None)
            counts[key] += 1
            position = Position(run.module, (*(() if parent is None else self._steps(parent)), step))
            self._positions[run] = position
            return position

    def reserve(self, run: Run) -> Mapping[str | None, int]:
        """Assign a position to an outermost run that a tracker in a worker will begin.

        Return the `first` of that tracker.
        """
        return {run.module: self.begin(run).order[0]}

    def restart(self, run: Run) -> None:
        """Reset the numbers of the runs within a pass, which runs again."""
        with self._lock:
            self._below.pop(run, None)

    def position(self, run: Run) -> Position | None:
        """Return the position of a run, or of the pass whose body it is, or None."""
        with self._lock:
            return self._positions.get(run.body_of or run)

    def _steps(self, run: Run) -> tuple[tuple[int, str, str | None], ...]:
        """Return the path to a run, including the function whose body it is."""
        position = self._positions.get(run.body_of or run)
        if position is not None:
            *outer, (number, name, _) = position.steps
        else:  # the run started before the instrument was installed
            outer, number, name = [] if run.parent is None else [*self._steps(run.parent)], 0, run.info.name
        return (*outer, (number, name, run.function or _branch_of(run)))


@contextmanager
def in_branch(name: str) -> Generator[None]:
    """Count the runs that this task starts in the block separately, as a branch.

    The branch is a part of the current pass; see `Position.steps`.
    """
    with _BRANCH.set_to((current_run(), name)):
        yield


def _branch_of(run: Run) -> str | None:
    """Return the branch of `run` that this task executes, or None."""
    branch = _BRANCH.get()
    # An inner pass inherits the contextvar, and its own runs are in no branch of the outer one.
    return branch[1] if branch is not None and branch[0] is run else None
