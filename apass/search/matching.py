"""`point_of`: the point of a space whose pipeline has a text."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeGuard

from apass.search.template import Choice, Item, Number, PassTemplate, Point, Steps, draw, first_of

__all__ = ["point_of"]

_INT: Final = re.compile(r"-?\d+")
_FLOAT: Final = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

Passes = Sequence[PassTemplate]
"""Passes of a text without holes."""


def point_of(items: Sequence[Item], given: Sequence[Item]) -> Point | None:
    """Return a point of a space whose passes are the given ones.

    None if there is none, or the given passes have holes.
    """
    if not _is_plain(given):
        return None
    return next((point for point, rest in _matches(items, given) if not rest), None)


def _is_plain(items: Sequence[Item]) -> TypeGuard[Sequence[PassTemplate]]:
    return all(isinstance(item, PassTemplate) and not item.holes and _is_plain(item.passes or ()) for item in items)


def _matches(items: Sequence[Item], passes: Passes) -> Iterator[tuple[Point, Passes]]:
    """Iterate over the points whose passes begin a list, with the rest of it."""
    if not items:
        yield (), passes
        return
    for value, rest in _item_matches(items[0], passes):
        for others, end in _matches(items[1:], rest):
            yield (value, *others), end


def _item_matches(item: Item, passes: Passes) -> Iterator[tuple[Any, Passes]]:
    if isinstance(item, Choice):
        for index, option in enumerate(item.options):
            yield from (((index, inner), rest) for inner, rest in _matches(option, passes))
    elif isinstance(item, Steps):
        yield from _steps_matches(item, passes, (), set())
    else:
        if passes:
            yield from ((value, passes[1:]) for value in _pass_matches(item, passes[0]))
        # A combinator without passes has no text.
        for inner, _ in () if item.passes is None else _matches(item.passes, ()):
            yield (draw([item], first_of)[0][0], inner), passes


def _steps_matches(
    hole: Steps, passes: Passes, taken: tuple[Any, ...], seen: set[tuple[object, int]]
) -> Iterator[tuple[Any, Passes]]:
    """Iterate over the steps that begin a list of passes, as many as possible first."""
    used = frozenset(index for index, _ in taken) if hole.once else len(taken)
    # Other steps that lead to the same place have the same continuations. There may be exponentially many.
    if (used, len(passes)) in seen:
        return
    seen.add((used, len(passes)))
    for index, option in enumerate(hole.options) if len(taken) < hole.most else ():
        if hole.once and any(index == earlier for earlier, _ in taken):
            continue
        for inner, rest in _matches(option, passes):
            # An alternative without passes would match forever.
            if len(rest) < len(passes):
                yield from _steps_matches(hole, rest, (*taken, (index, inner)), seen)
    if len(taken) >= hole.least:
        yield taken, passes


def _pass_matches(item: PassTemplate, given: PassTemplate) -> Iterator[tuple[Any, Point]]:
    """Iterate over the values of a template that make a pass."""
    if (item.passes is None) != (given.passes is None):
        return
    for head, rest in _head_values(item.head, "".join(map(str, given.head))):
        inner = None if rest else point_of(item.passes or (), given.passes or ())
        if inner is not None:
            yield head, inner


def _head_values(parts: Sequence[str | Number | Choice], text: str) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Iterate over the values of holes that begin a text, with the rest of it."""
    if not parts:
        yield (), text
        return
    first, *others = parts
    if isinstance(first, str):
        if text.startswith(first):
            yield from _head_values(others, text.removeprefix(first))
        return
    for value, rest in _hole_values(first, text):
        yield from (((value, *more), end) for more, end in _head_values(others, rest))


def _hole_values(hole: Number | Choice, text: str) -> Iterator[tuple[Any, str]]:
    if isinstance(hole, Number):
        found = (_INT if hole.is_int else _FLOAT).match(text)
        if found is not None:
            value = int(found[0]) if hole.is_int else float(found[0])
            if hole.low <= value <= hole.high:
                yield value, text[found.end() :]
        return
    for index, option in enumerate(hole.options):
        yield from (((index, inner), rest) for inner, rest in _value_matches(option, text))


def _value_matches(items: Sequence[Item], text: str) -> Iterator[tuple[Point, str]]:
    """Iterate over the points of a value that begins a text, with the rest of it."""
    if not items:
        yield (), text
        return
    first, *others = items
    if isinstance(first, Choice):
        values = _hole_values(first, text)
    else:
        assert isinstance(first, PassTemplate)  # a value is no sequence
        values = (((head, ()), rest) for head, rest in _head_values(first.head, text))
    for value, rest in values:
        yield from (((value, *more), end) for more, end in _value_matches(others, rest))
