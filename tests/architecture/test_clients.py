"""Relay and ONNX are clients of the package, like the plug-ins of third parties."""

import ast
import re
import subprocess
import sys
from contextlib import nullcontext, suppress
from importlib.metadata import entry_points

import pytest

import apass
from apass import batch, debugging, instruments, plugins
from tests.helpers.repository import ROOT

CORE = ("core", "runner", "passes", "concurrency", "util", "pipelines", "batch", "stores")
PUBLIC = (
    "apass.adapters.onnx",
    "apass.adapters.onnx.outputs",
    "apass.core.diagnostics",
    "apass.errors",
    "apass.external",
    "apass.util",
    "apass.util.delta_debugging",
)
"""Documented modules, whose names a client may use beside those of `apass` and its groups."""
OWN = {"relay": {"apass.adapters.onnx.plugin.measure"}, "adapters": set[str]()}
"""Names that a client of this distribution imports beside the public ones."""

GROUPS = ("irs", "passes", "executors", "instruments", "languages", "pass_modules", "config_modules")


@pytest.mark.parametrize("folder", CORE)
def test_core_names_neither_relay_nor_onnx(folder: str) -> None:
    words = re.compile(r"\b(?:apass\.relay|onnx_ir|IRModule)\b")
    lines = [
        f"{path.name}: {node.value}"
        for path in sorted((ROOT / "apass" / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value
        if words.search(node.value) and path.name != "plugins.py"
    ]
    assert lines == []


@pytest.mark.slow
@pytest.mark.parametrize("client", OWN)
def test_client_imports_only_public_names(client: str) -> None:
    private = {
        f"{node.module}.{alias.name}"
        for path in (ROOT / "apass" / client).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("apass.")
        if not node.module.startswith(f"apass.{client}") and node.module not in PUBLIC
        for alias in node.names
        if alias.name
        not in (*apass.__all__, *plugins.__all__, *instruments.__all__, *debugging.__all__, *batch.__all__)
    }
    assert private == OWN[client]


@pytest.mark.parametrize("group", GROUPS)
def test_declared_plugins_can_be_loaded(group: str) -> None:
    points = [point for point in entry_points(group=f"apass.{group}") if point.value.startswith("apass.")]
    assert points
    for point in points:
        # The passes of mlir-opt need the program, which no Python package installs.
        with suppress(apass.errors.MissingExtraError) if point.name.startswith("mlir") else nullcontext():
            assert point.load() is not None


@pytest.mark.process
@pytest.mark.slow
def test_relay_is_available_after_import_apass() -> None:
    code = "import apass, sys; print('numpy' in sys.modules, apass.relay.__name__, apass.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"False apass.relay {apass.__version__}\n"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "code", "message"),
    [
        ("numpy", "import apass.relay", "Relay needs numpy: pip install 'apass[relay]'"),
        ("lark", "import apass; apass.relay", "pip install 'apass[relay]'"),
        ("typer", "import runpy; runpy.run_module('apass')", "pip install 'apass[cli]'"),
        ("rich", "import apass.instruments.progress", "pip install 'apass[cli]'"),
        ("rich", "import runpy; runpy.run_module('apass')", "pip install 'apass[cli]'"),
        ("onnx_ir", "import apass; apass.get_pass('onnx.Default')", "pip install 'apass[onnx]'"),
        ("llvmlite", "import apass; apass.get_pass('llvm.dce', engine='llvmlite')", "pip install 'apass[llvm]'"),
        ("numpy", "import apass; apass.get_pass('FoldConstant')", "pip install 'apass[relay]'"),
        ("lark", "import apass; apass.get_pass('onnx.Inlin')", "the name 'onnx.Inlin'; did you mean 'onnx.Inline'?\n"),
        ("lark", "import apass; apass.PassContext(config={'relay.FuseOps.max_depth': 1})", "'apass[relay]'"),
    ],
)
def test_missing_library_error_names_the_extra(library: str, code: str, message: str) -> None:
    script = f"import sys; sys.modules[{library!r}] = None\n{code}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.process
def test_core_runs_passes_without_any_extra() -> None:
    blocked = ["numpy", "lark", "rich", "typer", "onnx", "onnx_ir", "trio"]
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked!r}))\n"
        "import apass\n"
        "double = apass.function_pass(lambda func, mod, ctx: func * 2, opt_level=0, name='Double')\n"
        "print(apass.run(apass.Sequential([double]), {'f': 1}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{'f': 2}\n", "")
