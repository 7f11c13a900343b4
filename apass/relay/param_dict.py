"""Model parameters as bytes, in TVM's file format.

The layout is: magic number, reserved number, number of names, names, number of tensors, tensors. Numbers are 64-bit
little-endian; a name is preceded by its length.
"""

import struct
from collections.abc import Mapping
from typing import Final

import numpy.typing as npt

from apass.relay.ir.ndarray import NDArray
from apass.relay.text.tensors import TensorFormatError, tensor_from_bytes, tensor_to_bytes

__all__ = ["load_param_dict", "save_param_dict"]

_MAGIC: Final = 0xF7E58D4F05049CB7
_NUMBER: Final = struct.Struct("<Q")


def save_param_dict(params: Mapping[str, npt.ArrayLike]) -> bytes:
    """Return parameters as bytes.

    Raises:
        ValueError: if the element type of a tensor does not exist in TVM.

    >>> import numpy as np
    >>> load_param_dict(save_param_dict({"weight": np.ones((2,), "float32")}))
    {'weight': NDArray([1., 1.], dtype=float32)}
    """
    names = [name.encode() for name in params]
    parts = [_NUMBER.pack(_MAGIC), _NUMBER.pack(0), _NUMBER.pack(len(names))]
    for name in names:
        parts += [_NUMBER.pack(len(name)), name]
    parts.append(_NUMBER.pack(len(names)))
    parts += [tensor_to_bytes(NDArray.of(value)) for value in params.values()]
    return b"".join(parts)


def load_param_dict(param_bytes: bytes) -> dict[str, NDArray]:
    """Return the parameters in bytes written by `save_param_dict`, here or in TVM.

    Raises:
        ValueError: if the bytes do not have this format. The message states the error.

    """
    try:
        return _load(bytes(param_bytes))
    except (struct.error, UnicodeDecodeError) as error:
        raise TensorFormatError(f"parameters are truncated or corrupt: {error}") from None


def _load(raw: bytes) -> dict[str, NDArray]:
    magic, _, count = struct.unpack_from("<QQQ", raw)
    if magic != _MAGIC:
        raise TensorFormatError(f"parameters must start with TVM's magic number {_MAGIC:#x}, got {magic:#x}")
    names: list[str] = []
    offset = 24  # after the three numbers of the header
    for _ in range(count):
        (size,) = _NUMBER.unpack_from(raw, offset)
        names.append(raw[offset + 8 : offset + 8 + size].decode())
        offset += 8 + size
    (tensors,) = _NUMBER.unpack_from(raw, offset)
    if tensors != count:
        raise TensorFormatError(f"number of tensors must equal number of names {count}, got {tensors}")
    offset += 8
    params: dict[str, NDArray] = {}
    for name in names:
        params[name], offset = tensor_from_bytes(raw, offset)
    return params
