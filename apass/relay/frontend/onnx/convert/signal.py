"""Fourier transforms, as products with constant matrices."""

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from apass.relay import op
from apass.relay.frontend.onnx.convert.arithmetic import as_dtype
from apass.relay.frontend.onnx.convert.indexing import sliced
from apass.relay.frontend.onnx.convert.matmul import along_axis
from apass.relay.frontend.onnx.node import Node, Table
from apass.relay.frontend.onnx.protos import dtype_of
from apass.relay.ir.expr import Constant, Expr
from apass.relay.op import nn

__all__ = ["TABLE"]

Floats: TypeAlias = npt.NDArray[np.float64]


def dft(node: Node) -> Expr:
    """Return the discrete Fourier transform along an axis.

    The last axis holds the real and imaginary parts.
    """
    data = node[0]
    axes = node.ints(2) if node.version >= 20 else (node.integer("axis", 1),)
    axis = node.normal_axis((axes or (-2,))[0], node.rank(data))
    dim = node.static_dim(data, axis)
    is_inverse, is_onesided = bool(node.integer("inverse", 0)), bool(node.integer("onesided", 0))
    default = 2 * (dim - 1) if is_inverse and is_onesided else dim
    length = (node.ints(1) or (default,))[0]
    if not is_inverse:
        return transformed(node, data, axis, length, is_onesided=is_onesided)
    if not is_onesided:
        raise node.unsupported("an inverse transform requires onesided=1 (real signals)")
    return _real_signal(node, data, axis, length)


def transformed(node: Node, data: Expr, axis: int, length: int, *, is_onesided: bool) -> Expr:
    """Return the transform of a signal, truncated or zero-padded to a length."""
    real, imaginary = _parts(node, data, axis, length)
    cosines, sines = _waves(length // 2 + 1 if is_onesided else length, length)
    out_real, out_imaginary = (along_axis(node, real, wave, axis) for wave in (cosines, -sines))
    if imaginary is not None:
        out_real = op.add(out_real, along_axis(node, imaginary, sines, axis))
        out_imaginary = op.add(out_imaginary, along_axis(node, imaginary, cosines, axis))
    return as_dtype(node, op.stack([out_real, out_imaginary], axis=-1), node.dtype(data))


def _real_signal(node: Node, data: Expr, axis: int, length: int) -> Expr:
    """Return the real signal of a one-sided spectrum."""
    count = length // 2 + 1
    real, imaginary = _parts(node, data, axis, count)
    # The other half mirrors this one: every frequency counts twice, except the first and, for an even length, the last.
    weights = np.full(count, 2.0)
    weights[0] = 1.0
    if length % 2 == 0:
        weights[-1] = 1.0
    cosines, sines = _waves(length, length)
    signal = along_axis(node, real, cosines[:, :count] * weights / length, axis)
    if imaginary is not None:
        signal = op.subtract(signal, along_axis(node, imaginary, sines[:, :count] * weights / length, axis))
    return as_dtype(node, op.expand_dims(signal, axis=-1), node.dtype(data))


def _waves(count: int, length: int) -> tuple[Floats, Floats]:
    """Return cosines and sines, one row for each frequency."""
    # Reducing the product of indices modulo the length keeps the angles small and exact.
    angles = 2 * np.pi * (np.outer(np.arange(count), np.arange(length)) % length) / length
    return np.cos(angles), np.sin(angles)


def _parts(node: Node, data: Expr, axis: int, length: int) -> tuple[Expr, Expr | None]:
    """Return the real and imaginary parts of a signal, in 64 bits.

    The signal has the given length along an axis. The imaginary part is None for real signals.
    """
    wide = as_dtype(node, data, "float64")
    last = node.rank(data) - 1
    cut = sliced(node, wide, [0], [length], [axis], None)
    missing = length - node.static_dim(cut, axis)
    if missing:
        cut = nn.pad(cut, [(0, missing if other == axis else 0) for other in range(last + 1)])
    parts = [op.take(cut, Constant(np.asarray(index)), axis=last) for index in range(node.static_dim(data, last))]
    return parts[0], parts[1] if len(parts) > 1 else None


def stft(node: Node) -> Expr:
    """Return the transforms of windows that slide over a signal."""
    signal, window = node[0], node.get(2)
    step = (node.ints(1) or (1,))[0]
    size = node.static_dim(signal, 1) if window is None else node.static_dim(window, 0)
    size = (node.ints(3) or (size,))[0]
    count = 1 + (node.static_dim(signal, 1) - size) // step
    indices = np.add.outer(np.arange(count) * step, np.arange(size))
    frames = op.take(signal, Constant(indices), axis=1)
    if window is not None:
        frames = op.multiply(frames, op.expand_dims(window, axis=1))
    return transformed(node, frames, 2, size, is_onesided=bool(node.integer("onesided", 1)))


def mel_weights(node: Node) -> Expr:
    """Return a matrix that sums frequencies to bands of equal width on the mel scale."""
    bands, length, rate = (int(node.scalar(index, 0)) for index in range(3))
    low, high = (2595 * np.log10(1 + node.scalar(index, 0) / 700) for index in (3, 4))
    mels = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(float)
    frequencies = np.arange(length // 2 + 1)[:, None].astype(float)
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    # A triangle without a left side has the value 1 at its top, like the others.
    rising = np.where(frequencies == middle, 1.0, (frequencies - left) / np.maximum(middle - left, 1))
    falling = (right - frequencies) / np.maximum(right - middle, 1)
    is_left, is_right = (frequencies >= left) & (frequencies <= middle), (frequencies >= middle) & (frequencies < right)
    weights = np.where(is_right, falling, np.where(is_left, rising, 0.0))
    return Constant(weights.astype(np.dtype(dtype_of(node.integer("output_datatype", 1)))))


TABLE: Final[Table] = {
    ("", "DFT", 17): dft,
    ("", "MelWeightMatrix", 17): mel_weights,
    ("", "STFT", 17): stft,
}
"""The converters of this module."""
