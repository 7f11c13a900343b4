"""Marks that compute nothing."""

import pytest

from apass.relay import op
from apass.relay.expr import Call
from tests.relay.op.values import lists, numbers, tensor


def test_a_mark_changes_no_value() -> None:
    data = numbers([1, 2])
    marked = [op.annotation.stop_fusion(data), op.annotation.on_device(data, "cpu"), op.device_copy(data, "cpu", 2)]
    assert [lists(one) for one in marked] == [[1, 2]] * 3


def test_devices_go_by_their_numbers() -> None:
    made = op.annotation.on_device(tensor(2), "cuda", is_fixed=True)
    assert isinstance(made, Call)
    assert dict(made.attrs.items() if made.attrs else ()) == {"device_type": 2, "is_fixed": True}
    with pytest.raises(ValueError, match="there is no device 'cdua'; did you mean 'cuda'"):
        op.device_copy(tensor(2), "cpu", "cdua")
