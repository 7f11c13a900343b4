"""Parameters are saved to bytes and loaded, in the format of TVM's files."""

import struct

import numpy as np
import pytest

from apass.relay.ir.ndarray import Array
from apass.relay.param_dict import load_param_dict, save_param_dict

PARAMS: dict[str, Array] = {
    "weight": np.arange(6, dtype="float32").reshape(2, 3),
    "mask": np.array([True, False]),
    "n": np.array(7),
}


def test_loaded_parameters_keep_names_and_types() -> None:
    loaded = load_param_dict(save_param_dict(PARAMS))
    assert list(loaded) == list(PARAMS)
    for name, value in PARAMS.items():
        assert loaded[name].dtype == value.dtype
        np.testing.assert_array_equal(loaded[name], value)


def test_saved_bytes_match_tvm() -> None:
    tensor = struct.pack("<QQiiiBBHqqf", 0xDD5E40F096B4A13F, 0, 1, 0, 1, 2, 32, 1, 1, 4, 1.5)
    expected = struct.pack("<QQQQ1sQ", 0xF7E58D4F05049CB7, 0, 1, 1, b"x", 1) + tensor
    assert save_param_dict({"x": np.array([1.5], "float32")}) == expected


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "are truncated or corrupt"),
        (b"\0" * 64, "must start with TVM's magic number 0xf7e58d4f05049cb7, got 0x0"),
        (save_param_dict(PARAMS)[:-1], "cannot have 7 bytes"),
        (save_param_dict(PARAMS)[:40], "are truncated or corrupt"),
    ],
)
def test_load_rejects_invalid_bytes(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_param_dict(raw)


def test_unsupported_element_type_raises_error() -> None:
    with pytest.raises(ValueError, match="TVM has no such element type"):
        save_param_dict({"x": np.array(["text"])})
