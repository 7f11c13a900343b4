"""TVM's tensor format: header, shape and data, in base64 when part of a text."""

import struct
from base64 import b64decode, b64encode
from math import prod
from typing import Final

import numpy as np

from apass.errors import ApassError
from apass.relay.ir.ndarray import NDArray

__all__ = ["TensorFormatError", "tensor_from_base64", "tensor_from_bytes", "tensor_to_base64", "tensor_to_bytes"]

_MAGIC: Final = 0xDD5E40F096B4A13F
_HEADER: Final = struct.Struct("<QQiiiBBH")  # magic, reserved, device type and number, rank, code, bits, lanes
_CPU: Final = 1
_MOST_DIMENSIONS: Final = 32  # of an array in numpy 1
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 1}
_PREFIXES: Final = {0: "int", 1: "uint", 2: "float"}


class TensorFormatError(ApassError, ValueError):
    """The bytes are not a tensor in TVM's format, or a tensor does not fit the format."""


def tensor_to_base64(data: NDArray) -> str:
    """Return `tensor_to_bytes` as text."""
    return b64encode(tensor_to_bytes(data)).decode()


def tensor_from_base64(text: str) -> NDArray:
    """Return the tensor in a base64 text.

    Raises:
        TensorFormatError: if the text is not one tensor.

    """
    try:
        raw = b64decode(text, validate=True)
    except (TypeError, ValueError) as error:
        raise TensorFormatError(f"invalid tensor: expected base64: {error}") from None
    tensor, end = tensor_from_bytes(raw)
    if end != len(raw):
        raise TensorFormatError(
            f"invalid tensor: {len(raw) - end} extra bytes after {tensor.dtype}{list(tensor.shape)}"
        )
    return tensor


def tensor_to_bytes(data: NDArray) -> bytes:
    """Return a tensor of numbers or bools as bytes.

    Raises:
        TensorFormatError: if the element type does not exist in TVM.

    """
    dtype = data.dtype
    if dtype.kind not in _CODES:
        raise TensorFormatError(f"cannot write a tensor of {dtype}: TVM has no such element type")
    bits = 1 if dtype.kind == "b" else dtype.itemsize * 8
    header = _HEADER.pack(_MAGIC, 0, _CPU, 0, data.ndim, _CODES[dtype.kind], bits, 1)
    shape = struct.pack(f"<{data.ndim}q", *data.shape)
    body = np.ascontiguousarray(data, dtype.newbyteorder("<")).tobytes()
    return header + shape + struct.pack("<q", len(body)) + body


def tensor_from_bytes(raw: bytes, start: int = 0) -> tuple[NDArray, int]:
    """Return the tensor at offset `start`, and its end offset.

    Raises:
        TensorFormatError: if there is no valid tensor.

    """
    try:
        magic, _, _, _, rank, code, bits, lanes = _HEADER.unpack_from(raw, start)
        shape = struct.unpack_from(f"<{max(rank, 0)}q", raw, start + _HEADER.size)
        (size,) = struct.unpack_from("<q", raw, start + _HEADER.size + 8 * len(shape))
    except struct.error as error:
        raise TensorFormatError(f"invalid tensor: {error}") from None
    if magic != _MAGIC:
        raise TensorFormatError(f"invalid tensor: expected magic number {_MAGIC:#x}, got {magic:#x}")
    if not 0 <= rank <= _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise TensorFormatError(f"invalid tensor: it cannot have {rank} dimensions of {list(shape[:8])}")
    dtype = _dtype(code, bits, lanes)
    begin = start + _HEADER.size + 8 * len(shape) + 8
    body = raw[begin : begin + max(size, 0)]
    if len(body) != size or size != dtype.itemsize * prod(shape):
        raise TensorFormatError(f"invalid tensor: {dtype}{list(shape)} cannot have {len(body)} bytes")
    try:
        return NDArray.of(np.frombuffer(body, dtype).reshape(shape)), begin + size
    except ValueError as error:  # such as an empty tensor whose other dimensions are too large
        raise TensorFormatError(f"invalid tensor: {error}") from None


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[np.generic]:
    name = "bool" if (code, bits) == (1, 1) else f"{_PREFIXES.get(code, 'unknown')}{bits}"
    try:
        if lanes == 1:
            return np.dtype(name)
    except TypeError:
        pass
    raise TensorFormatError(f"invalid tensor: numpy has no element type {name} with {lanes} lanes")
