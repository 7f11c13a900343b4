"""Padding: nn.pad and nn.mirror_pad."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from apass.relay.errors import TypeInferenceError
from apass.relay.ir.attrs import Attrs
from apass.relay.ir.expr import Call, Constant, Expr, Op, const
from apass.relay.ir.ndarray import Array
from apass.relay.ir.ty import TensorType, Type
from apass.relay.op.define.registry import OpPattern, register_op
from apass.relay.op.nn.relations import tensors

__all__ = ["MirrorPadAttrs", "PadAttrs", "mirror_pad", "pad", "pairs"]

_PAD_MODES: Final = ("constant", "edge", "reflect")
_MIRROR_MODES: Final = ("SYMMETRIC", "REFLECT")


@dataclass(frozen=True, slots=True, kw_only=True)
class PadAttrs(Attrs):
    """The attributes of nn.pad."""

    pad_width: tuple[tuple[int, ...], ...]
    """The number of elements added before and after each dimension; a negative number removes elements."""
    pad_mode: str = "constant"
    """The values that are added: a constant, copies of the edge, or the reflection without the edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorPadAttrs(Attrs):
    """The attributes of nn.mirror_pad."""

    mode: str = "SYMMETRIC"
    """SYMMETRIC to repeat the edge, REFLECT to leave it out."""
    pad_width: tuple[tuple[int, ...], ...]
    """The number of elements added before and after each dimension."""


def _pad_relation(types: Sequence[Type], attrs: PadAttrs) -> Sequence[Type | None] | None:
    data, value, _ = tensors("nn.pad", types)
    if data is None:
        return None
    if value is not None and value.shape:
        raise TypeInferenceError(f"nn.pad: pad_value must be a scalar, got {value}")
    return [None, None, _padded("nn.pad", data, attrs.pad_width, attrs.pad_mode, _PAD_MODES)]


def _mirror_relation(types: Sequence[Type], attrs: MirrorPadAttrs) -> Sequence[Type | None] | None:
    data, _ = tensors("nn.mirror_pad", types)
    if any(min(pair, default=0) < 0 for pair in attrs.pad_width):
        width = attrs.pad_width
        raise TypeInferenceError(
            f"nn.mirror_pad: pad_width must not be negative, got {width}; use strided_slice to remove elements"
        )
    return None if data is None else [None, _padded("nn.mirror_pad", data, attrs.pad_width, attrs.mode, _MIRROR_MODES)]


def _padded(op: str, data: TensorType, width: Sequence[Sequence[int]], mode: str, modes: Sequence[str]) -> TensorType:
    if mode not in modes:
        raise TypeInferenceError(f"{op}: mode must be one of {list(modes)}, got {mode!r}")
    if len(width) != len(data.shape) or any(len(pair) != 2 for pair in width):
        raise TypeInferenceError(f"{op}: pad_width must be a pair for each dimension of {data}, got {width}")
    shape = [dim + sum(pair) for dim, pair in zip(data.shape, width, strict=True)]
    if any(isinstance(dim, int) and dim < 0 for dim in shape):
        raise TypeInferenceError(f"{op}: pad_width {width} removes more elements than {data} has")
    return TensorType(shape, data.dtype)


def pairs(widths: Iterable[tuple[int, ...]]) -> NDArray[np.int64]:
    """Return pad widths before and after each axis in the form that numpy requires.

    The result is an int64 array of shape (axes, 2).
    """
    return np.array([*widths], dtype=np.int64).reshape(-1, 2)


def _pad(attrs: PadAttrs, data: Array, value: Array) -> Array:
    added = np.maximum(pairs(attrs.pad_width), 0)
    if attrs.pad_mode == "constant":
        padded = np.pad(data, added, constant_values=value.astype(data.dtype).item())
    else:
        padded = np.pad(data, added, mode="edge" if attrs.pad_mode == "edge" else "reflect")
    rows = zip(padded.shape, attrs.pad_width, strict=True)
    return padded[tuple(slice(max(-before, 0), size - max(-after, 0)) for size, (before, after) in rows)]


def _mirror_pad(attrs: MirrorPadAttrs, data: Array) -> Array:
    return np.pad(data, pairs(attrs.pad_width), mode="symmetric" if attrs.mode == "SYMMETRIC" else "reflect")


_PAD = register_op(
    "nn.pad",
    arguments=("data", "pad_value"),
    attrs_type=PadAttrs,
    relation=_pad_relation,
    compute=_pad,
    pattern=OpPattern.INJECTIVE,
    level=2,
    description="The data with elements added before and after each dimension.",
)

_MIRROR_PAD = register_op(
    "nn.mirror_pad",
    arguments=("data",),
    attrs_type=MirrorPadAttrs,
    relation=_mirror_relation,
    compute=_mirror_pad,
    pattern=OpPattern.INJECTIVE,
    level=2,
    description="The data with its mirror image added before and after each dimension.",
)


def pad(
    data: Expr,
    pad_width: Iterable[Iterable[int]] | Expr,
    pad_value: Expr | float = 0,
    pad_mode: str = "constant",
) -> Call:
    """Return the data with elements added: `pad_width` has a pair for each dimension.

    Parameters:
        data: the tensor.
        pad_width: the numbers of elements added before and after each dimension. A negative number removes elements.
            If it is an expression that is not a constant, the result is a call of dyn.nn.pad.
        pad_value: the value of the elements in mode constant, cast to the element type of the data.
        pad_mode: constant, edge or reflect.

    """
    value = pad_value if isinstance(pad_value, Expr) else const(pad_value)
    if isinstance(pad_width, Expr) and not isinstance(pad_width, Constant):
        return Call(Op.get("dyn.nn.pad"), (data, pad_width, value), PadAttrs(pad_width=(), pad_mode=pad_mode))
    return Call(_PAD, (data, value), PadAttrs(pad_width=_pairs(pad_width), pad_mode=pad_mode))


def _pairs(widths: Iterable[Iterable[int]] | Expr) -> tuple[tuple[int, ...], ...]:
    if isinstance(widths, Constant):
        return tuple(tuple(int(width) for width in pair) for pair in widths.data.numpy().tolist())
    if isinstance(widths, Expr):
        raise TypeError(f"pad_width must be numbers or a constant, got {widths!r}; fold it to a constant first")
    return tuple(tuple(int(width) for width in pair) for pair in widths)


def mirror_pad(data: Expr, pad_width: Iterable[Iterable[int]], mode: str = "SYMMETRIC") -> Call:
    """Return the data with its mirror image added before and after each dimension.

    Mode SYMMETRIC repeats the edge. Mode REFLECT does not.
    """
    return Call(_MIRROR_PAD, (data,), MirrorPadAttrs(mode=mode, pad_width=_pairs(pad_width)))
