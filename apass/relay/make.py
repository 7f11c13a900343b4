"""`var` and `const`: how programs get their leaves."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from apass.core.diagnostics import Span
from apass.relay.ir.expr import Constant, Var
from apass.relay.ir.ndarray import NDArray
from apass.relay.ty import Dim, TensorType, Type

__all__ = ["const", "var"]


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Iterable[Dim] | None = None,
    dtype: str = "float32",
    span: Span | None = None,
) -> Var:
    """Return a new variable; of a tensor type if a shape is given, a scalar if the annotation is an element type.

    Raises:
        ValueError: if both an annotation and a shape are given.

    >>> var("x", shape=(1, 2)).checked_type
    TensorType(shape=(1, 2), dtype='float32')
    """
    if type_annotation is not None and shape is not None:
        raise ValueError(f"variable {name_hint} was given both a type and a shape; give one of them")
    if shape is not None:
        return Var(name_hint, TensorType(shape, dtype), span=span)
    return Var(
        name_hint, TensorType((), type_annotation) if isinstance(type_annotation, str) else type_annotation, span=span
    )


def const(value: npt.ArrayLike, dtype: str | TensorType | None = None, span: Span | None = None) -> Constant:
    """Return a constant; without a `dtype`, 64-bit numbers become 32-bit ones, as Python's have no size of their own.

    In the place of `dtype` a tensor type may stand, whose element type it is.

    Raises:
        ValueError: if the value is no number and no array of numbers.

    >>> const(1).data.dtype, const([1.0, 2.0], "float64").data.shape
    (dtype('int32'), (2,))
    """
    array = np.asarray(value)
    if array.dtype.kind in "OSUMm":
        raise ValueError(f"a constant is a number or an array of numbers, not {value!r}")
    narrowed = {"int64": "int32", "float64": "float32"}.get(str(array.dtype), str(array.dtype))
    wanted = np.dtype((dtype.dtype if isinstance(dtype, TensorType) else dtype) or narrowed)
    data = value if isinstance(value, NDArray) and array.dtype == wanted else array.astype(wanted)
    return Constant(data, span=span)
