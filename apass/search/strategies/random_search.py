"""`RandomSearch`: uniform random points."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from apass.search.moves import random_point
from apass.search.strategies.strategy import StrategySetup
from apass.search.template import Point

__all__ = ["RandomSearch"]


class RandomSearch:
    """Proposes uniform random points."""

    is_fast: ClassVar[bool] = True

    def __init__(self, setup: StrategySetup) -> None:
        self._space = setup.space
        self._random = Random(setup.seed)

    def ask(self) -> Point:
        """Return a random point."""
        return random_point(self._space, self._random)

    def tell(self, point: Point, values: Sequence[float] | None) -> None:
        """Do nothing: the points do not depend on results."""
