"""`apass reduce`: a real model that a pass fails on, made smaller."""

from pathlib import Path

import onnx

from apass.adapters.onnx import load_model
from tests.cli.models import TEST_DATA, apass, files


def test_a_real_model_is_reduced_to_the_node_that_the_pass_fails_on(tmp_path: Path) -> None:
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
    assert lines[-1] == f"to see it fail: apass replay {tmp_path / 'small'}"
    assert files(tmp_path / "small") == ["module.onnx", "reproducer.json", "traceback.txt"]
    left = load_model(tmp_path / "small" / "module.onnx").graph
    assert ([node.op_type for node in left], len(left.initializers)) == (["Nowhere"], 0)
    assert apass("replay", tmp_path / "small").exit_code == 1


def load_proto(path: Path) -> onnx.ModelProto:
    """Return a model as a message."""
    proto = onnx.ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto


def test_what_cannot_be_reduced_is_one_line(tmp_path: Path) -> None:
    result = apass("reduce", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: no reproducer in '{tmp_path}': ")
