"""`apass reduce`: reduces a real model that a pass fails on."""

from pathlib import Path

import onnx

from apass.adapters.onnx import load_model
from tests.helpers.command_line import TEST_DATA, apass
from tests.helpers.folders import files


def test_reduce_keeps_only_the_failing_node(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    proto = load_proto(TEST_DATA / "light" / "light_squeezenet.onnx")
    proto.graph.node[40].op_type = "Nowhere"
    model.write_bytes(proto.SerializeToString())
    result = apass("opt", model, "-p", "onnx.Checker", "--reproducer", tmp_path / "r")
    assert result.exit_code == 1
    folder = tmp_path / "r" / "m.onnx" / "0_onnx.Checker"
    result = apass("reduce", folder, "-o", tmp_path / "small", "--timeout", 1000)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[-4:-2]] == ["before", "after"]
    assert lines[-1] == f"to reproduce: apass replay {tmp_path / 'small'}"
    assert files(tmp_path / "small") == ["module.onnx", "reproducer.json", "traceback.txt"]
    reduced = load_model(tmp_path / "small" / "module.onnx").graph
    assert ([node.op_type for node in reduced], len(reduced.initializers)) == (["Nowhere"], 0)
    assert apass("replay", tmp_path / "small").exit_code == 1


def load_proto(path: Path) -> onnx.ModelProto:
    """Return the model in a file as a protobuf message."""
    proto = onnx.ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto


def test_reduce_of_a_non_reproducer_is_one_line(tmp_path: Path) -> None:
    result = apass("reduce", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: no reproducer in '{tmp_path}': ")
