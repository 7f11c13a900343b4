"""`Strategy`: proposes the points that a search tries, and `find_strategy`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from apass.errors import SearchError, did_you_mean
from apass.loading.entry_points import plugins
from apass.search.space import Space
from apass.search.template import Point

__all__ = ["Strategy", "StrategyMaker", "StrategySetup", "find_strategy", "strategy_names"]


class Strategy(Protocol):
    """Proposes points for one module; the search calls `ask` and `tell` in turns.

    Several points may be asked for before the first result. The methods are called in a thread, unless the
    class has an attribute `is_fast` that is true.
    """

    def ask(self) -> Point | None:
        """Return the next point to try.

        None if the strategy waits for results. If none is awaited either, the search of the module ends.
        """
        ...

    def tell(self, point: Point, values: Sequence[float] | None) -> None:
        """Take the values of a point, smaller is better; None for a candidate that failed.

        The points of an interrupted search come first, although this object was not asked for them.
        """
        ...


@dataclass(frozen=True, slots=True)
class StrategySetup:
    """What a strategy is created for."""

    space: Space
    """The space."""
    seed: int = 0
    """The seed of random choices. With it, the same results lead to the same points."""
    objectives: int = 1
    """The number of values of a trial. The strategies of apass minimize the first one."""
    evaluations: int = 100
    """The number of trials that are expected."""
    argument: str = ""
    """What follows the colon of the name, such as `OnePlusOne` in `nevergrad:OnePlusOne`."""
    module: str = ""
    """The fingerprint of the module."""


StrategyMaker = Callable[[StrategySetup], Strategy]
"""Returns a strategy; a package offers it by an entry point of the group `apass.strategies`."""

_GROUP = "apass.strategies"


def strategy_names() -> list[str]:
    """Return the names of all strategies; nothing is imported."""
    return sorted(plugins(_GROUP))


def find_strategy(text: str) -> tuple[StrategyMaker, str]:
    """Return the strategy of a name, and its argument: `nevergrad:OnePlusOne`.

    Raises:
        SearchError: if no strategy has the name.
        MissingExtraError: if its library is not installed.

    """
    name, _, argument = text.partition(":")
    offers = plugins(_GROUP)
    if name not in offers:
        raise SearchError(f"no strategy is named {name!r}{did_you_mean(name, offers, listing='expected one of ')}")
    maker: Any = offers[name].load()
    return cast("StrategyMaker", maker), argument
