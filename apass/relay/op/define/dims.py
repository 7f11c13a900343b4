"""Arithmetic on axes and on dimensions that may be symbolic; shared by type relations and kernels."""

from collections.abc import Callable, Iterable, Sequence

from apass.relay.ty import Any, Dim

__all__ = [
    "axes_of",
    "axis_of",
    "broadcast_dims",
    "clash",
    "combined",
    "ints",
    "known",
    "over",
    "plus",
    "product",
    "shape_text",
]


def shape_text(shape: Iterable[Dim]) -> str:
    """Return a shape as messages show it.

    >>> shape_text((1, Any()))
    '(1, ?)'
    """
    dims = [str(dim) for dim in shape]
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def ints(given: int | Iterable[int]) -> tuple[int, ...]:
    """Return a number, or several of any kind that Python takes for an index, as a tuple of ints."""
    if isinstance(given, Iterable):
        return tuple(one.__index__() for one in given)
    return (given.__index__(),)


def axis_of(rank: int, axis: int) -> int:
    """Return an axis counted from 0; negative ones are counted from the end.

    Raises:
        ValueError: if there is no such axis.

    """
    if not -rank <= axis < rank:
        raise ValueError(f"there is no axis {axis} among {rank} dimensions; give one from {-rank} to {rank - 1}")
    return axis % rank


def axes_of(rank: int, axes: Sequence[int] | None, exclude: bool = False) -> tuple[int, ...]:
    """Return axes counted from 0 in ascending order: all for None; with `exclude`, all but those that are named.

    Raises:
        ValueError: if there is no such axis, or one is named twice.

    """
    chosen = range(rank) if axes is None else [axis_of(rank, axis) for axis in axes]
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"the axes {shape_text(chosen)} name one twice")
    # Without axes there is nothing to exclude: as in TVM, `exclude` has no effect then.
    wanted = set(range(rank)) - set(chosen) if exclude and axes is not None else set(chosen)
    return tuple(sorted(wanted))


def known(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """Return dimensions as ints, None if one of them is symbolic."""
    given = tuple(dims)
    numbers = tuple(dim for dim in given if isinstance(dim, int))
    return numbers if len(numbers) == len(given) else None


def clash(a: Dim, b: Dim) -> bool:
    """Tell whether two dimensions can never be equal: both are numbers, and they differ."""
    return isinstance(a, int) and isinstance(b, int) and a != b


def combined(rule: Callable[..., int], *dims: Dim) -> Dim:
    """Return `rule` of the dimensions if all are numbers, else `Any()`.

    >>> combined(max, 2, 3), combined(max, 2, Any())
    (3, Any())
    """
    numbers = known(dims)
    return Any() if numbers is None else rule(*numbers)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions; `Any()` if one is not known, unless it is the only one that is not 1."""
    factors = [dim for dim in dims if dim != 1]
    if 0 in factors:
        return 0
    if len(factors) == 1:
        return factors[0]
    total = 1
    for dim in factors:
        if not isinstance(dim, int):
            return Any()
        total *= dim
    return total


def plus(dim: Dim, more: int) -> Dim:
    """Return a dimension with `more` added.

    >>> plus(2, 3), plus(Any(), 3)
    (5, Any())
    """
    if more == 0:
        return dim
    return dim + more if isinstance(dim, int) else Any()


def over(dim: Dim, divisor: int) -> Dim:
    """Return a dimension divided, rounded down."""
    if divisor == 1:
        return dim
    return dim // divisor if isinstance(dim, int) else Any()


def broadcast_dims(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the shape of several tensors broadcast against each other; `Any()` against a number gives the number.

    Raises:
        ValueError: if they cannot be broadcast.

    >>> broadcast_dims((2, 1), (5,))
    (2, 5)
    """
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(*(1 for _ in range(rank - len(shape))), *shape) for shape in shapes]
    return tuple(_broadcast(dims, shapes) for dims in zip(*padded, strict=True))


def _broadcast(dims: Sequence[Dim], shapes: Sequence[Sequence[Dim]]) -> Dim:
    distinct = list(dict.fromkeys(dim for dim in dims if dim != 1))
    certain = [dim for dim in distinct if not isinstance(dim, Any)]
    if len(certain) > 1:
        text = " and ".join(map(shape_text, shapes))
        raise ValueError(f"the shapes {text} cannot be broadcast: two dimensions must be equal, or one of them 1")
    if len(distinct) < 2:
        return distinct[0] if distinct else 1
    return certain[0] if isinstance(certain[0], int) else Any()
