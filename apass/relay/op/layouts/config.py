"""`LayoutConfig`: which convolutions ConvertLayout leaves as they are, told around the run of the pass."""

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from operator import index
from typing import Final, Self

__all__ = ["LayoutConfig", "is_skipped"]


@dataclass(frozen=True, slots=True)
class _Scope:
    """One `with` of a LayoutConfig."""

    skip_layers: frozenset[int]
    """The numbers of the convolutions that stay."""
    numbers: Iterator[int]
    """The number of the next convolution."""
    outer: "_Scope | None"
    """The scope around it."""


_CURRENT: Final[ContextVar[_Scope | None]] = ContextVar("apass.relay.LayoutConfig", default=None)


class LayoutConfig:
    """Within a `with` of it, ConvertLayout leaves some of the calls of nn.conv2d and nn.deformable_conv2d as they are.

    They are counted from 0 as the pass comes to them, operands first, from the beginning of the `with` on.

    Raises:
        TypeError: if `skip_layers` are no whole numbers.

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
        self.skip_layers = [index(one) for one in skip_layers or ()]
        """The numbers of the convolutions that stay as they are."""

    def __enter__(self) -> Self:
        """Begin to count."""
        _CURRENT.set(_Scope(frozenset(self.skip_layers), count(), _CURRENT.get()))
        return self

    def __exit__(self, *error: object) -> None:
        """Go back to what was before."""
        scope = _CURRENT.get()
        _CURRENT.set(None if scope is None else scope.outer)


def is_skipped() -> bool:
    """Count a convolution, and tell whether it stays as it is."""
    scope = _CURRENT.get()
    return scope is not None and next(scope.numbers) in scope.skip_layers
