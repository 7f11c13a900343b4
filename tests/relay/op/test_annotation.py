"""Annotations that compute nothing."""

import pytest

from apass.relay import op
from apass.relay.expr import Call
from tests.relay.op.values import lists, numbers, tensor


def test_annotations_keep_the_value() -> None:
    data = numbers([1, 2])
    annotated = [op.annotation.stop_fusion(data), op.annotation.on_device(data, "cpu"), op.device_copy(data, "cpu", 2)]
    assert [lists(call) for call in annotated] == [[1, 2]] * 3


def test_device_names_become_numbers() -> None:
    call = op.annotation.on_device(tensor(2), "cuda", is_fixed=True)
    assert isinstance(call, Call)
    assert dict(call.attrs.items() if call.attrs else ()) == {"device_type": 2, "is_fixed": True}
    with pytest.raises(ValueError, match="unknown device 'cdua'; did you mean 'cuda'"):
        op.device_copy(tensor(2), "cpu", "cdua")
