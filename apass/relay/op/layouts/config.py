"""`LayoutConfig`: exempts convolutions from ConvertLayout inside a `with`."""

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from operator import index
from typing import Final, Self

__all__ = ["LayoutConfig", "is_skipped"]


@dataclass(frozen=True, slots=True)
class _Scope:
    """One active `with` block of a LayoutConfig."""

    skip_layers: frozenset[int]
    """The numbers of the convolutions that are not converted."""
    numbers: Iterator[int]
    """The number of the next convolution."""
    outer: "_Scope | None"
    """The enclosing scope."""


_CURRENT: Final[ContextVar[_Scope | None]] = ContextVar("apass.relay.LayoutConfig", default=None)


class LayoutConfig:
    """Makes ConvertLayout skip some calls of nn.conv2d and nn.deformable_conv2d.

    It has an effect inside its `with` block. The calls are numbered from 0 in the order in which the pass visits them,
    operands first. The count starts when the `with` block is entered.

    Raises:
        TypeError: if `skip_layers` contains anything but integers.

    >>> from apass import relay, run
    >>> x, w = relay.var("x", shape=(1, 4, 8, 8)), relay.var("w", shape=(4, 4, 1, 1))
    >>> twice = relay.nn.conv2d(relay.nn.conv2d(x, w), w)
    >>> convert = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    >>> with LayoutConfig(skip_layers=[0]):
    ...     mod = run(convert, relay.IRModule.from_expr(twice))
    >>> [call.attrs.data_layout for call in (mod["main"].body.args[0].args[0].args[0], mod["main"].body.args[0])]
    ['NCHW', 'NHWC']
    """

    def __init__(self, skip_layers: Iterable[int] | None = None) -> None:
        self.skip_layers: list[int] = [index(number) for number in skip_layers or ()]
        """The numbers of the convolutions that are not converted."""

    def __enter__(self) -> Self:
        """Start the count of convolutions."""
        _CURRENT.set(_Scope(frozenset(self.skip_layers), count(), _CURRENT.get()))
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the enclosing LayoutConfig."""
        scope = _CURRENT.get()
        _CURRENT.set(None if scope is None else scope.outer)


def is_skipped() -> bool:
    """Count one convolution, and return whether ConvertLayout skips it."""
    scope = _CURRENT.get()
    return scope is not None and next(scope.numbers) in scope.skip_layers
