"""Tensors as TVM writes them into its files: a header, the shape, the bytes; in base64 within text."""

import struct
from base64 import b64decode, b64encode
from typing import Final

import numpy as np

from apass.relay.ir.ndarray import NDArray

__all__ = ["TensorFormatError", "tensor_from_base64", "tensor_from_bytes", "tensor_to_base64", "tensor_to_bytes"]

_MAGIC: Final = 0xDD5E40F096B4A13F
_HEADER: Final = struct.Struct("<QQiiiBBH")  # magic, reserved, device type and number, rank, code, bits, lanes
_CPU: Final = 1
_CODES: Final = {"i": 0, "u": 1, "f": 2, "b": 1}
_PREFIXES: Final = {0: "int", 1: "uint", 2: "float"}


class TensorFormatError(ValueError):
    """The bytes are no tensor of TVM's."""


def tensor_to_base64(data: NDArray) -> str:
    """Return `tensor_to_bytes` as text."""
    return b64encode(tensor_to_bytes(data)).decode()


def tensor_from_base64(text: str) -> NDArray:
    """Return the tensor; TensorFormatError, saying what is wrong, if there is none, or something after it."""
    try:
        raw = b64decode(text, validate=True)
    except ValueError as error:
        raise TensorFormatError(f"the text holds no tensor: it is not base64: {error}") from None
    tensor, end = tensor_from_bytes(raw)
    if end != len(raw):
        raise TensorFormatError(
            f"there are {len(raw) - end} bytes after a tensor of {tensor.dtype}{list(tensor.shape)}"
        )
    return tensor


def tensor_to_bytes(data: NDArray) -> bytes:
    """Return a tensor of numbers or bools; TensorFormatError if its element type is not one of TVM's."""
    dtype = data.dtype
    if dtype.kind not in _CODES:
        raise TensorFormatError(f"a tensor of {dtype} cannot be written: TVM has no such element type")
    bits = 1 if dtype.kind == "b" else dtype.itemsize * 8
    header = _HEADER.pack(_MAGIC, 0, _CPU, 0, data.ndim, _CODES[dtype.kind], bits, 1)
    shape = struct.pack(f"<{data.ndim}q", *data.shape)
    body = np.ascontiguousarray(data, dtype.newbyteorder("<")).tobytes()
    return header + shape + struct.pack("<q", len(body)) + body


def tensor_from_bytes(raw: bytes, start: int = 0) -> tuple[NDArray, int]:
    """Return the tensor that begins at `start`, and where it ends; TensorFormatError if there is none."""
    try:
        magic, _, _, _, rank, code, bits, lanes = _HEADER.unpack_from(raw, start)
        shape = struct.unpack_from(f"<{max(rank, 0)}q", raw, start + _HEADER.size)
        (size,) = struct.unpack_from("<q", raw, start + _HEADER.size + 8 * len(shape))
    except struct.error as error:
        raise TensorFormatError(f"there is no tensor: {error}") from None
    if magic != _MAGIC:
        raise TensorFormatError("there is no tensor: it does not begin with TVM's magic number")
    dtype = _dtype(code, bits, lanes)
    begin = start + _HEADER.size + 8 * len(shape) + 8
    body = raw[begin : begin + max(size, 0)]
    if len(body) != size or size != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise TensorFormatError(f"a tensor of {dtype}{list(shape)} cannot have {len(body)} bytes")
    return NDArray.of(np.frombuffer(body, dtype).reshape(shape)), begin + size


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[np.generic]:
    name = "bool" if (code, bits) == (1, 1) else f"{_PREFIXES.get(code, 'unknown')}{bits}"
    try:
        if lanes == 1:
            return np.dtype(name)
    except TypeError:
        pass
    raise TensorFormatError(f"the tensor has an element type that numpy has not: {name} of {lanes} lanes")
