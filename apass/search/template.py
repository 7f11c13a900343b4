"""The parts of a pipeline text with holes, and the points that fill them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "Choice",
    "Chooser",
    "Domain",
    "Hole",
    "Item",
    "Number",
    "PassTemplate",
    "Point",
    "Site",
    "Steps",
    "domains_of",
    "draw",
    "examples_of",
    "first_of",
    "named_values",
    "render",
    "sites_of",
    "size_of",
]

Point = tuple[Any, ...]
"""One choice for each hole: nested tuples of numbers and indices, in the form of the space."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number for an option: `times=?1..4`, `rate=?0.1..0.9`, `size=?1..1024:log`."""

    name: str
    """The name of the choice, such as `Repeat.times`."""
    low: float
    """The least value."""
    high: float
    """The greatest value."""
    is_int: bool
    """Whether the values are integers."""
    is_log: bool = False
    """Whether values are drawn by their logarithm."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several alternatives: `?(A|B,C|)` for passes, `key=?(a|b)` for values."""

    name: str
    """The name of the choice."""
    options: "tuple[tuple[Item, ...], ...]"
    """The alternatives; each is a list of passes, or one value."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts of the alternatives."""
        return tuple(map(_label, self.options))


@dataclass(frozen=True, slots=True)
class Steps:
    """A sequence of alternatives: `?{1..12}(A|B|C)`."""

    name: str
    """The name of the choice."""
    least: int
    """The minimum number of steps."""
    most: int
    """The maximum number of steps."""
    options: "tuple[tuple[Item, ...], ...]"
    """The alternatives for each step."""
    once: bool = False
    """Whether an alternative occurs at most once."""

    @property
    def lengths(self) -> Number:
        """The domain of the number of steps."""
        return Number(f"{self.name}.length", self.least, self.most, is_int=True)

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts of the alternatives."""
        return tuple(map(_label, self.options))


Hole = Number | Choice | Steps
"""A place in the text where a search chooses."""


@dataclass(frozen=True, slots=True)
class PassTemplate:
    """A pass whose options, and the passes that it contains, may have holes."""

    head: "tuple[str | Number | Choice, ...]"
    """The text up to the contained passes."""
    passes: "tuple[Item, ...] | None" = None
    """The contained passes; None if there are no parentheses."""

    @property
    def holes(self) -> tuple[Number | Choice, ...]:
        """The holes of the options."""
        return tuple(part for part in self.head if not isinstance(part, str))


Item = PassTemplate | Choice | Steps
"""An element of a list of passes."""

Domain = Number | tuple[str, ...]
"""The values of one choice: numbers, or the texts of alternatives."""

Chooser = Callable[[str, Domain], float]
"""Called as `choose(name, domain)`; returns a number, or the index of one of the texts."""


@dataclass(frozen=True, slots=True)
class Site:
    """A hole that a point fills, with what changes its value."""

    hole: Hole
    """The hole."""
    value: Any
    """Its value in the point."""
    put: Callable[[Any], Point]
    """Returns the point with another value."""


def _label(option: tuple[Item, ...]) -> str:
    return ",".join(map(_item_label, option))


def _item_label(item: Item) -> str:
    if isinstance(item, Choice):
        return f"?({'|'.join(item.labels)})"
    if isinstance(item, Steps):
        return f"?{{{item.least}..{item.most}{',once' if item.once else ''}}}({'|'.join(item.labels)})"
    head = "".join(part if isinstance(part, str) else "?" for part in item.head)
    return head if item.passes is None else f"{head}({','.join(map(_item_label, item.passes))})"


def examples_of(items: Sequence[Item]) -> Iterator[str]:
    """Iterate over texts in which each alternative and both ends of ranges occur."""
    for item in items:
        if isinstance(item, Choice | Steps):
            for option in item.options:
                yield from examples_of(option)
            continue
        first = draw([item], first_of)
        yield from render([item], first)
        for index, hole in enumerate(item.holes):
            head, inner = first[0]
            for value in _ends(hole):
                yield from render([item], (((*head[:index], value, *head[index + 1 :]), inner),))
        yield from examples_of(item.passes or ())


def first_of(_name: str, domain: Domain) -> float:
    """Return the first alternative, or the least number, for `draw`."""
    return 0 if isinstance(domain, tuple) else domain.low


def _ends(hole: Number | Choice) -> Iterator[Any]:
    if isinstance(hole, Number):
        yield int(hole.high) if hole.is_int else hole.high
    else:
        yield from ((index, draw(option, first_of)) for index, option in enumerate(hole.options))


def size_of(items: Sequence[Item]) -> float:
    """Return the number of points; infinite if an option is a float."""
    return math.prod(map(_item_size, items))


def _item_size(item: Item | Number) -> float:
    if isinstance(item, Number):
        return int(item.high) - int(item.low) + 1 if item.is_int else math.inf if item.low < item.high else 1
    if isinstance(item, Choice):
        return sum(map(size_of, item.options))
    if isinstance(item, Steps):
        sizes = [size_of(option) for option in item.options]
        return sum(_ways(sizes, count, once=item.once) for count in range(item.least, item.most + 1))
    return math.prod(map(_item_size, item.holes)) * size_of(item.passes or ())


def _ways(sizes: Sequence[float], count: int, *, once: bool) -> float:
    """Return the number of sequences of a length."""
    if not once:
        return sum(sizes) ** count
    # Elementary symmetric polynomial: the choices of `count` alternatives, in each order.
    sums = [1.0 if any(map(math.isinf, sizes)) else 1, *[0] * count]
    for size in sizes:
        for index in range(count, 0, -1):
            sums[index] += sums[index - 1] * size if sums[index - 1] else 0
    return sums[count] * math.factorial(count)


def draw(items: Sequence[Item], choose: Chooser, prefix: str = "") -> Point:
    """Return a point with the values that `choose` returns."""
    return tuple(_draw_item(item, choose, prefix) for item in items)


def _draw_item(item: Item | Number, choose: Chooser, prefix: str) -> Any:
    if isinstance(item, Number):
        value = choose(prefix + item.name, item)
        return int(value) if item.is_int else float(value)
    if isinstance(item, Choice):
        return _draw_option(item, item.name, choose, prefix)
    if isinstance(item, Steps):
        count = item.least
        if item.least < item.most:
            count = int(choose(prefix + item.lengths.name, item.lengths))
        drawn = [_draw_option(item, f"{item.name}[{index}]", choose, prefix) for index in range(count)]
        return tuple({index: (index, inner) for index, inner in drawn}.values() if item.once else drawn)
    head = tuple(_draw_item(hole, choose, prefix) for hole in item.holes)
    return head, draw(item.passes or (), choose, prefix)


def _draw_option(hole: Choice | Steps, name: str, choose: Chooser, prefix: str) -> tuple[int, Point]:
    index = int(choose(prefix + name, hole.labels)) if len(hole.options) > 1 else 0
    return index, draw(hole.options[index], choose, f"{prefix}{name}.")


def domains_of(items: Sequence[Item], prefix: str = "") -> Iterator[tuple[str, Domain]]:
    """Iterate over the name and the domain of each choice that a point may make."""
    for item in items:
        yield from _item_domains(item, prefix)


def _item_domains(item: Item | Number, prefix: str) -> Iterator[tuple[str, Domain]]:
    if isinstance(item, Number):
        yield prefix + item.name, item
    elif isinstance(item, PassTemplate):
        for hole in item.holes:
            yield from _item_domains(hole, prefix)
        yield from domains_of(item.passes or (), prefix)
    else:
        names = [item.name]
        if isinstance(item, Steps):
            names = [f"{item.name}[{index}]" for index in range(item.most)]
            if item.least < item.most:
                yield prefix + item.lengths.name, item.lengths
        for name in names:
            if len(item.options) > 1:
                yield prefix + name, item.labels
            for option in item.options:
                yield from domains_of(option, f"{prefix}{name}.")


def named_values(items: Sequence[Item], point: Point, prefix: str = "") -> Iterator[tuple[str, Domain, float]]:
    """Iterate over the name, the domain and the value of each choice."""
    for item, value in zip(items, point, strict=True):
        yield from _named_item(item, value, prefix)


def _named_item(item: Item | Number, value: Any, prefix: str) -> Iterator[tuple[str, Domain, float]]:
    if isinstance(item, Number):
        yield prefix + item.name, item, value
    elif isinstance(item, PassTemplate):
        for hole, inner in zip(item.holes, value[0], strict=True):
            yield from _named_item(hole, inner, prefix)
        yield from named_values(item.passes or (), value[1], prefix)
    else:
        if isinstance(item, Steps) and item.least < item.most:
            yield prefix + item.lengths.name, item.lengths, len(value)
        for number, (index, inner) in enumerate(_steps(item, value)):
            name = f"{item.name}[{number}]" if isinstance(item, Steps) else item.name
            if len(item.options) > 1:
                yield prefix + name, item.labels, index
            yield from named_values(item.options[index], inner, f"{prefix}{name}.")


def _steps(hole: Choice | Steps, value: Any) -> Sequence[tuple[int, Point]]:
    """Return the indices and inner points of what a hole has chosen."""
    steps: Sequence[tuple[int, Point]] = value if isinstance(hole, Steps) else (value,)
    return steps


def render(items: Sequence[Item], point: Point) -> Iterator[str]:
    """Iterate over the texts of the passes of a point."""
    for item, value in zip(items, point, strict=True):
        if isinstance(item, Choice | Steps):
            for index, inner in _steps(item, value):
                yield from render(item.options[index], inner)
            continue
        values = iter(value[0])
        head = "".join(part if isinstance(part, str) else _value_text(part, next(values)) for part in item.head)
        contained = None if item.passes is None else ",".join(render(item.passes, value[1]))
        # Without passes, a combinator has no effect, and no text.
        if contained != "":
            yield head if contained is None else f"{head}({contained})"


def _value_text(hole: Number | Choice, value: Any) -> str:
    if isinstance(hole, Number):
        return repr(value)
    index, inner = _steps(hole, value)[0]
    return "".join(render(hole.options[index], inner))


def sites_of(items: Sequence[Item], point: Point, put: Callable[[Any], Point]) -> Iterator[Site]:
    """Iterate over the holes that a point fills.

    `put` makes a whole point of another one for `items`.
    """
    for index, (item, value) in enumerate(zip(items, point, strict=True)):
        yield from _item_sites(item, value, _putting(point, index, put))


def _item_sites(item: Item | Number, value: Any, put: Callable[[Any], Point]) -> Iterator[Site]:
    if isinstance(item, PassTemplate):
        into_head, into_passes = _putting(value, 0, put), _putting(value, 1, put)
        for index, hole in enumerate(item.holes):
            yield from _item_sites(hole, value[0][index], _putting(value[0], index, into_head))
        yield from sites_of(item.passes or (), value[1], into_passes)
        return
    yield Site(item, value, put)
    if isinstance(item, Choice):
        index, inner = _steps(item, value)[0]
        yield from sites_of(item.options[index], inner, _putting(value, 1, put))
    elif isinstance(item, Steps):
        for number, (index, inner) in enumerate(_steps(item, value)):
            into_step = _putting(value[number], 1, _putting(value, number, put))
            yield from sites_of(item.options[index], inner, into_step)


def _putting(values: Point, index: int, put: Callable[[Any], Point]) -> Callable[[Any], Point]:
    return lambda new: put((*values[:index], new, *values[index + 1 :]))
