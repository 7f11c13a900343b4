"""Parameters become bytes and back, in the format of TVM's files."""

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


def test_parameters_come_back_with_their_names_and_types() -> None:
    loaded = load_param_dict(save_param_dict(PARAMS))
    assert list(loaded) == list(PARAMS)
    for name, value in PARAMS.items():
        assert loaded[name].dtype == value.dtype
        np.testing.assert_array_equal(loaded[name], value)


def test_the_bytes_are_those_that_tvm_writes() -> None:
    tensor = struct.pack("<QQiiiBBHqqf", 0xDD5E40F096B4A13F, 0, 1, 0, 1, 2, 32, 1, 1, 4, 1.5)
    expected = struct.pack("<QQQQ1sQ", 0xF7E58D4F05049CB7, 0, 1, 1, b"x", 1) + tensor
    assert save_param_dict({"x": np.array([1.5], "float32")}) == expected


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "end too early, or are damaged"),
        (b"\0" * 64, "do not begin with TVM's magic number"),
        (save_param_dict(PARAMS)[:-1], "cannot have 7 bytes"),
        (save_param_dict(PARAMS)[:40], "end too early, or are damaged"),
    ],
)
def test_what_is_no_parameters_is_told(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_param_dict(raw)


def test_a_tensor_of_another_kind_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="TVM has no such element type"):
        save_param_dict({"x": np.array(["text"])})
