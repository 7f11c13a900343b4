"""`FunctionTimingInstrument`: finds the slowest functions of a pass."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import heappush, heappushpop
from itertools import count
from threading import Lock
from time import perf_counter
from typing import Any

from apass.core.displayed import Displayed
from apass.core.instrument import pass_instrument
from apass.core.run import Run
from apass.display.blocks import Block
from apass.instruments.timing.tables import FunctionTiming, render_functions

__all__ = ["FunctionTimingInstrument"]


@pass_instrument
class FunctionTimingInstrument(Displayed):
    """Times function passes per function, and keeps the slowest functions.

    A function has one entry for each pass that processed it. Any number of tasks may run at once. Memory grows with
    `top` and the number of concurrent functions only.

    Parameters:
        top: the number of functions to keep.

    Raises:
        ValueError: if `top` is not 1 or more.

    >>> import apass
    >>> timing = FunctionTimingInstrument(top=1)
    >>> Count = apass.function_pass(lambda func, mod, ctx: sum(range(func)), opt_level=0, name="Count")
    >>> context = apass.PassContext(instruments=[timing])
    >>> _ = apass.run(Count, {"short": 1, "long": 100_000}, context=context)
    >>> [(item.function, item.path) for item in timing.slowest()]
    [('long', 'Count')]

    """

    def __init__(self, top: int = 20) -> None:
        if isinstance(top, bool) or top < 1:
            raise ValueError(f"top must be an int of at least 1, got {top!r}")
        self._top = top
        self._open: dict[Run, _Body] = {}
        self._slowest: list[tuple[float, int, FunctionTiming]] = []
        self._order: Iterator[int] = count()
        self._lock = Lock()

    def run_before_function(self, func: Any, run: Run) -> None:
        """Start the timer of a function."""
        self._open.setdefault(run, _Body())

    def run_after_function_step(self, run: Run, start: float, end: float) -> None:
        """Add a step of a function."""
        body = self._open.get(run)
        # Steps of one body are disjoint. An overlapping step is a duplicate: two contexts use the same instrument.
        if body is not None and start >= body.until:
            body.busy += end - start
            body.until = end

    def run_after_function(self, func: Any, result: Any, run: Run) -> None:
        """Stop the timer of a function."""
        self._end(run, failed=False)

    def run_after_function_failed(self, func: Any, run: Run, error: BaseException) -> None:
        """Stop the timer of a function that raised or was cancelled."""
        self._end(run, failed=True)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return partial(FunctionTimingInstrument, self._top)

    def worker_records(self) -> tuple[FunctionTiming, ...]:
        """Return the slowest functions, for `merge_records` of the original."""
        return self.slowest()

    def merge_records(self, records: Iterable[FunctionTiming]) -> None:
        """Add the slowest functions of a twin."""
        with self._lock:
            for timing in records:
                if self._is_slow(timing.wall):
                    self._push(timing)

    def slowest(self) -> tuple[FunctionTiming, ...]:
        """Return the functions that took the most time, slowest first."""
        with self._lock:
            return tuple(timing for _, _, timing in sorted(self._slowest, reverse=True))

    def render(self) -> str:
        """Return `slowest()` as a table."""
        return render_functions(self.slowest())

    def __block__(self) -> Block:
        return FunctionTiming.__block_of__(self.slowest())

    def reset(self) -> None:
        """Discard the results."""
        with self._lock:
            self._slowest = []

    def _end(self, run: Run, *, failed: bool) -> None:
        body = self._open.pop(run, None)
        if body is None:
            return
        wall = run.seconds
        with self._lock:
            if not self._is_slow(wall):
                return
            timing = FunctionTiming(
                module=run.module,
                function=run.function or "",
                path="/".join(run.path),
                failed=failed,
                wall=wall,
                busy=body.busy,
            )
            self._push(timing)

    def _is_slow(self, wall: float) -> bool:
        return len(self._slowest) < self._top or wall > self._slowest[0][0]

    def _push(self, timing: FunctionTiming) -> None:
        push = heappush if len(self._slowest) < self._top else heappushpop
        push(self._slowest, (timing.wall, -next(self._order), timing))


class _Body:
    """The timer of a function body that has not ended."""

    __slots__ = ("busy", "until")

    def __init__(self) -> None:
        self.until = perf_counter()
        self.busy = 0.0
