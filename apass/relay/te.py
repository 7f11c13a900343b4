"""Symbolic dimensions of tensors: the names of TVM's `te`."""

from apass.core.diagnostics import Span
from apass.relay.ir.ty import ShapeVar, SizeVar

__all__ = ["size_var", "var"]


def var(name: str = "tindex", dtype: str = "int32", span: Span | None = None) -> ShapeVar:
    """Return a new symbolic dimension.

    Parameters:
        name: the printed name.
        dtype: the element type of the dimension as a number.
        span: ignored; TVM has it.

    >>> from apass.relay.ir.ty import TensorType
    >>> str(TensorType((var("n"), 3)))
    'Tensor[(n, 3), float32]'
    """
    return ShapeVar(name, dtype)


def size_var(name: str = "size", dtype: str = "int32", span: Span | None = None) -> SizeVar:
    """Return a new symbolic dimension that is not negative; see `var`."""
    return SizeVar(name, dtype)
