"""Each command is imported when it is used, and listed without an import."""

import subprocess
import sys
from pathlib import Path

import onnx_ir as ir
import pytest

from apass.adapters.onnx import save_model
from apass.cli.app import COMMANDS, load_command
from tests.helpers.command_line import write_model
from tests.helpers.repository import ROOT

COMMAND_MODULES = {path.stem for path in (ROOT / "apass/cli/commands").glob("*.py")} - {"__init__"}


RUN = "from apass.__main__ import main\nmain()"


def loaded_by(*arguments: str) -> set[str]:
    """Return the modules that a run of the command line has imported at its end."""
    code = "import atexit, sys\natexit.register(lambda: print(*sys.modules))\n" + RUN
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def commands_in(modules: set[str]) -> set[str]:
    """Return the commands among the names of imported modules."""
    prefix = "apass.cli.commands."
    return {name.removeprefix(prefix) for name in modules if name.startswith(prefix)}


def test_every_command_module_is_listed() -> None:
    assert {name.replace("-", "_") for name in COMMANDS} == COMMAND_MODULES


@pytest.mark.parametrize("name", COMMANDS)
def test_line_of_command_begins_its_help(name: str) -> None:
    command = load_command(name)
    assert (command.name, " ".join(command.help.partition("\n\n")[0].split())) == (name, COMMANDS[name])


@pytest.mark.process
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_root_options_import_no_command(option: str) -> None:
    loaded = loaded_by(option)
    assert commands_in(loaded) == set()
    assert loaded & {"anyio", "apass.core", "apass.passes", "apass.runner", "asyncio", "numpy", "onnx"} == set()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_command_imports_only_that(name: str) -> None:
    loaded = loaded_by(name, "--help")
    assert commands_in(loaded) == {name.replace("-", "_")}
    assert loaded & {"asyncio", "lark", "numpy", "onnx", "onnx_ir", "trio"} == set()


@pytest.mark.process
@pytest.mark.slow
def test_garbage_is_collected_seldom_during_the_work(tmp_path: Path) -> None:
    write_model(tmp_path / "model.onnx")
    code = "import atexit, gc\natexit.register(lambda: print(gc.isenabled(), gc.get_threshold()[0]))\n" + RUN
    command = [sys.executable, "-c", code, "opt", str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True 20000"


@pytest.mark.process
def test_plan_imports_no_model_library() -> None:
    loaded = loaded_by("plan", "-p", "Repeat{times=2}(PrintIR)")
    assert loaded & {"asyncio", "lark", "numpy", "onnx", "onnx_ir", "trio"} == set()


@pytest.mark.process
@pytest.mark.slow
def test_optimization_of_a_model_imports_no_sympy(tmp_path: Path) -> None:
    text = '<ir_version: 10, opset_import: ["": 20]> relu (float[N,"M + 1"] x) => (float[N,"M + 1"] y) {y = Relu(x)}'
    save_model(ir.from_onnx_text(text), tmp_path / "relu.onnx")
    loaded = loaded_by("opt", str(tmp_path / "relu.onnx"))
    assert "onnx_ir" in loaded
    assert "sympy" not in loaded


@pytest.mark.process
@pytest.mark.slow
def test_symbolic_dimensions_can_be_added() -> None:
    code = "import apass.adapters.onnx, onnx_ir, sys; print('sympy' in sys.modules, onnx_ir.SymbolicDim('N') + 1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False N + 1\n"
