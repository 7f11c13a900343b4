"""`Numbering`: where each run of a pass stands in its pipeline, the same at every run of it; for instruments."""

import re
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Self
from weakref import WeakKeyDictionary

from apass.core.run import Run, current_run

__all__ = ["Numbering", "Position", "in_branch"]

_BRANCH: ContextVar[tuple[Run | None, str] | None] = ContextVar("apass_branch", default=None)
"""The run of a pass that has branches, and which of them this task is in."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where one run of a pass stands: the module, and the way down to it from the outermost pass.

    Positions say the same about a run however many modules are at work and whichever finishes first, because every
    number counts only what the same caller began before.

    >>> print(Position("net", ((0, "sequential", None), (2, "Tune", "main"), (0, "Inner", None))))
    net: 0:sequential/2:Tune@main/0:Inner
    """

    module: str | None
    """The name of the module; None if it has none."""
    steps: tuple[tuple[int, str, str | None], ...]
    """`(number, pass, part)` from the outermost run down: the number, from 0, of the pass among those that the one
    above began in the same part; its name; and the part of it that begins the next: the function whose body does, the
    `otherwise` of an If, or the number, from 1, of the alternative of a Race; None where all are in one part."""

    @classmethod
    def parse(cls, text: str, module: str | None = None) -> Self:
        """Return the position that `text` was written for.

        Raises:
            ValueError: if it is no such text.

        >>> Position.parse("0:sequential/2:Tune@main/0:Inner").steps
        ((0, 'sequential', None), (2, 'Tune', 'main'), (0, 'Inner', None))
        """
        steps: list[tuple[int, str, str | None]] = []
        for part in re.split(r"/(?=\d+:)", text):
            number, colon, name = part.partition(":")
            name, at, function = name.partition("@")
            if not (colon and name and number.isdecimal()):
                raise ValueError(f"{text!r} is no position; one is written as 0:sequential/2:Tune@main/0:Inner")
            steps.append((int(number), name, function if at else None))
        return cls(module, tuple(steps))

    @property
    def text(self) -> str:
        """The way alone, such as `0:sequential/2:Tune@main/0:Inner`."""
        return "/".join(f"{number}:{name}" + (f"@{func}" if func else "") for number, name, func in self.steps)

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers alone: positions of one module sort by it in the order of a pipeline that runs in order."""
        return tuple(number for number, _, _ in self.steps)

    def __str__(self) -> str:
        return self.text if self.module is None else f"{self.module}: {self.text}"


class Numbering:
    """Numbers runs of passes as they begin; one for each instrument that needs positions.

    Memory grows with the names of modules, not with runs. Any thread may ask.
    """

    def __init__(self) -> None:
        self._outermost: Counter[str | None] = Counter()
        self._below: WeakKeyDictionary[Run, Counter[str | None]] = WeakKeyDictionary()
        self._positions: WeakKeyDictionary[Run, Position] = WeakKeyDictionary()
        self._lock = Lock()

    def begin(self, run: Run) -> Position:
        """Give a run that begins its position; call it once for each run, in `run_before_pass`."""
        with self._lock:
            parent = run.parent
            counts = self._outermost if parent is None else self._below.setdefault(parent, Counter())
            # What is outermost is counted by module, what runs below one parent by the branch that it is in.
            key = run.module if parent is None else _branch_of(parent)
            step = (counts[key], run.info.name, None)
            counts[key] += 1
            position = Position(run.module, (*(() if parent is None else self._steps(parent)), step))
            self._positions[run] = position
            return position

    def position(self, run: Run) -> Position | None:
        """Return the position of a run, or of the pass whose function body it is; None if nobody began it."""
        with self._lock:
            return self._positions.get(run.body_of or run)

    def _steps(self, run: Run) -> tuple[tuple[int, str, str | None], ...]:
        """Return the steps down to a run, with the function whose body it is."""
        known = self._positions.get(run.body_of or run)
        if known is not None:
            *above, (number, name, _) = known.steps
        else:  # it was at work before the instrument came into force
            above, number, name = [] if run.parent is None else [*self._steps(run.parent)], 0, run.info.name
        return (*above, (number, name, run.function or _branch_of(run)))


@contextmanager
def in_branch(name: str) -> Generator[None]:
    """Within it, what this task begins is numbered as a part of the pass at work that has positions of its own."""
    before = _BRANCH.get()
    _BRANCH.set((current_run(), name))
    try:
        yield
    finally:
        _BRANCH.set(before)


def _branch_of(run: Run) -> str | None:
    """Return the branch of a run that this task is in; None if it is in none, or in that of another run."""
    found = _BRANCH.get()
    return found[1] if found is not None and found[0] is run else None
