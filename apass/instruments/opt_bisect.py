"""`BisectInstrument`: numbers the passes that run on each module, and leaves out those beyond a limit; LLVM's."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final
from weakref import WeakKeyDictionary

from apass.core.info import PassInfo
from apass.core.instrument import pass_instrument
from apass.core.position import Numbering, Position
from apass.core.run import Run, current_run
from apass.pipelines.resume import is_in_order, is_row

__all__ = ["BisectInstrument", "BisectStep", "parse_intervals"]

Intervals = Sequence[tuple[int, int]]
"""The first and the last number of each."""

_INTERVAL: Final = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectStep:
    """One pass that was numbered."""

    number: int
    """Its number in its module, from 1."""
    position: Position
    """Where it stands."""
    runs: bool
    """Whether it was let run."""
    pass_: Any
    """The pass; None where only its name is known."""

    def __str__(self) -> str:
        """Return LLVM's line about it."""
        what = "running" if self.runs else "NOT running"
        where = f" on {self.position.module}" if self.position.module is not None else ""
        return f"BISECT: {what} pass ({self.number}) {self.position.steps[-1][1]}{where}"


@pass_instrument
class BisectInstrument:
    """Lets run only the first `limit` passes on each module, or those whose numbers are in `intervals`.

    Numbers count from 1 for each module by itself, or for each outermost pass where modules have no name. Those passes
    are counted that run one after another: not the Sequential, Repeat and If around them, and not what runs within a
    pass, in the body of a function or as an alternative of a Race, which stands or falls with it. So a pass has the
    same number however many modules are at work.

    The runner asks no instrument about passes in the context's `required_pass`; they run, and have no number. What a
    pass that is left out requires runs before it is asked about, with numbers of its own.

    Memory grows with the names of modules, not with runs.

    Parameters:
        limit: how many passes run on each module; -1 for all, only to have them numbered.
        intervals: the numbers of those that run, in place of a limit: `[(3, 7), (9, 9)]`.
        report: is called with each `BisectStep`, perhaps in another thread.

    Raises:
        ValueError: if both or neither are given, or they are no such numbers.

    >>> from apass import PassContext, Sequential, module_pass, run
    >>> double = module_pass(lambda mod, ctx: {"f": 2 * mod["f"]}, opt_level=0, name="Double")
    >>> context = PassContext(instruments=[BisectInstrument(2, report=print)])
    >>> run(Sequential([double, double, double]), {"f": 1}, context=context)
    BISECT: running pass (1) Double
    BISECT: running pass (2) Double
    BISECT: NOT running pass (3) Double
    {'f': 4}

    """

    def __init__(
        self,
        limit: int | None = None,
        intervals: Iterable[tuple[int, int]] | None = None,
        report: Callable[[BisectStep], object] | None = None,
    ) -> None:
        if (limit is None) == (intervals is None):
            raise ValueError("BisectInstrument takes either a limit or intervals")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < -1):
            raise ValueError(f"limit must be an int of at least 0, or -1 for all; not {limit!r}")
        self.limit: Final = limit
        """How many passes run on each module; -1 for all."""
        self.intervals: Final[Intervals | None] = None if intervals is None else _checked(tuple(intervals))
        """The numbers of those that run."""
        self._report = report
        self._named: Counter[str] = Counter()
        self._unnamed: WeakKeyDictionary[Run, int] = WeakKeyDictionary()
        self._numbering = Numbering()
        self._lock = Lock()

    def should_run(self, mod: Any, info: PassInfo) -> bool:
        """Number the pass, and say whether it may run."""
        run = current_run()
        if run is None:
            return True
        position = self._numbering.begin(run)
        if not _is_counted(run):
            return True
        number = self._next(run)
        runs = self._lets_run(number)
        if self._report is not None:
            self._report(BisectStep(number=number, position=position, runs=runs, pass_=run.pass_))
        return runs

    def run_before_pass(self, mod: Any, info: PassInfo) -> None:
        """Give a pass that nobody asked about its position."""
        run = current_run()
        if run is not None and self._numbering.position(run) is None:
            self._numbering.begin(run)

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
    """Return the intervals that a text such as `3-7,9` means.

    Raises:
        ValueError: if it is no such text.

    >>> parse_intervals("3-7,9")
    ((3, 7), (9, 9))

    """
    found: list[tuple[int, int]] = []
    for part in text.split(","):
        match = _INTERVAL.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{text!r} are no intervals of numbers; write them as 3-7,9")
        found.append((int(match[1]), int(match[2] or match[1])))
    return _checked(tuple(found))


def _checked(intervals: Intervals) -> Intervals:
    for first, last in intervals:
        if not 1 <= first <= last:
            raise ValueError(f"{first}-{last} is no interval of numbers: they count from 1, the lower one first")
    return intervals


def _is_counted(run: Run) -> bool:
    """Tell whether a run has a number: a pass that does its own work, among passes that run one after another."""
    return not is_row(run) and is_in_order(run)
