"""`apass opt` on ONNX files with passes of Relay."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx as typed_onnx
import pytest
from onnx import numpy_helper

from tests.helpers.command_line import apass
from tests.helpers.folders import files

onnx: Any = typed_onnx

NET = """<ir_version: 7, opset_import: ["": 12]>
net (float[N, 4] x) => (float[N, 4] y, float[N, 4] z)
<float[4] w = {1, 2, 3, 4}> {
    a = Mul(x, w)
    y = Relu(a)
    b = Mul(x, w)
    z = Softmax<axis = 1>(b)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return the path of a model in which one node repeats another."""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(NET), path)
    return path


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.mark.parametrize("pipeline", ["relay.Default", "EliminateCommonSubexpr", "FoldConstant,EliminateCommonSubexpr"])
def test_relay_passes_optimize_onnx_file(model: Path, pipeline: str) -> None:
    output = model.with_name("out.onnx")
    done = apass("opt", model, "-p", pipeline, "-o", output, "-O", 3, "--verify-outputs")
    assert (done.exit_code, "outputs equal" in done.stdout) == (0, True), done.output
    assert operators(output) == ["Mul", "Relu", "Softmax"]


def test_interface_and_versions_of_source_are_kept(model: Path) -> None:
    assert apass("opt", model, "-p", "relay.Default", "-O", 3, "--in-place").exit_code == 0
    result, source = onnx.load(model), onnx.parser.parse_model(NET)
    assert (list(result.graph.input), list(result.graph.output)) == (
        list(source.graph.input),
        list(source.graph.output),
    )
    assert (result.graph.name, result.opset_import[0].version) == ("net", 12)
    onnx.checker.check_model(result, full_check=True)


@pytest.mark.parametrize("pipeline", ["relay.Default", "relay.FromONNX,relay.Default,onnx.FromRelay"])
def test_metadata_of_source_is_kept(model: Path, pipeline: str) -> None:
    source = onnx.load(model)
    source.doc_string, source.domain, source.model_version = "a net", "org.example", 7
    onnx.helper.set_model_props(source, {"classes": '["cat", "dog"]'})
    onnx.save(source, model)
    assert apass("opt", model, "-p", pipeline, "-O", 3, "--in-place").exit_code == 0
    result = onnx.load(model)
    assert operators(model) == ["Mul", "Relu", "Softmax"]
    assert (result.doc_string, result.domain, result.model_version) == ("a net", "org.example", 7)
    assert list(result.metadata_props) == list(source.metadata_props)


def test_external_weights_stay_external(model: Path) -> None:
    proto = onnx.parser.parse_model(NET.replace("4", "400").replace("{1, 2, 3, 400}", "{1}"))
    weight = numpy_helper.from_array(np.full(400, 1.5, "float32"), "w")
    proto.graph.initializer[0].CopyFrom(weight)
    onnx.save(proto, model, save_as_external_data=True, location="weights", size_threshold=0)
    folder = model.with_name("out")
    done = apass("opt", model, "-p", "relay.Default", "-O", 3, "-o", folder, "--verify-outputs")
    assert (done.exit_code, files(folder)) == (0, ["m.onnx", "m.onnx.data"]), done.output
    (written,) = onnx.load(folder / "m.onnx").graph.initializer
    assert numpy_helper.to_array(written).tolist() == [1.5] * 400


def test_file_of_unchanged_model_is_copied(model: Path) -> None:
    before = model.read_bytes()
    done = apass("opt", model, "-p", "InferType", "-o", model.with_name("out.onnx"))
    assert (done.exit_code, model.with_name("out.onnx").read_bytes() == before) == (0, True)


def test_compared_pipelines_have_latencies_and_outputs(model: Path) -> None:
    done = apass("opt", model, "-O", 3, "--compare", "relay.Default", "FoldConstant")
    assert (done.exit_code, "equal" in done.stdout, " ms" in done.stdout) == (0, True, True), done.output


def test_relay_text_is_converted_to_onnx(model: Path) -> None:
    text, back = model.with_name("m.relay"), model.with_name("back.onnx")
    assert apass("convert", model, text).exit_code == 0
    assert apass("convert", text, back).exit_code == 0
    assert operators(back) == operators(model)
    assert apass("opt", text, "-O", 3, "--to", "onnx", "-o", model.with_name("out")).exit_code == 0
    assert operators(model.parent / "out" / "m.onnx") == ["Mul", "Relu", "Softmax"]


@pytest.mark.parametrize(
    "pipeline",
    [
        "relay.FromONNX,relay.Default,onnx.FromRelay,onnx.Default",
        "onnx.Default,relay.FromONNX,relay.Default,onnx.FromRelay",
        "onnx.Default,relay.FromONNX,FoldConstant,EliminateCommonSubexpr,onnx.FromRelay,ort.Basic",
    ],
)
def test_pipeline_converts_between_irs(model: Path, pipeline: str) -> None:
    output = model.with_name("out.onnx")
    done = apass("opt", model, "-p", pipeline, "-o", output, "-O", 3, "--verify-outputs")
    assert (done.exit_code, "outputs equal" in done.stdout) == (0, True), done.output
    assert operators(output) == ["Mul", "Relu", "Softmax"]
    result, source = onnx.load(output), onnx.parser.parse_model(NET)
    assert (list(result.graph.input), list(result.graph.output)) == (
        list(source.graph.input),
        list(source.graph.output),
    )
    assert result.opset_import[0].version == 12


def test_pipeline_of_relay_ends_as_onnx(model: Path) -> None:
    output = model.with_name("out.onnx")
    done = apass("opt", model, "-p", "relay.Default,onnx.FromRelay{opset_version=21}", "-o", output, "-O", 3)
    assert (done.exit_code, onnx.load(output).opset_import[0].version) == (0, 21), done.output


def test_pipeline_converts_between_files(model: Path) -> None:
    text, back = model.with_name("m.relay"), model.with_name("back.onnx")
    assert apass("opt", model, "-p", "onnx.Default,relay.FromONNX,relay.Default", "-o", text).exit_code == 0
    assert text.read_text().startswith("#[version")
    assert apass("opt", text, "-p", "FoldConstant,onnx.FromRelay,onnx.Default", "-o", back, "-O", 3).exit_code == 0
    assert operators(back) == ["Mul", "Relu", "Softmax"]


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (
            "onnx.Simplify,FoldConstant",
            "requires an apass.relay.IRModule, got onnx_ir.Model; convert it with relay.FromONNX",
        ),
        (
            "relay.Default,onnx.Simplify",
            "needs an onnx_ir.Model, got apass.relay.ir.module.IRModule; convert it with onnx.FromRelay",
        ),
    ],
)
def test_passes_of_two_irs_are_an_error(model: Path, pipeline: str, message: str) -> None:
    done = apass("opt", model, "-p", pipeline, "-o", model.with_name("out.onnx"))
    assert (done.exit_code, message in done.output.replace("\n", " ")) == (1, True), done.output
    assert files(model.parent) == ["m.onnx"]


def test_model_that_cannot_be_imported_is_an_error(tmp_path: Path) -> None:
    strings = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (string[2] x) => (string[2] y) { y = Identity(x) }'
    )
    sequence = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }'
    )
    onnx.save(strings, tmp_path / "a.onnx")
    onnx.save(sequence, tmp_path / "b.onnx")
    done = apass("opt", tmp_path, "-p", "relay.Default", "-o", tmp_path / "out")
    printed = done.output.replace("\n", " ")
    assert (done.exit_code, files(tmp_path)) == (1, ["a.onnx", "b.onnx"])
    assert "has a tensor of strings, which Relay does not support" in printed
    assert "is no tensor, which Relay passes cannot keep" in printed
