"""Moves in a space: random points, changes of a point, and its neighbours."""

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from apass.search.space import Space
from apass.search.template import Choice, Domain, Number, Point, Site, Steps, draw, first_of

__all__ = ["changed", "crossed", "neighbours", "random_point"]

SEVERAL: Final = 8
"""Steps that a change removes or repeats at most."""
FEW: Final = 8
"""Values of a number that a neighbour may have, if its range has more."""


def random_point(space: Space, random: Random) -> Point:
    """Return a point, each choice of which is uniform."""
    return space.draw(lambda _, domain: _random_value(domain, random))


def _random_value(domain: Domain, random: Random) -> float:
    if isinstance(domain, tuple):
        return random.randrange(len(domain))
    if domain.is_log:
        value: float = domain.low * (domain.high / domain.low) ** random.random()
        return round(value) if domain.is_int else value
    if domain.is_int:
        return random.randint(int(domain.low), int(domain.high))
    return random.uniform(domain.low, domain.high)


def changed(space: Space, point: Point, random: Random) -> Point:
    """Return a point that differs in one choice."""
    sites = [site for site in space.sites(point) if _is_free(site)]
    # A sequence has as many choices as steps.
    weights = [max(1, len(site.value)) if isinstance(site.hole, Steps) else 1 for site in sites]
    site = random.choices(sites, weights)[0]
    if isinstance(site.hole, Number):
        return site.put(_other_number(site.hole, site.value, random))
    if isinstance(site.hole, Choice):
        index = random.randrange(len(site.hole.options) - 1)
        return site.put(_drawn(site.hole, index + (index >= site.value[0]), random))
    return site.put(_changed_steps(site.hole, site.value, random))


def _is_free(site: Site) -> bool:
    hole = site.hole
    return hole.low < hole.high if isinstance(hole, Number) else isinstance(hole, Steps) or len(hole.options) > 1


def _other_number(hole: Number, value: float, random: Random) -> float:
    """Return a number near another one, or anywhere in the range."""
    if random.random() < 0.5:
        return _random_value(hole, random)
    width = (hole.high - hole.low) / FEW
    near = min(max(random.gauss(value, width), hole.low), hole.high)
    if not hole.is_int:
        return near
    rounded = round(near)
    if rounded == value:
        rounded += 1 if value < hole.high else -1
    return rounded


def _drawn(hole: Choice | Steps, index: int, random: Random) -> tuple[int, Point]:
    return index, draw(hole.options[index], lambda _, domain: _random_value(domain, random))


def _changed_steps(hole: Steps, steps: tuple[Any, ...], random: Random) -> tuple[Any, ...]:
    """Insert, remove, replace or move a step; remove or repeat several."""
    used = {index for index, _ in steps} if hole.once else set[int]()
    unused = [index for index in range(len(hole.options)) if index not in used]
    room, spare = hole.most - len(steps), len(steps) - hole.least
    weights = {
        "insert": 4 * (room > 0 and bool(unused)),
        "remove": 3 * (spare > 0),
        "replace": 2 * (bool(steps) and bool(unused)),
        "move": 2 * (len(steps) > 1),
        "remove several": spare > 1,
        "repeat several": room > 1 and len(steps) > 1 and not hole.once,
    }
    if not any(weights.values()):
        return steps
    (move,) = random.choices([*weights], [*weights.values()])
    rest: list[Any] = list(steps)
    if move == "remove several":
        start = random.randrange(len(rest))
        del rest[start : start + random.randint(2, max(2, min(SEVERAL, spare)))]
        return tuple(rest)
    if move == "repeat several":
        start, count = random.randrange(len(rest)), random.randint(2, max(2, min(SEVERAL, room)))
        place = random.randint(0, len(rest))
        return (*rest[:place], *rest[start : start + count], *rest[place:])
    if move == "insert":
        rest.insert(random.randint(0, len(rest)), _drawn(hole, random.choice(unused), random))
    elif move == "replace":
        rest[random.randrange(len(rest))] = _drawn(hole, random.choice(unused), random)
    else:
        step = rest.pop(random.randrange(len(rest)))
        if move == "move":
            rest.insert(random.randint(0, len(rest)), step)
    return tuple(rest)


def crossed(space: Space, first: Point, second: Point, random: Random) -> Point:
    """Return a point with the beginning of one sequence and the end of another.

    Without a sequence, it is `first`.
    """
    pairs = [
        (one, other)
        for one in space.sites(first)
        for other in space.sites(second)
        if isinstance(one.hole, Steps) and one.hole is other.hole
    ]
    if not pairs:
        return first
    one, other = random.choice(pairs)
    assert isinstance(one.hole, Steps)
    head = one.value[: random.randint(0, len(one.value))]
    tail = other.value[random.randint(0, len(other.value)) :]
    steps = (*head, *tail)[: one.hole.most]
    if one.hole.once:
        steps = tuple({index: (index, inner) for index, inner in steps}.values())
    return one.put(steps) if len(steps) >= one.hole.least else first


def neighbours(space: Space, point: Point) -> Iterator[Point]:
    """Iterate over the points that differ in one choice, or have one more step."""
    for site in space.sites(point):
        hole, value = site.hole, site.value
        if isinstance(hole, Number):
            for other in _values(hole):
                if other != value:
                    yield site.put(other)
        elif isinstance(hole, Choice):
            for index, option in enumerate(hole.options):
                if index != value[0]:
                    yield site.put((index, draw(option, first_of)))
        elif len(value) < hole.most:
            used = {index for index, _ in value} if hole.once else set[int]()
            for index, option in enumerate(hole.options):
                if index not in used:
                    yield site.put((*value, (index, draw(option, first_of))))


def _values(hole: Number) -> Iterator[float]:
    """Iterate over all values of a number, or a few in equal distances."""
    if hole.is_int and hole.high - hole.low < 2 * FEW:
        yield from range(int(hole.low), int(hole.high) + 1)
        return
    for step in range(FEW):
        share = step / (FEW - 1)
        value = hole.low * (hole.high / hole.low) ** share if hole.is_log else hole.low + share * (hole.high - hole.low)
        yield round(value) if hole.is_int else value
