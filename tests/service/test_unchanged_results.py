"""Jobs whose passes change nothing: the model is its own result."""

import onnx
import pytest
from onnx import TensorProto, helper

from apass.service import JobOptions, Optimizer

pytestmark = pytest.mark.anyio


def relu_model() -> bytes:
    """Return a model that no pass can improve."""
    node = helper.make_node("Relu", ["x"], ["y"])
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    model: onnx.ModelProto = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]))
    return model.SerializeToString()


@pytest.mark.parametrize("report", [True, False], ids=["report", "no report"])
async def test_unchanged_model_is_its_own_result(report: bool) -> None:
    model = relu_model()
    async with Optimizer({"default": "onnx.RemoveUnusedNodes"}) as optimizer:
        job = await optimizer.submit(model, kind=".onnx", options=JobOptions(report=report))
        assert await job.result() == model
        assert (job.record.result_digest, job.record.result_size) == (job.record.model_digest, len(model))
        assert (job.record.report_digest is not None) == report
