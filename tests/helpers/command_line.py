"""The command line, in this process or a new one, and model files for it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from typer.testing import CliRunner, Result

from apass.adapters.onnx import ADAPTER, load_model
from apass.cli.app import app

ROOT = Path(__file__).parent.parent.parent
TEST_DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


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


def nodes_of(path: Path) -> list[str]:
    """Verify the model in a file, and return its operators."""
    model = load_model(path)
    ADAPTER.verify(model)
    return [node.op_type for node in model.graph]


def files(folder: Path) -> list[str]:
    """Return the files below a folder, including hidden files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def apass(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def script(body: str, arguments: Sequence[object]) -> subprocess.Popen[str]:
    """Start the command line in a new process, after running `body`."""
    code = f"{body}\nfrom apass.cli import main\nmain()\n"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def process(*arguments: object, body: str = "") -> tuple[int, str, str]:
    """Run the command line in a new process; return status, output and error output."""
    with script(body, arguments) as command:
        out, err = command.communicate(timeout=300)
        return command.returncode, out, err
