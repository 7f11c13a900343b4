"""Attributes that several operators share, and fields that are printed even where they are at their default."""

from dataclasses import dataclass, field
from typing import TypeVar

from apass.relay.ir.attrs import Attrs

__all__ = ["InitOpAttrs", "shown"]

T = TypeVar("T")


def shown(default: T) -> T:
    """Return a field of a dataclass that has a default, but is printed all the same: TVM's has none."""
    made: T = field(default_factory=lambda: default)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOpAttrs(Attrs):
    """The attributes of operators that make a tensor of a given shape."""

    shape: tuple[int, ...] | None = shown(None)
    """The shape of the result."""
    dtype: str = ""
    """The element type of the result; empty for that of the input."""
