"""`save_param_dict` and `load_param_dict`: the parameters of a model as bytes, in the format of TVM's files."""

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
    """Return parameters as bytes: the names, then the tensors.

    Raises:
        ValueError: if a tensor is of an element type that TVM does not have.

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
    """Return the parameters that `save_param_dict`, here or in TVM, made bytes of.

    Raises:
        ValueError: if the bytes are not of the format; the message says what is wrong.

    """
    try:
        return _load(bytes(param_bytes))
    except (struct.error, UnicodeDecodeError) as error:
        raise TensorFormatError(f"the parameters end too early, or are damaged: {error}") from None


def _load(raw: bytes) -> dict[str, NDArray]:
    magic, _, count = struct.unpack_from("<QQQ", raw)
    if magic != _MAGIC:
        raise TensorFormatError("these are no parameters: they do not begin with TVM's magic number")
    names: list[str] = []
    at = 24
    for _ in range(count):
        (size,) = _NUMBER.unpack_from(raw, at)
        names.append(raw[at + 8 : at + 8 + size].decode())
        at += 8 + size
    (tensors,) = _NUMBER.unpack_from(raw, at)
    if tensors != count:
        raise TensorFormatError(f"the parameters have {count} names, but {tensors} tensors")
    at += 8
    params: dict[str, NDArray] = {}
    for name in names:
        params[name], at = tensor_from_bytes(raw, at)
    return params
