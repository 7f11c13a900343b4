"""`Evolution`: changes the best points so far."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Final

from apass.search.moves import changed, crossed, random_point
from apass.search.strategies.strategy import StrategySetup
from apass.search.template import Point

__all__ = ["Evolution"]

STARTS: Final = 12
"""Random points before the first change."""
PARENTS: Final = 8
"""The best points that are changed."""
CROSSED: Final = 0.3
"""The share of points that two parents make."""
FRESH: Final = 0.05
"""The share of random points after the start."""


class Evolution:
    """Proposes changes of the best points so far: a (mu + 1) evolution strategy.

    Source: Beyer and Schwefel, "Evolution strategies: a comprehensive introduction" (2002).

    Parameters:
        setup: the space and the seed.
        starts: the points to begin with; by default random ones.

    """

    is_fast: ClassVar[bool] = True

    def __init__(self, setup: StrategySetup, starts: Sequence[Point] | None = None) -> None:
        self._space = setup.space
        self._random = Random(setup.seed)
        self._starts = [random_point(self._space, self._random) for _ in range(STARTS)] if starts is None else [*starts]
        self._parents: list[tuple[float, int, Point]] = []
        """The best values with their points, and a number that falls with time."""
        self._told = 0

    def ask(self) -> Point:
        """Return the next start, a change of a good point, or a random point."""
        random = self._random
        if self._starts:
            return self._starts.pop(0)
        if not self._parents or random.random() < FRESH:
            return random_point(self._space, random)
        point = self._parent()
        if len(self._parents) > 1 and random.random() < CROSSED:
            point = crossed(self._space, point, self._parent(), random)
        # One change at least, and seldom more.
        point = changed(self._space, point, random)
        while random.random() < 0.5:
            point = changed(self._space, point, random)
        return point

    def tell(self, point: Point, values: Sequence[float] | None) -> None:
        """Keep the point if it is one of the best."""
        if point in self._starts:
            self._starts.remove(point)
        if values is None or any(point == known for _, _, known in self._parents):
            return
        self._told += 1
        # Of equal values the newest is the first: the search would stay on a plateau otherwise.
        self._parents.append((values[0], -self._told, point))
        self._parents.sort(key=lambda parent: parent[:2])
        del self._parents[PARENTS:]

    def _parent(self) -> Point:
        """Return one of the best points, a better one more often."""
        first, second = (self._random.randrange(len(self._parents)) for _ in range(2))
        return self._parents[min(first, second)][2]
