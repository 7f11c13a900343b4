"""Element types: ONNX's names of them, and the types that operators are run with.

ONNX restricts the element types of each operator, and onnxruntime implements some of them only. An operator of another
type is run with a wider type, between two casts. All of these conversions are exact.
"""

from collections.abc import Mapping, Set
from typing import Final

import numpy as np
from onnx import TensorProto, helper

__all__ = ["elem_type", "type_text", "usable_dtype"]

_WIDER: Final[Mapping[str, tuple[str, ...]]] = {
    "bool": ("uint8", "int32", "int64", "float32"),
    "uint8": ("int32", "uint32", "int64", "float32"),
    "int8": ("int32", "int64", "float32"),
    "uint16": ("int32", "uint32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "uint32": ("int64", "uint64", "float64"),
    "int32": ("int64", "float64"),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
}
"""Wider types by element type, the preferred one first."""

_NARROW: Final[Mapping[str, tuple[str, ...]]] = {
    "int": ("int8", "int32", "int64", "float32"),
    "uint": ("uint8", "int32", "int64", "float32"),
    "float": ("float32",),
}
"""The same for types of less than 8 bits and for floats of 8 bits, by the start of the name."""

_SAME_BITS: Final = frozenset(("Add", "CumProd", "CumSum", "MatMul", "Mul", "ReduceProd", "ReduceSum", "Sub", "Where"))
"""Operators that have the same bits as a result for signed and for unsigned numbers."""

_FLOATS: Final = frozenset(("float16", "float32", "float64"))
_NUMBERS: Final = _FLOATS | {"int32", "int64"}
_MOVED: Final = _NUMBERS | {"bfloat16", "bool", "int8", "int16", "uint8", "uint16", "uint32", "uint64"}
_INTEGERS: Final = frozenset(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"))

_KERNELS: Final[Mapping[str, Set[str]]] = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "MatMul", "Pow", "CumSum", "Einsum"), _NUMBERS),
    **dict.fromkeys(("ReduceSum", "ReduceProd", "ReduceMean", "Neg"), _NUMBERS),
    **dict.fromkeys(("Less", "Greater", "LessOrEqual", "GreaterOrEqual"), _NUMBERS),
    **dict.fromkeys(("ReduceMax", "ReduceMin", "ArgMax", "ArgMin"), _NUMBERS | {"int8", "uint8"}),
    **dict.fromkeys(("Max", "Min", "Clip"), _NUMBERS | {"uint32", "uint64"}),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"), _INTEGERS),
    **dict.fromkeys(
        ("Concat", "Gather", "GatherElements", "GatherND", "ReverseSequence", "ScatterElements", "ScatterND"), _MOVED
    ),
    **dict.fromkeys(("Slice", "Split", "Reshape", "Squeeze", "Unsqueeze", "Transpose", "Flatten"), _MOVED),
    **dict.fromkeys(("Expand", "Tile"), _MOVED - {"bfloat16"}),
    **dict.fromkeys(
        ("Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Floor", "Ceil", "Reciprocal", "Softmax", "LogSoftmax"), _FLOATS
    ),
    **dict.fromkeys(("Erf", "Conv", "ConvTranspose", "AveragePool", "Relu"), _FLOATS),
    "Abs": _NUMBERS | {"int8", "int16", "uint8", "uint16", "uint32", "uint64"},
    "BitShift": frozenset(("uint8", "uint32", "uint64")),
    "CumProd": _NUMBERS,
    "DepthToSpace": frozenset(("float16", "float32", "float64", "uint8")),
    "Equal": _NUMBERS | {"bool"},
    "IsNaN": _FLOATS,
    "IsInf": frozenset(("float32", "float64")),
    "MaxPool": _FLOATS | {"int8", "uint8"},
    "Mod": _INTEGERS | _FLOATS,
    "NonZero": frozenset(("bool", "float32", "int32", "int64", "uint8")),
    "OneHot": frozenset(("float32", "int32", "int64")),
    "Pad": frozenset(("bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8", "uint32", "uint64")),
    "Range": frozenset(("float32", "float64", "int16", "int32", "int64")),
    "Resize": frozenset(("float16", "float32", "int8", "int32", "uint8")),
    "Round": _FLOATS,
    "Sign": _NUMBERS,
    "SpaceToDepth": frozenset(("float16", "float32", "float64", "uint8")),
    "TopK": frozenset(("float16", "float32", "float64", "int32", "int64")),
    "Unique": frozenset(("float32", "float64", "int64", "int8")),
    "Where": frozenset(("float16", "float32", "float64", "int32", "int64", "uint8")),
}
"""The element types that onnxruntime implements on a CPU; all types for an operator that is absent.

16-bit floats are included: onnxruntime itself runs them with 32 bits.
"""


def elem_type(dtype: str) -> int:
    """Return ONNX's number of an element type.

    Raises:
        ValueError: if ONNX does not have the type.

    """
    try:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    except (TypeError, KeyError, ValueError):
        raise ValueError(f"ONNX has no element type {dtype!r}; cast the tensor to another type") from None


def type_text(dtype: str) -> str:
    """Return the name of a tensor type in the definitions of operators.

    >>> type_text("float64")
    'tensor(double)'
    """
    name = TensorProto.DataType.Name(elem_type(dtype)).lower()
    return f"tensor({name})"


def usable_dtype(op_type: str, dtype: str, allowed: Set[str]) -> str | None:
    """Return the type that an operator is run with, or None if there is none.

    Parameters:
        op_type: the operator of ONNX.
        dtype: the element type of its operands.
        allowed: the tensor types that ONNX allows.

    """
    # A cast to a wider type before a cast would need a cast itself.
    candidates = [dtype] if op_type == "Cast" else [dtype, *_wider(dtype)]
    if dtype == "uint64" and op_type in _SAME_BITS:
        candidates.append("int64")
    legal = [candidate for candidate in candidates if type_text(candidate) in allowed]
    fast = _KERNELS.get(op_type)
    return next((candidate for candidate in legal if fast is None or candidate in fast), next(iter(legal), None))


def _wider(dtype: str) -> tuple[str, ...]:
    return _WIDER.get(dtype) or next((wider for start, wider in _NARROW.items() if _is_narrow(dtype, start)), ())


def _is_narrow(dtype: str, start: str) -> bool:
    # The names of types of NumPy and of ml_dtypes: int4, uint2, float8_e4m3fn, float4_e2m1fn.
    is_other = dtype in ("float32", "float64", "int64", "uint64")
    return dtype.startswith(start) and not is_other
