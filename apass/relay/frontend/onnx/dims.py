"""What is known of a vector of dimensions that is computed from the shapes of tensors, number by number."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay.expr import Call, Expr, Op, Tuple
from apass.relay.frontend.onnx.facts import Facts
from apass.relay.ir.post_order import post_order
from apass.relay.ty import TensorType

__all__ = ["DimOf", "dims_of"]


@dataclass(frozen=True, slots=True)
class DimOf:
    """A dimension of a tensor that is known at run time only."""

    data: Expr
    """The tensor."""
    axis: int
    """Which dimension."""


Places: TypeAlias = "npt.NDArray[Any] | tuple[Places, ...] | None"
"""An array of ints and `DimOf`s, a tuple of such, or nothing that is known."""

MOVES: Final = frozenset(("concatenate", "expand_dims", "reshape", "squeeze", "stack", "strided_slice", "take"))
"""Operators that put numbers together without changing them: their kernels take an array of anything."""


def dims_of(facts: Facts, expr: Expr) -> Sequence[int | DimOf] | None:
    """Return the elements of a vector, each a number or a dimension of a tensor; None if one is neither.

    A number may also be a result of arithmetic, as long as it is known now.
    """
    found: dict[Expr, Places] = {}
    for one in post_order(expr, lambda below: not _is_moved(below)):
        found[one] = None if isinstance(one, Op) else _places(facts, one, found)
    places = found[expr]
    return list(places.reshape(-1)) if isinstance(places, np.ndarray) else None


def _is_moved(expr: Expr) -> bool:
    return isinstance(expr, Tuple) or _calls(expr, MOVES | {"cast"})


def _calls(expr: Expr, names: frozenset[str]) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def _places(facts: Facts, expr: Expr, found: dict[Expr, Places]) -> Places:
    known = facts.value_of(expr)
    if isinstance(known, np.ndarray):
        return _anything(known.reshape(-1).tolist()).reshape(known.shape) if known.dtype.kind in "iu" else None
    if isinstance(expr, Tuple):
        fields = [found[one] for one in expr.fields]
        return None if any(one is None for one in fields) else tuple(fields)
    if not isinstance(expr, Call):
        return None
    if _calls(expr, frozenset(("shape_of",))):
        return _shape_places(facts, expr.args[0])
    if _calls(expr, frozenset(("cast",))):
        return found[expr.args[0]]
    return _moved(facts, expr, found[expr.args[0]]) if _calls(expr, MOVES) else None


def _anything(values: Sequence[object]) -> npt.NDArray[Any]:
    made = np.empty(len(values), object)
    made[:] = values
    return made


def _shape_places(facts: Facts, data: Expr) -> Places:
    ty = facts.type_of(data)
    assert isinstance(ty, TensorType)
    return _anything([dim if isinstance(dim, int) else DimOf(data, axis) for axis, dim in enumerate(ty.shape)])


def _moved(facts: Facts, call: Call, data: Places) -> Places:
    """Return what the kernel of a call makes of places, with indices that have to be known."""
    rest = [facts.value_of(one) for one in call.args[1:]]
    assert isinstance(call.op, Op)
    if data is None or call.op.compute is None or any(one is None for one in rest):
        return None
    made = call.op.compute(call.attrs, data, *rest)
    return made if isinstance(made, np.ndarray) else None
