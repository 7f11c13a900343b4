"""`apass reduce`: reduces a real model that a pass fails on."""

import shlex
import sys
from pathlib import Path

import onnx
import pytest

from apass.adapters.onnx import load_model
from tests.helpers.command_line import TEST_DATA, apass, process, write_model
from tests.helpers.folders import files


def test_reduce_keeps_only_the_failing_node(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    proto = load_proto(TEST_DATA / "light" / "light_squeezenet.onnx")
    proto.graph.node[40].op_type = "Nowhere"
    model.write_bytes(proto.SerializeToString())
    result = apass("opt", model, "-p", "onnx.Checker", "--reproducer", tmp_path / "r")
    assert result.exit_code == 1
    folder = tmp_path / "r" / "m.onnx" / "0_onnx.Checker"
    result = apass("reduce", folder, "-O", 3, "--disable", "onnx.Inline")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "apass: --opt-level and --disable cannot be set for a reproducer, which has recorded its context\n"
    )
    result = apass("reduce", folder, "-o", tmp_path / "small", "--timeout", 1000)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[-5:-2]] == ["before", "after", "passes"]
    assert lines[-1] == f"to reproduce: apass replay {tmp_path / 'small'}"
    assert files(tmp_path / "small") == ["module.onnx", "reproducer.json", "traceback.txt"]
    reduced = load_model(tmp_path / "small" / "module.onnx").graph
    assert ([node.op_type for node in reduced], len(reduced.initializers)) == (["Nowhere"], 0)
    assert apass("replay", tmp_path / "small").exit_code == 1


BREAKING = """
import apass

@apass.register_pass
@apass.module_pass(opt_level=0, name="Break")
def break_model(mod, ctx):
    result = mod.clone()
    for node in result.graph:
        if node.op_type == "Softmax":
            node.op_type = "Sigmoid"
            node.attributes.clear()
    return result
"""

SAME_OUTPUTS = """
import sys
import numpy as np
import onnxruntime

def outputs(path):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    shapes = {item.name: [size if isinstance(size, int) else 1 for size in item.shape] for item in session.get_inputs()}
    random = np.random.default_rng(0)
    return session.run(None, {name: random.random(shape, np.float32) for name, shape in shapes.items()})

if not all(map(np.allclose, outputs(sys.argv[1]), outputs(sys.argv[2]))):
    sys.exit("the outputs differ")
"""


@pytest.mark.process
@pytest.mark.slow
def test_wrong_result_is_reduced_to_node_and_pass(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes((TEST_DATA / "light" / "light_squeezenet.onnx").read_bytes())
    (tmp_path / "breaking.py").write_text(BREAKING)
    (tmp_path / "same.py").write_text(SAME_OUTPUTS)
    load = ["--load", str(tmp_path / "breaking.py")]
    check = ["--check", shlex.join([sys.executable, str(tmp_path / "same.py"), "{before}", "{}"])]
    status, out, err = process(*load, "reduce", model, "-p", "onnx.Default,Repeat{times=2}(Break)", *check)
    assert (status, err) == (0, "")
    folder = tmp_path / "m.onnx.reduced"
    reduced = load_model(folder / "module.onnx").graph
    assert [node.op_type for node in reduced] == ["Softmax"]
    assert (len(reduced.inputs), len(reduced.initializers)) == (1, 0)
    assert out.splitlines()[-3] == "passes: Break"
    assert out.splitlines()[-1] == f"to reproduce: {shlex.join(['apass', *load, 'replay', str(folder), *check])}"
    assert not folder.with_name("m.onnx.reduced.tried").exists()
    status, out, err = process(*load, "replay", folder, *check)
    assert (status, err) == (1, "")
    assert out == (
        "the check fails: exit status 1: the outputs differ\npass Break at 0:Break on m.onnx: fails the same way\n"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "cannot reduce: the passes do not fail; give a check that rejects their result"),
        (["--check", "true"], "cannot reduce: the check accepts the result of the passes"),
        (["--check", "apass-no-such-command"], "cannot run the check: [Errno 2] No such file or directory: "),
        (["--check", "'"], "cannot parse --check "),
    ],
)
def test_nothing_to_reduce_is_one_line(tmp_path: Path, options: list[str], message: str) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("reduce", model, "-p", "onnx.IdentityElimination", *options)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"apass: {message}")


def test_check_that_rejects_original_is_an_error(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("reduce", model, "-p", "onnx.IdentityElimination", "--check", "sh -c 'echo wrong >&2; exit 3'")
    reason = "the check rejects the module before any pass (exit status 3: wrong); correct the check"
    assert (result.exit_code, result.stderr) == (2, f"apass: cannot reduce: {reason}\n")


def load_proto(path: Path) -> onnx.ModelProto:
    """Return the model in a file as a protobuf message."""
    proto = onnx.ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto


def test_reduce_of_a_non_reproducer_is_one_line(tmp_path: Path) -> None:
    result = apass("reduce", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"apass: no reproducer in '{tmp_path}': ")


def test_name_with_placeholder_is_a_name(tmp_path: Path) -> None:
    model = write_model(tmp_path / "a{}{before}.onnx")
    result = apass("reduce", model, "-p", "onnx.IdentityElimination", "--check", "test -f {before} -a -f {}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "apass: cannot reduce: the check accepts the result of the passes\n"


def test_output_without_name_is_one_line(tmp_path: Path) -> None:
    result = apass("reduce", write_model(tmp_path / "m.onnx"), "-p", "onnx.IdentityElimination", "-o", ".")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "apass: output must be the path of a new folder, got '.'; add a name\n"


def test_paths_of_models_do_not_distinguish_failures(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    (tmp_path / "check.sh").write_text('cmp -s "$1" "$2" || { echo "$1 and $2 differ" >&2; exit 1; }')
    check = ["--check", f"sh {shlex.quote(str(tmp_path / 'check.sh'))} {{before}} {{}}"]
    result = apass("reduce", model, "-p", "onnx.IdentityElimination", *check)
    assert (result.exit_code, result.stderr) == (0, "")
    result = apass("replay", tmp_path / "m.onnx.reduced", *check)
    assert result.exit_code == 1
    assert result.stdout.startswith("the check fails: exit status 1: {before} and {} differ\n")
