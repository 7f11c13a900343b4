"""`BisectInstrument`: numbers passes and skips those beyond a limit, as in LLVM."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from apass.core.instrument import pass_instrument
from apass.core.pass_info import PassInfo
from apass.core.position import Position, PositionTracker
from apass.core.run import Run, current_run
from apass.pipelines.resume import is_in_order, is_row

__all__ = ["BisectInstrument", "BisectStep", "parse_intervals"]

Intervals = Sequence[tuple[int, int]]
"""Pairs of the first and the last number of an interval."""

_INTERVAL: Final = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectStep:
    """A pass that has been numbered."""

    number: int
    """Its number in its module, starting at 1."""
    position: Position
    """The position of the pass."""
    runs: bool
    """Whether the pass runs."""
    pass_: Any
    """The pass, or None if only its name is known."""

    def __str__(self) -> str:
        """Return the message that LLVM prints for the pass."""
        status = "running" if self.runs else "NOT running"
        where = f" on {self.position.module}" if self.position.module is not None else ""
        return f"BISECT: {status} pass ({self.number}) {self.position.steps[-1][1]}{where}"


@pass_instrument
class BisectInstrument:
    """Runs only the first `limit` passes on each module, or those in `intervals`.

    Each module has its own numbering, starting at 1. Without module names, each outermost pass has its own.

    - Numbered are the passes that run one after another. The Sequential, Repeat, While and If around them have no
      number.
    - Passes within a pass, a function body, a MinimumPoint, or an alternative of a First or Race have no number. They
      run or are skipped together with the enclosing pass.
    - A pass has the same number regardless of how many modules run concurrently.
    - The runner does not ask instruments about passes in the context's `required_pass`. They run, without a number.
    - Passes that a skipped pass requires run before the skipped pass is numbered, with their own numbers.
    - Memory grows with the number of module names, not with the number of runs.

    Parameters:
        limit: the number of passes that run on each module; -1 runs and numbers all.
        intervals: the numbers of the passes that run, instead of a limit: `[(3, 7), (9, 9)]`.
        report: is called with each `BisectStep`, possibly in another thread.

    Raises:
        ValueError: if both or neither of `limit` and `intervals` are given, or they are invalid.

    >>> from apass import PassContext, Sequential, module_pass, run
    >>> double = module_pass(lambda mod, ctx: {"f": 2 * mod["f"]}, opt_level=0, name="Double")
    >>> context = PassContext(instruments=[BisectInstrument(2, report=print)])
    >>> run(Sequential([double, double, double]), {"f": 1}, context=context)
    BISECT: running pass (1) Double
    BISECT: running pass (2) Double
    BISECT: NOT running pass (3) Double
    {'f': 4}

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    not_for_worker: Final = "passes are numbered and reported in this process, one after the other"
    """The reason why whole modules in an executor cannot be observed."""

    def __init__(
        self,
        limit: int | None = None,
        intervals: Iterable[tuple[int, int]] | None = None,
        report: Callable[[BisectStep], object] | None = None,
    ) -> None:
        if (limit is None) == (intervals is None):
            raise ValueError("BisectInstrument needs either a limit or intervals, and not both")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < -1):
            raise ValueError(f"limit must be an int of at least 0, or -1 for all passes, got {limit!r}")
        self.limit: Final = limit
        """The number of passes that run on each module; -1 for all."""
        self.intervals: Final[Intervals | None] = None if intervals is None else _checked(tuple(intervals))
        """The numbers of the passes that run."""
        self._report = report
        self._named: Counter[str] = Counter()
        self._unnamed: WeakKeyDictionary[Run, int] = WeakKeyDictionary()
        self._positions = PositionTracker()
        self._lock = Lock()

    def should_run(self, mod: Any, info: PassInfo) -> bool:
        """Return whether the pass may run, and number it."""
        run = current_run()
        if run is None:
            return True
        position = self._positions.begin(run)
        if not _is_counted(run):
            return True
        number = self._next(run)
        runs = self._lets_run(number)
        if self._report is not None:
            self._report(BisectStep(number=number, position=position, runs=runs, pass_=run.pass_))
        return runs

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Record the position of a pass that was run without a call of `should_run`."""
        run = current_run()
        if run is not None and self._positions.position(run) is None:
            self._positions.begin(run)

    def _next(self, run: Run) -> int:
        with self._lock:
            if run.module is not None:
                self._named[run.module] += 1
                return self._named[run.module]
            outermost = run.lineage[-1]
            self._unnamed[outermost] = self._unnamed.get(outermost, 0) + 1
            return self._unnamed[outermost]

    def _lets_run(self, number: int) -> bool:
        if self.intervals is not None:
            return any(first <= number <= last for first, last in self.intervals)
        return self.limit is None or self.limit < 0 or number <= self.limit


def parse_intervals(text: str) -> Intervals:
    """Return the intervals in a text such as `3-7,9`.

    Raises:
        ValueError: if the text is invalid.

    >>> parse_intervals("3-7,9")
    ((3, 7), (9, 9))

    """
    intervals: list[tuple[int, int]] = []
    for part in text.split(","):
        match = _INTERVAL.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"intervals must be numbers such as 3-7,9, got {text!r}")
        intervals.append((int(match[1]), int(match[2] or match[1])))
    return _checked(tuple(intervals))


def _checked(intervals: Intervals) -> Intervals:
    for first, last in intervals:
        if not 1 <= first <= last:
            raise ValueError(f"an interval must be first-last with 1 <= first <= last, got {first}-{last}")
    return intervals


def _is_counted(run: Run) -> bool:
    """Return whether a run has a number.

    It has one if it is no composite pass and is part of a sequence of passes.
    """
    return not is_row(run) and is_in_order(run)
