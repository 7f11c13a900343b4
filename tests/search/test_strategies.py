"""Strategies: what they propose, and what they learn."""

from importlib.util import find_spec
from random import Random

import pytest

from apass.errors import MissingExtraError, SearchError
from apass.search import Space, StrategySetup
from apass.search.strategies.strategy import find_strategy, strategy_names
from apass.search.template import Point

SPACE = "?{1..5}(s.Add{n=?1..9}|s.Scale{by=?0.5..2.0,mode=?}|s.Add)"
NAMES = ("random", "greedy", "evolution", "tpe", "nsga2", "cmaes", "nevergrad", "nevergrad:OnePlusOne")


def value_of(space: Space, point: Point) -> float:
    """Return a value that is least for three additions of nine."""
    text = space.text_of(point)
    return 100.0 + text.count("s.Scale") - 3 * min(3, text.count("n=9")) - text.count("n=8")


def results(name: str, count: int, objectives: int = 1, seed: int = 0) -> list[tuple[str, float]]:
    space = Space(SPACE)
    maker, argument = find_strategy(name)
    strategy = maker(StrategySetup(space, seed, objectives, count, argument))
    found: list[tuple[str, float]] = []
    while len(found) < count and (point := strategy.ask()) is not None:
        value = value_of(space, point)
        found.append((space.text_of(point), value))
        strategy.tell(point, [value] * objectives)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_same_points(name: str) -> None:
    first, second, other = results(name, 25), results(name, 25), results(name, 25, seed=1)
    assert first == second
    assert first != other
    assert len(first) == 25 or name == "greedy"


@pytest.mark.parametrize("name", ["evolution", "tpe"])
def test_strategies_learn(name: str) -> None:
    best = [min(value for _, value in results(name, 150, seed=seed)) for seed in range(5)]
    chance = [min(value for _, value in results("random", 150, seed=seed)) for seed in range(5)]
    assert sum(best) < sum(chance)


@pytest.mark.parametrize("name", ["tpe", "nsga2", "nevergrad:DE"])
def test_strategies_take_several_objectives(name: str) -> None:
    assert len(results(name, 20, objectives=2)) == 20


@pytest.mark.parametrize("name", NAMES)
def test_strategies_take_foreign_points_and_failures(name: str) -> None:
    space, random = Space(SPACE), Random(3)
    maker, argument = find_strategy(name)
    donor, strategy = (maker(StrategySetup(space, seed, 1, 30, argument)) for seed in (1, 2))
    for index in range(12):
        point = donor.ask()
        if point is not None:
            values = None if index % 4 == 3 else [random.random()]
            donor.tell(point, values)
            strategy.tell(point, values)
    asked = [strategy.ask() for _ in range(3)]
    assert all(point is not None and space.passes_of(point) for point in asked)


def test_greedy_waits_and_ends() -> None:
    space = Space("?{0..1}(s.Add|s.Scale)")
    maker, _ = find_strategy("greedy")
    strategy = maker(StrategySetup(space))
    start = strategy.ask()
    assert start is not None
    assert (space.text_of(start), strategy.ask()) == ("", None)
    strategy.tell(start, [5.0])
    neighbours = [strategy.ask(), strategy.ask()]
    assert strategy.ask() is None
    for point in neighbours:
        assert point is not None
        strategy.tell(point, [4.0 if space.text_of(point) == "s.Add" else 6.0])
    assert strategy.ask() is None


def test_greedy_ignores_failures() -> None:
    space = Space("?{0..2}(s.Add|s.Scale)")
    maker, _ = find_strategy("greedy")
    strategy = maker(StrategySetup(space))
    texts: list[str] = []
    while (point := strategy.ask()) is not None:
        texts.append(space.text_of(point))
        strategy.tell(point, None if "s.Scale" in texts[-1] else [10.0 - len(texts[-1])])
    assert texts[0] == ""
    assert texts[-1] in ("s.Add,s.Add", "s.Add,s.Scale")
    assert "s.Scale,s.Add" not in texts


def test_errors_of_names() -> None:
    with pytest.raises(SearchError, match="no strategy is named 'tep'; did you mean 'tpe'"):
        find_strategy("tep")
    maker, argument = find_strategy("nevergrad:OnePlusTwo")
    with pytest.raises(SearchError, match="nevergrad has no optimizer 'OnePlusTwo'"):
        maker(StrategySetup(Space(SPACE), argument=argument))
    assert {"coreset", "gp", *(name for name in NAMES if ":" not in name)} <= set(strategy_names())


def test_gp_names_missing_library() -> None:
    if find_spec("torch") is not None:
        pytest.skip("torch is installed")
    maker, _ = find_strategy("gp")
    strategy = maker(StrategySetup(Space("s.Scale{by=?0.5..2.0}")))

    def ask_and_tell() -> None:
        for value in range(20):
            point = strategy.ask()
            assert point is not None
            strategy.tell(point, [float(value)])

    with pytest.raises(MissingExtraError, match="pip install torch"):
        ask_and_tell()
