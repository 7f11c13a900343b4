"""A pass that ends the process of `apass opt`: its input remains."""

import signal
import sys
from pathlib import Path

import pytest

from tests.helpers.command_line import run_in, script, write_model
from tests.helpers.folders import files

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals"),
]

PASSES = """
import ctypes
import os
import time

import apass


def has_neg(mod):
    return any(node.op_type == "Neg" for node in mod.graph)


def fault(mod, ctx):
    if has_neg(mod):
        ctypes.string_at(0)
    return mod


def abort(mod, ctx):
    if has_neg(mod):
        os.abort()
    return mod


def hang(mod, ctx):
    if has_neg(mod):
        print("hanging", flush=True)
        while True:
            time.sleep(1)
    return mod


apass.register_pass("Fault", lambda: apass.module_pass(fault, opt_level=0, name="Fault", native=True))
apass.register_pass("Abort", lambda: apass.module_pass(abort, opt_level=0, name="Abort"))
apass.register_pass("Hang", lambda: apass.module_pass(hang, opt_level=0, name="Hang"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a model and a file of passes."""
    write_model(tmp_path / "m.onnx")
    (tmp_path / "passes.py").write_text(PASSES)
    return tmp_path


def opt(pipeline: str, *options: str) -> list[str]:
    """Return the arguments of a run that writes reproducers."""
    start = ["--load", "./passes.py", "opt", "m.onnx", "-o", "out/", "-p", pipeline]
    return [*start, "--reproducer", "failed", *options]


FAULT = ["reproducer.json", "traceback.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options", "number"), [("Fault", (), signal.SIGSEGV), ("Abort", ("--crash-safe",), signal.SIGABRT)]
)
def test_next_start_finds_input_of_crashed_pass(folder: Path, name: str, options: tuple[str, ...], number: int) -> None:
    pipeline = f"onnx.IdentityElimination,{name}"
    assert run_in(folder, *opt(pipeline, *options))[0] == -number
    found = f"failed/m.onnx/1_{name}"
    status, out, error = run_in(folder, *opt("onnx.IdentityElimination"))
    assert status == 0
    assert error == (
        f"apass: the process of an earlier run ended during pass {name} on m.onnx\n"
        f"apass: to reproduce: apass --load {folder / 'passes.py'} replay {found}\n"
    )
    assert "1 of 1 models written" in out
    assert files(folder / "failed") == [f"m.onnx/1_{name}/{file}" for file in ("module.onnx", *FAULT)]
    status, out, error = run_in(folder, "--load", "./passes.py", "replay", found)
    assert (status, out.endswith(f"pass {name} at 0:sequential/1:{name} on m.onnx: fails the same way\n")) == (1, True)
    # Once found, it is not reported again.
    assert run_in(folder, *opt("onnx.IdentityElimination"))[2] == ""


@pytest.mark.slow
def test_crashed_input_is_reduced(folder: Path) -> None:
    assert run_in(folder, *opt("Fault"))[0] == -signal.SIGSEGV
    run_in(folder, *opt("onnx.IdentityElimination"))
    status, out, _ = run_in(folder, "--load", "./passes.py", "reduce", "failed/m.onnx/0_Fault")
    assert status == 0
    assert "removed 3 of 4 nodes" in out


@pytest.mark.slow
def test_killed_hang_leaves_input(folder: Path) -> None:
    arguments = ("opt", folder / "m.onnx", "-o", folder / "out", "-p", "Hang", "--reproducer", folder / "failed")
    with script(PASSES, [*arguments, "--crash-safe"]) as running:
        assert running.stdout.readline() == "hanging\n"
        running.kill()
    error = run_in(folder, *opt("onnx.IdentityElimination"))[2]
    assert error.startswith("apass: the process of an earlier run ended during pass Hang on m.onnx\n")


@pytest.mark.slow
def test_lost_worker_names_the_pass(folder: Path) -> None:
    status, out, _ = run_in(folder, *opt("onnx.IdentityElimination,Fault", "--executor", "process"))
    assert status == 1
    assert "    reproducer: failed/m.onnx/1_Fault\n" in out
    assert files(folder / "failed")[0] == "m.onnx/1_Fault/module.onnx"


def line_of(text: str) -> int:
    """Return the line of the passes that contains a text."""
    return next(number for number, line in enumerate(PASSES.splitlines(), 1) if text in line)


@pytest.mark.slow
def test_crash_prints_the_line_of_the_pass(folder: Path) -> None:
    status, _, error = run_in(folder, "--load", "./passes.py", "opt", "m.onnx", "-o", "out", "-p", "Fault")
    assert (status, error.startswith("Fatal Python error: Segmentation fault\n")) == (-signal.SIGSEGV, True)
    assert f'  File "{folder}/passes.py", line {line_of("ctypes.string_at")} in fault\n' in error


@pytest.mark.slow
def test_ctrl_c_fails_a_busy_pass(folder: Path) -> None:
    arguments = ("opt", folder / "m.onnx", "-o", folder / "out", "-p", "Hang", "--reproducer", folder / "failed")
    (folder / "hanging.py").write_text(PASSES)
    with script("", ["--load", folder / "hanging.py", *arguments]) as running:
        assert running.stdout.readline() == "hanging\n"
        running.send_signal(signal.SIGINT)
        output, error = running.communicate(timeout=300)
    where = "failed m.onnx: in pass 'sequential > Hang', module 'm.onnx'\n"
    message = "    PassCancelledError: pass 'Hang' was interrupted by a signal, because it did not suspend\n"
    assert (running.returncode, f"{where}{message}    at {folder}/hanging.py:{line_of('time.sleep')}\n" in output) == (
        130,
        True,
    ), output
    assert error.endswith("apass: interrupted; all files written so far are complete\n")
    assert files(folder / "failed") == [f"m.onnx/0_Hang/{file}" for file in ("module.onnx", *FAULT)]


def test_python_pass_leaves_nothing_by_default(folder: Path) -> None:
    assert run_in(folder, *opt("Abort"))[0] == -signal.SIGABRT
    assert not (folder / "failed").exists()


def test_crash_safe_needs_reproducer(folder: Path) -> None:
    status, _, error = run_in(folder, "opt", "m.onnx", "-o", "out", "--crash-safe")
    assert (status, error) == (2, "apass: --crash-safe writes reproducers; add --reproducer DIR\n")
