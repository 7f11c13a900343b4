"""Passes of onnx_ir on what is no model of onnx_ir: told by name, with the way to one."""

import re
from typing import Any

import pytest
from onnx import ModelProto

from apass import AdapterError, get_pass

pytestmark = pytest.mark.anyio

LOAD = "load it with apass.adapters.onnx.load_model(path)"


@pytest.mark.parametrize(
    ("given", "kind", "hint"),
    [
        (ModelProto(), "onnx.onnx_ml_pb2.ModelProto", "give onnx_ir.from_proto(model)"),
        ("model.onnx", "str", LOAD),
        ({"f": 1}, "dict", LOAD),
    ],
    ids=lambda one: type(one).__name__,
)
async def test_what_is_no_model_of_onnx_ir_is_told_with_the_way_to_one(given: Any, kind: str, hint: str) -> None:
    with pytest.raises(AdapterError) as caught:
        await get_pass("onnx.IdentityElimination")(given)
    complaint = f"works on an onnx_ir.Model, not on {kind}; {hint}"
    assert str(caught.value) == f"pass 'onnx.IdentityElimination' {complaint}"
    with pytest.raises(AdapterError, match=re.escape(complaint)):
        await get_pass("onnx.Default")(given)
