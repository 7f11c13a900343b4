"""Symbolic evaluation of vectors that are computed from the shapes of tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.frontend.onnx.facts import Facts
from apass.relay.ir.expr import Call, Expr, Op, Tuple
from apass.relay.ir.post_order import post_order
from apass.relay.ir.ty import TensorType

__all__ = ["DimOf", "dims_of"]


@dataclass(frozen=True, slots=True)
class DimOf:
    """A dimension of a tensor that is known only at run time."""

    data: Expr
    """The tensor."""
    axis: int
    """The index of the dimension."""


Elements: TypeAlias = "npt.NDArray[Any] | tuple[Elements, ...] | None"
"""An object array of `int` and `DimOf`, a tuple of such arrays, or None if unknown."""

MOVES: Final = frozenset(("concatenate", "expand_dims", "reshape", "squeeze", "stack", "strided_slice", "take"))
"""Operators that rearrange elements without changing them.

Their kernels work on arrays of any element type, so they can be run on `Elements`.
"""


def dims_of(facts: Facts, expr: Expr) -> Sequence[int | DimOf] | None:
    """Return the elements of a vector as numbers and dimensions of tensors.

    A number may be the result of arithmetic on known numbers. The result is None if an element is neither.
    """
    elements: dict[Expr, Elements] = {}
    for node in post_order(expr, lambda below: not _is_moved(below)):
        elements[node] = None if isinstance(node, Op) else _elements(facts, node, elements)
    result = elements[expr]
    return list(result.reshape(-1)) if isinstance(result, np.ndarray) else None


def _is_moved(expr: Expr) -> bool:
    return isinstance(expr, Tuple) or _calls(expr, MOVES | {"cast"})


def _calls(expr: Expr, names: frozenset[str]) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def _elements(facts: Facts, expr: Expr, inner: dict[Expr, Elements]) -> Elements:
    value = facts.value_of(expr)
    if isinstance(value, np.ndarray):
        return _object_array(value.reshape(-1).tolist()).reshape(value.shape) if value.dtype.kind in "iu" else None
    if isinstance(expr, Tuple):
        fields = [inner[field] for field in expr.fields]
        return None if any(field is None for field in fields) else tuple(fields)
    if not isinstance(expr, Call):
        return None
    if _calls(expr, frozenset(("shape_of",))):
        return _shape_elements(facts, expr.args[0])
    if _calls(expr, frozenset(("cast",))):
        return inner[expr.args[0]]
    return _moved(facts, expr, inner[expr.args[0]]) if _calls(expr, MOVES) else None


def _object_array(values: Sequence[object]) -> npt.NDArray[Any]:
    # Assigning to an empty array keeps the elements as objects; `np.array` would try to convert them.
    result = np.empty(len(values), object)
    result[:] = values
    return result


def _shape_elements(facts: Facts, data: Expr) -> Elements:
    ty = facts.type_of(data)
    assert isinstance(ty, TensorType)
    return _object_array([dim if isinstance(dim, int) else DimOf(data, axis) for axis, dim in enumerate(ty.shape)])


def _moved(facts: Facts, call: Call, data: Elements) -> Elements:
    """Return the result of a call's kernel on `data`; other arguments must be known."""
    rest = [facts.value_of(arg) for arg in call.args[1:]]
    assert isinstance(call.op, Op)
    if data is None or call.op.compute is None or any(value is None for value in rest):
        return None
    result = call.op.compute(call.attrs, data, *rest)
    return result if isinstance(result, np.ndarray) else None
