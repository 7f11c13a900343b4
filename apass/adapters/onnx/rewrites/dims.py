"""Sizes of dimensions, and the facts that rules for them read."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import onnx_ir as ir

from apass.adapters.onnx.rewrites.kernels import Array

__all__ = ["MAX_ELEMENTS", "Dim", "Known", "Shape", "attributes", "broadcast", "missing_dim", "product_of"]

Dim: TypeAlias = int | str
"""A size, or the symbol of an unknown one. Dimensions with equal symbols have equal sizes."""

Shape: TypeAlias = tuple[Dim, ...]

MAX_ELEMENTS: Final = 64
"""Maximum number of elements of a tensor whose elements are tracked one by one."""


class Known(Protocol):
    """The facts of the operands of a node."""

    version: int

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


def attributes(node: ir.Node) -> dict[str, Any]:
    """Return the values of the attributes of a node."""
    return {name: attr.value for name, attr in node.attributes.items()}


def broadcast(shapes: Iterable[Shape], fresh: Callable[[], Dim]) -> Shape:
    """Return the shape to which operands are broadcast; `fresh` creates a symbol."""
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
            result.append(dims.pop() if len(dims) == 1 else fresh())
    return tuple(result)


def missing_dim(before: Sequence[Dim], rest: Sequence[Dim], fresh: Callable[[], Dim]) -> Dim:
    """Return the size missing in `rest` for the number of elements of `before`."""
    left = list(before)
    for dim in rest:
        if isinstance(dim, str):
            if dim not in left:
                return fresh()
            left.remove(dim)
    product = math.prod(dim for dim in rest if isinstance(dim, int))
    symbols = [dim for dim in left if isinstance(dim, str)]
    sizes = math.prod(dim for dim in left if isinstance(dim, int))
    if not product or not sizes or sizes % product:
        return fresh()
    if not symbols:
        return sizes // product
    return symbols[0] if len(symbols) == 1 and sizes == product else fresh()


def product_of(dims: Sequence[Dim], fresh: Callable[[], Dim]) -> Dim:
    """Return the product of sizes."""
    if any(dim == 0 for dim in dims):
        return 0
    symbols = [dim for dim in dims if isinstance(dim, str)]
    product = math.prod(dim for dim in dims if isinstance(dim, int))
    if symbols:
        return symbols[0] if len(symbols) == 1 and product == 1 else fresh()
    return product
