"""Error messages of ONNX passes for objects that are not onnx_ir models."""

import re
from typing import Any

import pytest
from onnx import ModelProto

from apass import get_pass
from apass.errors import AdapterError

pytestmark = pytest.mark.anyio

LOAD = "load it with apass.adapters.onnx.load_model(path)"


@pytest.mark.parametrize(
    ("value", "kind", "hint"),
    [
        (ModelProto(), "onnx.onnx_ml_pb2.ModelProto", "convert it with onnx_ir.from_proto(model)"),
        ("model.onnx", "str", LOAD),
        ({"f": 1}, "dict", LOAD),
        (b"", "bytes", "read it with apass.adapters.onnx.model_from_bytes(data)"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_other_model_types_error_suggests_conversion(value: Any, kind: str, hint: str) -> None:
    with pytest.raises(AdapterError) as caught:
        await get_pass("onnx.IdentityElimination")(value)
    message = f"needs an onnx_ir.Model, got {kind}; {hint}"
    assert str(caught.value) == f"pass 'onnx.IdentityElimination' {message}"
    with pytest.raises(AdapterError, match=re.escape(message)):
        await get_pass("onnx.Default")(value)
