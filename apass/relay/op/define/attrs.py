"""Attributes that several operators share, and fields that are always printed."""

from dataclasses import dataclass, field
from typing import TypeVar

from apass.relay.ir.attrs import Attrs

__all__ = ["InitOpAttrs", "always_printed"]

T = TypeVar("T")


def always_printed(default: T) -> T:
    """Return a dataclass field with a default that is always printed.

    The field is printed even if its value equals the default. TVM's field has no default, so TVM's text format always
    contains it.
    """
    result: T = field(default_factory=lambda: default)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOpAttrs(Attrs):
    """The attributes of operators that create a tensor of a given shape."""

    shape: tuple[int, ...] | None = always_printed(None)
    """The shape of the result."""
    dtype: str = ""
    """The element type of the result; empty for that of the input."""
