"""The command line, in this process or a new one, and model files for it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import convert_model_to_external_data, write_external_data_tensors
from typer.testing import CliRunner, Result

from apass.adapters.onnx import ADAPTER, load_model
from apass.cli.app import app
from tests.helpers.repository import ROOT
from tests.helpers.warm_processes import WarmProcess

LOAD_HINT = "  a pass of your own needs --load FILE, where FILE registers it with apass.register_pass\n"
"""The line after the error about an unknown pass."""
SUFFIXES = ".bc, .json, .ll, .mlir, .mlirbc, .onnx, .relax, .relay"
"""The suffixes of model files, in messages."""
TEST_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
PROGRAM = """#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32]) {
  %0 = add(2f, 3f);
  %1 = multiply(%x, %0);
  %2 = multiply(%x, %0);
  add(%1, %2)
}
"""


def write_model(path: Path, *, identities: int = 2) -> Path:
    """Write a model of a Relu, `identities` Identity nodes and a Neg.

    `onnx.Default` removes the Identity nodes and keeps the others.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ["x", *(f"v{index}" for index in range(identities + 1)), "y"]
    ops = ["Relu", *["Identity"] * identities, "Neg"]
    nodes = [
        helper.make_node(op, [operand], [output])
        for op, operand, output in zip(ops, names[:-1], names[1:], strict=True)
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y"))
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    path.write_bytes(model.SerializeToString())
    return path


def write_external(path: Path) -> Path:
    """Write a model of an Add, with 2048 bytes of weights in `weights.bin`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "g (float[512] x) => (float[512] y) { y = Add(x, w) }"
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.arange(512, dtype=np.float32), "w"))
    convert_model_to_external_data(proto, location="weights.bin", size_threshold=0)
    write_external_data_tensors(proto, str(path.parent))
    path.write_bytes(proto.SerializeToString())
    return path


def program(path: Path, text: str = PROGRAM) -> Path:
    """Write a Relay program, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def nodes_of(path: Path) -> list[str]:
    """Verify the model in a file, and return its operators."""
    model = load_model(path)
    ADAPTER.verify(model)
    return [node.op_type for node in model.graph]


def apass(*arguments: object, stdin: bytes | None = None) -> Result:
    """Run the command line in this process, with these bytes as standard input."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


def script(body: str, arguments: Sequence[object]) -> WarmProcess:
    """Start the command line in a new process, after running `body`."""
    code = f"{body}\nfrom apass.cli import main\nmain()\n"
    return WarmProcess(code, arguments, environ={**os.environ, "PYTHONPATH": str(ROOT)})


def process(*arguments: object, body: str = "") -> tuple[int, str, str]:
    """Run the command line in a new process; return status, output and error output."""
    with script(body, arguments) as command:
        out, err = command.communicate(timeout=300)
        return command.wait(), out, err


def fresh_process(*arguments: object, body: str = "") -> tuple[int, str, str]:
    """Run the command line in a new interpreter, which has imported nothing yet."""
    code = f"{body}\nfrom apass.cli import main\nmain()\n"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout, done.stderr


def run_in(folder: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Run the command line in a folder; return status, output and error output."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1", **environment}
    code = "from apass.__main__ import main; main()"
    with WarmProcess(code, arguments, environ=environ, folder=folder) as command:
        out, err = command.communicate(timeout=300)
        return command.wait(), out, err
