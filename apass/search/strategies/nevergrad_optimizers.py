"""The optimizers of nevergrad as strategies: `nevergrad:NAME`."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from apass.errors import MissingExtraError, SearchError, did_you_mean
from apass.search.strategies.strategy import StrategySetup
from apass.search.template import Domain, Point, domains_of

try:
    # It has no types.
    ng: Any = import_module("nevergrad")
except ImportError as error:
    raise MissingExtraError(f"this strategy needs nevergrad: pip install 'apass[search]' ({error})") from error

__all__ = ["NevergradStrategy"]

DEFAULT: Final = "NGOpt"
"""The optimizer if none is named: it chooses one by the space and the number of trials."""


class NevergradStrategy:
    """An optimizer of nevergrad by its name, such as `nevergrad:OnePlusOne`.

    It sees one parameter for each choice that a point may make. Source: Rapin and Teytaud, "Nevergrad: a gradient-free
    optimization platform" (2018).

    Raises:
        SearchError: if nevergrad has no optimizer of the name.

    """

    def __init__(self, setup: StrategySetup) -> None:
        name = setup.argument or DEFAULT
        if name not in ng.optimizers.registry:
            raise SearchError(f"nevergrad has no optimizer {name!r}{did_you_mean(name, ng.optimizers.registry)}")
        self._space = setup.space
        parameters = {name: _parameter(domain) for name, domain in domains_of(setup.space.items)}
        space: Any = ng.p.Dict(**parameters)
        space.random_state.seed(setup.seed)
        self._optimizer: Any = ng.optimizers.registry[name](space, budget=setup.evaluations, num_workers=1)
        self._asked: dict[Point, list[Any]] = {}
        self._worst = 1.0
        self._objectives = setup.objectives

    def ask(self) -> Point:
        """Return the point that the optimizer proposes."""
        candidate = self._optimizer.ask()
        point = self._space.draw(lambda name, domain: _value(candidate.value[name], domain))
        self._asked.setdefault(point, []).append(candidate)
        return point

    def tell(self, point: Point, values: Sequence[float] | None) -> None:
        """Give the optimizer the values of a point.

        A failed one is twice as bad as the worst.
        """
        if values is not None:
            self._worst = max(self._worst, *map(abs, values))
        loss = [2 * self._worst] * self._objectives if values is None else list(values)
        waiting = self._asked.get(point)
        if waiting:
            candidate = waiting.pop()
            if not waiting:
                del self._asked[point]
        else:
            named = {name: value for name, (_, value) in self._space.named(point).items()}
            parent = self._optimizer.parametrization
            candidate = parent.spawn_child(new_value={**parent.value, **named})
        self._optimizer.tell(candidate, loss if self._objectives > 1 else loss[0])


def _parameter(domain: Domain) -> Any:
    if isinstance(domain, tuple):
        return ng.p.Choice(range(len(domain)))
    if domain.low == domain.high:
        return domain.low
    if domain.is_log:
        parameter: Any = ng.p.Log(lower=domain.low, upper=domain.high)
    else:
        parameter = ng.p.Scalar(lower=domain.low, upper=domain.high)
    return parameter.set_integer_casting() if domain.is_int else parameter


def _value(value: Any, domain: Domain) -> float:
    return float(value) if not isinstance(domain, tuple) and not domain.is_int else int(value)
