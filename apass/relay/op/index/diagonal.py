"""matrix_set_diag: matrices with diagonals replaced."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Expr
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType
from apass.relay.op.define.dims import dims_differ, shape_text
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.define.relations import forward, one_dtype

__all__ = ["MatrixSetDiagAttrs", "diagonal_positions", "matrix_set_diag"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixSetDiagAttrs(Attrs):
    """The attributes of matrix_set_diag."""

    k1: int = 0
    """The lowest diagonal that is set; a negative number is below the main diagonal."""
    k2: int = 0
    """The highest diagonal that is set."""
    super_diag_right_align: bool = True
    """Whether the values of a short diagonal above the main one are right-aligned in their row."""
    sub_diag_right_align: bool = False
    """Whether the values of a short diagonal below the main one are right-aligned in their row."""


def _length(rows: int, columns: int, k: int) -> int:
    """Return the number of elements of diagonal `k`."""
    return min(rows + min(k, 0), columns - max(k, 0))


def _relate(data: TensorType, diagonal: TensorType, attrs: MatrixSetDiagAttrs) -> TensorType:
    one_dtype(data, diagonal)
    if len(data.shape) < 2 or attrs.k1 > attrs.k2:
        raise ValueError(f"expected matrices and k1 <= k2, got {data}, k1={attrs.k1} and k2={attrs.k2}")
    *batch, rows, columns = data.shape
    band = [] if attrs.k1 == attrs.k2 else [attrs.k2 - attrs.k1 + 1]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return data
    # The diagonal nearest to the main one is the longest.
    longest = _length(rows, columns, min(max(attrs.k1, 0), attrs.k2))
    if min(_length(rows, columns, k) for k in (attrs.k1, attrs.k2)) < 1:
        raise ValueError(f"{data} has no diagonal {attrs.k1} or {attrs.k2}")
    expected = (*batch, *band, longest)
    if len(expected) != len(diagonal.shape) or any(map(dims_differ, expected, diagonal.shape)):
        raise ValueError(f"the diagonals must have the shape {shape_text(expected)}, got {diagonal}")
    return data


def diagonal_positions(
    attrs: MatrixSetDiagAttrs, rows: int, columns: int, longest: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Iterate over the positions of elements that are set, and of their values.

    Positions are a row and a column. The values are in rows of `longest` elements, one for each diagonal.
    """
    for k in range(attrs.k1, attrs.k2 + 1):
        length = _length(rows, columns, k)
        right = attrs.super_diag_right_align if k >= 0 else attrs.sub_diag_right_align
        start = longest - length if right else 0
        row, column = max(-k, 0), max(k, 0)
        for step in range(length):
            yield (row + step, column + step), (attrs.k2 - k, start + step)


def _compute(attrs: MatrixSetDiagAttrs, data: Array, diagonal: Array) -> Array:
    result = data.copy()
    rows, columns = data.shape[-2:]
    values = diagonal[..., np.newaxis, :] if attrs.k1 == attrs.k2 else diagonal
    for target, source in diagonal_positions(attrs, rows, columns, diagonal.shape[-1]):
        result[(..., *target)] = values[(..., *source)]
    return result


_MATRIX_SET_DIAG = register_op(
    "matrix_set_diag",
    arguments=("data", "diagonal"),
    attrs_type=MatrixSetDiagAttrs,
    relation=forward("matrix_set_diag", ("data", "diagonal"), _relate),
    compute=_compute,
    pattern=OpPattern.INJECTIVE,
    level=10,
    description="Matrices with one or several diagonals replaced.",
)


def matrix_set_diag(data: Expr, diagonal: Expr, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT") -> Call:
    """Return matrices with the diagonals from `k[0]` to `k[1]`, or `k`, replaced.

    The rows of `diagonal` hold the values, the highest diagonal first. `align` positions the values of short diagonals
    in their row, RIGHT or LEFT: the first word is for diagonals above the main one, the second for those below.
    """
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])
    attrs = MatrixSetDiagAttrs(
        k1=low,
        k2=high,
        super_diag_right_align=align.startswith("RIGHT"),
        sub_diag_right_align=align.endswith("RIGHT"),
    )
    return Call(_MATRIX_SET_DIAG, (data, diagonal), attrs)
