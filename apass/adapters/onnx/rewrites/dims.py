"""Sizes of dimensions, and the facts that rules for them read."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import onnx_ir as ir

from apass.adapters.onnx.rewrites.kernels import Array

__all__ = ["MAX_ELEMENTS", "Dim", "Known", "Products", "Shape", "attributes", "broadcast"]

Dim: TypeAlias = int | str
"""A size, or the symbol of an unknown one. Dimensions with equal symbols have equal sizes."""

Shape: TypeAlias = tuple[Dim, ...]

_NONE: Final[Mapping[Dim, Dim]] = MappingProxyType({})

MAX_ELEMENTS: Final = 64
"""Maximum number of elements of a tensor whose elements are tracked one by one."""


class Known(Protocol):
    """The facts of the operands of a node."""

    version: int
    products: "Products"

    def shape(self, value: ir.Value | None) -> Shape | None:
        """Return the shape of a value, or None if not even its rank is known."""
        ...

    def dtype(self, value: ir.Value | None) -> ir.DataType | None:
        """Return the type of the elements of a tensor, or None."""
        ...

    def elements(self, value: ir.Value | None) -> Shape | None:
        """Return the elements of a short tensor of integers, as far as they are known."""
        ...

    def constant(self, value: ir.Value | None) -> Array | None:
        """Return the numbers of a value that is constant and small, or None."""
        ...

    def integers(self, value: ir.Value | None) -> list[int] | None:
        """Return the numbers of a constant of integers, or None."""
        ...

    def is_size(self, dim: Dim) -> bool:
        """Return whether it is the size of a dimension of a value."""
        ...

    def fresh(self) -> str:
        """Return a new symbol."""
        ...

    def shortened(self, size: Dim) -> str:
        """Return a new symbol: the minimum of a size and a positive number."""
        ...


def attributes(node: ir.Node) -> dict[str, Any]:
    """Return the values of the attributes of a node."""
    return {name: attr.value for name, attr in node.attributes.items()}


def broadcast(shapes: Iterable[Shape], fresh: Callable[[], Dim], shortened: Mapping[Dim, Dim] = _NONE) -> Shape:
    """Return the shape to which operands are broadcast.

    Parameters:
        shapes: the shapes of the operands.
        fresh: creates a symbol.
        shortened: symbols of sizes, each with the size of which it is the minimum with a number of at least 1.

    """
    shapes = list(shapes)
    rank = max(map(len, shapes))
    result: list[Dim] = []
    for axis in range(-rank, 0):
        dims = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        sizes = [dim for dim in dims if isinstance(dim, int)]
        if not dims:
            result.append(1)
        elif sizes:
            # An unknown size must be 1 or equal.
            result.append(sizes[0])
        else:
            # A size is broadcast with itself, limited by a number: it is that size, or the operator fails.
            longest = dims - {dim for dim in dims if shortened.get(dim) in dims}
            result.append(longest.pop() if len(longest) == 1 else fresh())
    return tuple(result)


class Products:
    """Products of sizes, as symbols: equal products have equal symbols.

    >>> products = Products()
    >>> six = products.of([2, "n", 3])
    >>> six, products.of(["n", 6]) == six, products.quotient([six, "m"], ["m", 3])
    ('6*n', True, '2*n')
    """

    def __init__(self) -> None:
        self._factors: dict[Dim, tuple[int, Counter[str]]] = {}

    def of(self, dims: Iterable[Dim]) -> Dim:
        """Return the product of sizes: a number, a size, or a symbol."""
        return self._symbol(*self._product(dims))

    def __contains__(self, dim: Dim) -> bool:
        """Return whether a symbol is that of a product."""
        return dim in self._factors

    def quotient(self, dims: Iterable[Dim], divisors: Iterable[Dim]) -> Dim | None:
        """Return the product of sizes divided by others, or None if it is not known."""
        number, symbols = self._product(dims)
        divisor, others = self._product(divisors)
        if not number or not divisor or number % divisor or not others <= symbols:
            return None
        return self._symbol(number // divisor, symbols - others)

    def _product(self, dims: Iterable[Dim]) -> tuple[int, Counter[str]]:
        number, symbols = 1, Counter[str]()
        for dim in dims:
            if isinstance(dim, int):
                number *= dim
            else:
                factor, parts = self._factors.get(dim, (1, Counter([dim])))
                number *= factor
                symbols += parts
        return number, symbols

    def _symbol(self, number: int, symbols: Counter[str]) -> Dim:
        names = sorted(symbols.elements())
        if not number or not names:
            return number
        if number == 1 and len(names) == 1:
            return names[0]
        symbol = "*".join([*([str(number)] if number > 1 else []), *names])
        self._factors[symbol] = number, symbols
        return symbol
