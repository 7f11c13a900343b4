"""Models that are read and written without a file, if the plug-in of their IR can."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from apass.adapters.mapping import ADAPTER
from apass.batch.formats import ModelFormat, format_of
from apass.core.ir_plugin import IRPlugin
from apass.errors import AdapterError
from apass.service import JobFailedError, JobOptions, Optimizer
from tests.service.loop_passes import PLAIN
from tests.service.models import model_of, number_of

pytestmark = pytest.mark.anyio


async def test_small_model_needs_no_temporary_file(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Optimizer({"default": "onnx.IdentityElimination"}) as optimizer:
        # Any temporary file would be an error from here on.
        monkeypatch.setattr("tempfile.tempdir", "/nonexistent")
        job = await optimizer.submit(model_of(3), kind=".onnx", options=PLAIN)
        model = await job.result()
        assert number_of(model) == 3
        # A model that no pass changes is its own result.
        for report in (True, False):
            job = await optimizer.submit(model, kind=".onnx", options=JobOptions(report=report))
            assert await job.result() == model
            assert (job.record.result_digest, job.record.result_size) == (job.record.model_digest, len(model))
            assert (job.record.report_digest is not None) == report


async def test_external_data_error_names_the_job() -> None:
    model = onnx.ModelProto.FromString(model_of(1))
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    async with Optimizer({"default": ""}) as optimizer:
        job = await optimizer.submit(model.SerializeToString(), kind=".onnx", name="net.onnx")
        with pytest.raises(JobFailedError, match=r"^AdapterError: net\.onnx: tensor 'w' has its data in a file"):
            await job.result()


def test_bytes_equal_those_of_a_file(tmp_path: Path) -> None:
    onnx_format, path = format_of(Path("a.onnx")), tmp_path / "a.onnx"
    module = onnx_format.load_bytes(model_of(1), "a")
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
