"""Arithmetic on axes and on symbolic dimensions, for type relations and kernels."""

from collections.abc import Callable, Iterable, Sequence

from apass.relay.ir.ty import Any, Dim

__all__ = [
    "axes_of",
    "axis_of",
    "broadcast_dims",
    "combine_dims",
    "dims_differ",
    "ints",
    "product",
    "shape_text",
    "static_dims",
]


def shape_text(shape: Iterable[Dim]) -> str:
    """Return a shape in the form that messages use.

    >>> shape_text((1, Any()))
    '(1, ?)'
    """
    dims = [str(dim) for dim in shape]
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"


def ints(value: int | Iterable[int]) -> tuple[int, ...]:
    """Return one number or several as a tuple of ints; any type with `__index__`."""
    if isinstance(value, Iterable):
        return tuple(item.__index__() for item in value)
    return (value.__index__(),)


def axis_of(rank: int, axis: int) -> int:
    """Return an axis counted from 0. A negative axis counts from the end.

    Raises:
        ValueError: if the axis is out of range.

    """
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for {rank} dimensions; expected {-rank} to {rank - 1}")
    return axis % rank


def axes_of(rank: int, axes: Sequence[int] | None, exclude: bool = False) -> tuple[int, ...]:
    """Return axes counted from 0, in ascending order.

    If `axes` is None, return all axes. With `exclude`, return the axes that are not in `axes`.

    Raises:
        ValueError: if an axis is out of range or appears twice.

    """
    chosen = range(rank) if axes is None else [axis_of(rank, axis) for axis in axes]
    if len(set(chosen)) != len(chosen):
        raise ValueError(f"the axes {shape_text(chosen)} contain a duplicate; list each axis once")
    # If `axes` is None, `exclude` has no effect, as in TVM.
    selected = set(range(rank)) - set(chosen) if exclude and axes is not None else set(chosen)
    return tuple(sorted(selected))


def static_dims(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """Return dimensions as ints, or None if one of them is symbolic."""
    all_dims = tuple(dims)
    numbers = tuple(dim for dim in all_dims if isinstance(dim, int))
    return numbers if len(numbers) == len(all_dims) else None


def dims_differ(a: Dim, b: Dim) -> bool:
    """Return whether two dimensions are numbers that differ.

    A symbolic dimension may be equal to any other, so it does not differ.
    """
    return isinstance(a, int) and isinstance(b, int) and a != b


def combine_dims(rule: Callable[..., int], *dims: Dim) -> Dim:
    """Return `rule` applied to the dimensions, or `Any()` if one of them is symbolic.

    >>> combine_dims(max, 2, 3), combine_dims(max, 2, Any())
    (3, Any())
    """
    numbers = static_dims(dims)
    return Any() if numbers is None else rule(*numbers)


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of dimensions.

    The product with `Any()` is `Any()`, unless all others are 1 or one of them is 0.
    """
    factors = [dim for dim in dims if dim != 1]
    if 0 in factors:
        return 0
    total: Dim = 1
    for dim in factors:
        total = total * dim
    return total


def broadcast_dims(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the shape of several tensors broadcast against each other.

    A number and `Any()` broadcast to the number.

    Raises:
        ValueError: if the shapes cannot be broadcast.

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
        raise ValueError(f"the shapes {text} cannot be broadcast: dimensions must be equal or 1")
    if len(distinct) < 2:
        return distinct[0] if distinct else 1
    return certain[0] if isinstance(certain[0], int) else Any()
