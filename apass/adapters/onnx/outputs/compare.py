"""How the outputs of two evaluations differ: arrays, sequences, texts and sparse tensors, bit by bit or by how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, cast

import numpy as np
import onnx
from onnx.numpy_helper import to_array
from onnx.reference.op_run import SparseTensor

__all__ = ["Difference", "differences", "plain"]

SINGLE_BYTES = 4
"""The size of a float32."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How two values of one output differ."""

    where: str
    """The output, and the place in it if it is a sequence: `"y"`, `"y[2]"`."""
    amount: float
    """The biggest absolute difference; 0 if it is no more than a zero's sign, infinite if the kinds differ."""
    near: bool
    """Whether it is within tolerance."""
    text: str
    """The same for a person."""


def differences(
    names: Sequence[str],
    left: Sequence[Any],
    right: Sequence[Any],
    rtol: float | None = None,
    atol: float = 1e-7,
) -> list[Difference]:
    """Return how `right` differs from `left`, output by output; nothing where they are the same bit by bit.

    NaN equals NaN. Integers and texts are within tolerance only if they are the same. Without `rtol`, it goes by type.
    """
    if len(left) != len(right):
        return [Difference("outputs", inf, False, f"there are {len(right)} outputs, not {len(left)}")]
    found: list[Difference] = []
    for name, one, other in zip(names, left, right, strict=False):
        found += _compare(name, one, other, rtol, atol)
    return found


def plain(value: Any) -> Any:
    """Return a value as what can be compared and sent to another process: an array, a list of such, a text or None."""
    if isinstance(value, onnx.TensorProto):
        return to_array(value)
    if isinstance(value, SparseTensor):
        sparse: Any = value
        return [np.asarray(sparse.values), np.asarray(sparse.indices), np.asarray(sparse.shape)]
    if isinstance(value, list | tuple):
        return [plain(one) for one in cast("Sequence[Any]", value)]
    return np.asarray(value) if isinstance(value, np.generic | int | float | complex) else value


def _compare(where: str, left: Any, right: Any, rtol: float | None, atol: float) -> list[Difference]:
    if _all_are(list, left, right):
        if len(left) == len(right):
            return differences([f"{where}[{place}]" for place in range(len(left))], left, right, rtol, atol)
    elif _all_are(np.ndarray, left, right):
        if left.shape == right.shape and (left.dtype == right.dtype or _are_texts(left, right)):
            return _compare_arrays(where, left, right, rtol, atol)
    elif type(left) is type(right) and left == right:
        return []
    return [Difference(where, inf, False, f"output {where!r} is {_kind(right)}, not {_kind(left)}")]


def _compare_arrays(where: str, left: Any, right: Any, rtol: float | None, atol: float) -> list[Difference]:
    if _are_texts(left, right):
        same = left.astype(object).tolist() == right.astype(object).tolist()
        return [] if same else [Difference(where, inf, False, f"output {where!r} has other texts")]
    if left.tobytes() == right.tobytes():
        return []
    wide = np.complex128 if left.dtype.kind == "c" else np.float64
    one, other = left.astype(wide), right.astype(wide)
    with np.errstate(all="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other))
        gaps = np.where(same, 0.0, np.nan_to_num(np.abs(one - other), nan=inf, posinf=inf))
        near = same | np.isclose(other, one, rtol=_rtol(left.dtype) if rtol is None else rtol, atol=atol)
    exact = left.dtype.kind in "biu" or left.dtype.name.startswith(("int", "uint"))
    amount = float(gaps.max(initial=0.0))
    text = f"output {where!r} differs by up to {amount:g} in {np.count_nonzero(gaps)} of {gaps.size} elements"
    return [Difference(where, amount, bool((same if exact else near).all()), text)]


def _are_texts(*arrays: Any) -> bool:
    """Tell whether the arrays hold texts, for which numpy has three types."""
    return all(array.dtype.kind in "OUST" for array in arrays)


def _all_are(kind: type[Any], *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _rtol(dtype: Any) -> float:
    """Return what rounding may do where a sum is taken in another order."""
    size = dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize
    if size < SINGLE_BYTES:
        return 1e-2
    return 1e-5 if size == SINGLE_BYTES else 1e-9


def _kind(value: Any) -> str:
    if _all_are(np.ndarray, value):
        return f"an array {value.dtype}{list(value.shape)}"
    if _all_are(list, value):
        return f"a sequence of {len(value)}"
    return "nothing" if value is None else f"the {type(value).__name__} {value!r}"
