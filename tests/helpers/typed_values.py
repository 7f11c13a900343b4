"""Types of values of pass options."""

from collections.abc import Mapping, Sequence, Set
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any, cast


class Color(Enum):
    RED = "red"
    GREEN = 0.5
    ALSO_RED = RED


# Names that are values of other members, and names that the text format reads as other tokens.
Odd = Enum("Odd", {"A": "B", "B": "A", "none": 1, "inf": 2, "two words": 3, "3": 4, "TRUE": 5})


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Word(StrEnum):
    YES = "y"
    NO = "n"


class Rights(Flag):
    READ = 1
    WRITE = 2


class Box:
    def method(self) -> None: ...

    @classmethod
    def make(cls) -> "Box":
        return cls()


def shape(value: object) -> object:
    """Return `value` in a form for comparisons that include all nested types.

    A nan is equal to a nan.
    """
    kind = type(value)
    if isinstance(value, list | tuple):
        return (kind, [shape(item) for item in cast("Sequence[Any]", value)])
    if isinstance(value, Mapping):
        return (kind, [(shape(key), shape(item)) for key, item in cast("Mapping[object, Any]", value).items()])
    if isinstance(value, set | frozenset):
        return (kind, {shape(item) for item in cast("Set[Any]", value)})
    return (kind, repr(value)) if isinstance(value, float) else (kind, value)
