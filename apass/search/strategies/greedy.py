"""`Greedy`: takes the best neighbour of the current point, round after round."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from apass.search.moves import neighbours
from apass.search.strategies.strategy import StrategySetup
from apass.search.template import Point, first_of

__all__ = ["Greedy"]


class Greedy:
    """Tries all neighbours of the current point, and goes on with the best of them.

    It begins with the shortest sequences and the first alternatives. The neighbours of a point have one more step, or
    another value of one choice. Their order is random. When no neighbour is better, the search ends.
    """

    is_fast: ClassVar[bool] = True

    def __init__(self, setup: StrategySetup) -> None:
        self._space = setup.space
        self._random = Random(setup.seed)
        self._values: dict[Point, float | None] = {}
        """The values of all points of this round, and of the current point."""
        self._current = self._space.draw(first_of)
        self._round = [self._current]
        self._waiting = {self._current}

    def ask(self) -> Point | None:
        """Return a neighbour of the current point; None if results are missing."""
        if not self._round and not self._waiting:
            self._next_round()
        return self._round.pop() if self._round else None

    def tell(self, point: Point, values: Sequence[float] | None) -> None:
        """Take the value of a neighbour."""
        self._waiting.discard(point)
        if point in self._round:
            self._round.remove(point)
        self._values[point] = None if values is None else values[0]

    def _next_round(self) -> None:
        found = {point: value for point, value in self._values.items() if value is not None}
        best = min(found, key=found.__getitem__, default=self._current)
        if best == self._current and len(self._values) > 1:
            return
        self._current = best
        self._values = {point: value for point, value in self._values.items() if point == best}
        self._round = list(dict.fromkeys(neighbours(self._space, best)))
        self._random.shuffle(self._round)
        self._waiting = set(self._round)
