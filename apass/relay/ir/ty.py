"""What types that are made of others share: equality, hash and text, to any depth; for `apass.relay.ty`."""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

__all__ = ["Compound", "separated"]

_Numbers: TypeAlias = Mapping[Hashable, int]
_NONE_BOUND: Final[_Numbers] = {}


class Compound:
    """Something with parts that may be made of parts themselves. Two are equal if their heads and their parts are.

    Those that bind variables are equal up to the names of these: a variable is the place at which it is bound. A
    subclass gives `head`, `parts` and `pieces`; it is no ABC, as `isinstance` takes several times as long on these.
    """

    __slots__ = ()

    @property
    def head(self) -> tuple[Hashable, ...]:
        """What it is by itself, with the numbers of its parts."""
        raise NotImplementedError

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """What is directly within it."""
        raise NotImplementedError

    @property
    def binds(self) -> tuple[Hashable, ...]:
        """The variables that are bound within it."""
        return ()

    def pieces(self) -> Sequence[object]:
        """Return its text in pieces: strings, and the parts whose texts stand between them."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        """Compare by structure, up to the names of the variables that are bound within."""
        if self is other:
            return True
        return _equal(self, other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        """Hash in keeping with `==`."""
        return _hash(self)

    def __str__(self) -> str:
        """Return Relay's text."""
        return "".join(_texts(self))

    def __repr__(self) -> str:
        """Return the kind, and Relay's text."""
        return f"<relay.{type(self).__name__} {self}>"


def separated(parts: Iterable[object]) -> Iterator[object]:
    """Go over parts with commas between them."""
    for place, one in enumerate(parts):
        if place:
            yield ", "
        yield one


def _equal(lhs: object, rhs: object) -> bool:
    stack: list[tuple[object, object, _Numbers, _Numbers]] = [(lhs, rhs, _NONE_BOUND, _NONE_BOUND)]
    seen = set[tuple[int, int, int]]()
    while stack:
        one, other, left, right = stack.pop()
        if not isinstance(one, Compound) or not isinstance(other, Compound):
            if not _same_leaf(one, other, left, right):
                return False
            continue
        key = (id(one), id(other), id(left))
        if key in seen or (one is other and not left):
            continue
        seen.add(key)
        if type(one) is not type(other) or one.head != other.head:
            return False
        if one.binds:
            left, right = _bound(left, one), _bound(right, other)
        stack += [(part, like, left, right) for part, like in zip(one.parts, other.parts, strict=True)]
    return True


def _same_leaf(one: object, other: object, left: _Numbers, right: _Numbers) -> bool:
    # Most types bind nothing, and what is no variable costs its hash to be looked up.
    if left and isinstance(one, Hashable) and isinstance(other, Hashable):
        number = left.get(one)
        if number is not None or other in right:
            return number == right.get(other)
    return one is other or one == other


def _bound(numbers: _Numbers, binder: Compound) -> _Numbers:
    return {**numbers, **{one: len(numbers) + place for place, one in enumerate(binder.binds)}}


def _hash(root: Compound) -> int:
    """Return a hash of the heads and the leaves; a shared part is looked at once."""
    known: dict[int, int] = {}
    stack: list[Hashable] = [root]
    while stack:
        one = stack[-1]
        below = [part for part in one.parts if id(part) not in known] if isinstance(one, Compound) else []
        if below and id(one) not in known:
            stack += below
            continue
        stack.pop()
        known[id(one)] = _hash_of_one(one, known)
    return known[id(root)]


def _hash_of_one(one: Hashable, known: Mapping[int, int]) -> int:
    if isinstance(one, Compound):
        return hash((type(one), one.head, *[known[id(part)] for part in one.parts]))
    # What equals itself alone may be a variable that is bound, and then it is its place that counts.
    return hash(type(one)) if type(one).__eq__ is object.__eq__ else hash(one)


def _texts(root: object) -> Iterator[str]:
    stack = [root]
    while stack:
        one = stack.pop()
        if isinstance(one, Compound):
            stack += reversed(one.pieces())
        else:
            yield str(one)
