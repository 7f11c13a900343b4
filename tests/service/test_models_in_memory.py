"""Models that are read and written without a file, if the plug-in of their IR can."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from apass.adapters.mapping import ADAPTER
from apass.batch.formats import ModelFormat, format_of
from apass.core.ir_plugin import IRPlugin
from apass.errors import AdapterError
from apass.service import JobFailedError, JobOptions, Optimizer

pytestmark = pytest.mark.anyio


def model_with_unused_node() -> onnx.ModelProto:
    """Return a model with a node that a pass removes."""
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["w"], ["unused"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    model: onnx.ModelProto = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], [weight]))
    return model


async def test_small_model_needs_no_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Optimizer({"default": "onnx.RemoveUnusedNodes"}) as optimizer:
        # Any temporary file would be an error from here on.
        monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
        job = await optimizer.submit(
            model_with_unused_node().SerializeToString(), kind=".onnx", options=JobOptions(report=False)
        )
        result = onnx.ModelProto.FromString(await job.result())
    assert [node.op_type for node in result.graph.node] == ["Relu"]


async def test_external_data_error_names_the_job(tmp_path: Path) -> None:
    model = model_with_unused_node()
    tensor = model.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    async with Optimizer({"default": "onnx.RemoveUnusedNodes"}) as optimizer:
        job = await optimizer.submit(model.SerializeToString(), kind=".onnx", name="net.onnx")
        with pytest.raises(JobFailedError, match=r"^AdapterError: net\.onnx: tensor 'w' has its data in a file"):
            await job.result()


def test_bytes_equal_those_of_a_file(tmp_path: Path) -> None:
    model = model_with_unused_node().SerializeToString()
    onnx_format, path = format_of(Path("a.onnx")), tmp_path / "a.onnx"
    module = onnx_format.load_bytes(model, "a")
    onnx_format.save(module, path)
    written = onnx_format.save_bytes(module, ".onnx")
    assert written is not None
    assert onnx.ModelProto.FromString(written) == onnx.ModelProto.FromString(path.read_bytes())


def test_plugin_of_files_only_has_no_bytes() -> None:
    files_only: ModelFormat = ModelFormat(IRPlugin(adapter=ADAPTER))
    assert files_only.load_bytes(b"{}", "a") is None
    assert files_only.save_bytes({}, ".json") is None


def test_bytes_of_a_wrong_class_are_an_error() -> None:
    plugin: IRPlugin[Any] = IRPlugin(adapter=ADAPTER, module_type=dict, load_bytes=lambda _data, _name: [])
    with pytest.raises(AdapterError, match=r"^a: load_bytes of the IR plug-in returned list, expected dict$"):
        ModelFormat(plugin).load_bytes(b"", "a")
