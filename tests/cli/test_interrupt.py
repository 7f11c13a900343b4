"""Ctrl-C in the middle of `apass opt`."""

import signal
from pathlib import Path

import psutil
import pytest

from tests.helpers.command_line import fresh_process, nodes_of, process, script, write_model
from tests.helpers.folders import files

pytestmark = [pytest.mark.both_loops, pytest.mark.process]

HOLD_PASS = """
import time
import anyio
from apass.executors import ProcessExecutor
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass
from apass.core.run import current_module_name

@register_pass
@module_pass(opt_level=0, name="Hold")
async def hold(mod, ctx):
    if current_module_name() == "b.onnx":
        async with anyio.create_task_group() as group:
            group.start_soon(PROCESSES.call, time.sleep, 600)
            await PROCESSES.call(abs, -3)
            print("holding", flush=True)
            await anyio.sleep_forever()
    return mod

PROCESSES = ProcessExecutor(workers=2)
"""
"""Registers a pass that never ends for one module. One of its workers is busy, the other is idle."""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_leaves_only_complete_files_and_no_process(tmp_path: Path, backend: str, number: int) -> None:
    for name in ("a.onnx", "b.onnx", "c.onnx"):
        write_model(tmp_path / "in" / name)
    pipeline = "onnx.IdentityElimination,Hold"
    arguments = ("opt", tmp_path / "in", "-p", pipeline, "-o", tmp_path / "out", "--jobs", 1, "--backend", backend)
    # `nohup` starts its programs with this signal ignored, and so would they start theirs.
    with script(f"import signal\nsignal.signal({int(number)}, signal.SIG_DFL)\n{HOLD_PASS}", arguments) as running:
        assert running.stdout.readline() == "holding\n"
        started = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(number)
        out, err = running.communicate(timeout=300)
    assert started
    assert not any(child.is_running() for child in started)
    assert (running.returncode, err) == (128 + number, "apass: interrupted; all files written so far are complete\n")
    assert out.splitlines()[-1] == "1 of 3 models written, 4 nodes before, 2 after, 2 not done"
    assert (files(tmp_path / "out"), nodes_of(tmp_path / "out" / "a.onnx")) == (["a.onnx"], ["Relu", "Neg"])


BUSY_PASS = """
import time
import anyio.to_thread
import apass.cli.event_loop
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass

apass.cli.event_loop.INTERRUPT_GRACE = 0.5

def sleep():
    print("busy", flush=True)
    while True:
        time.sleep(0.1)

@register_pass
@module_pass(opt_level=0, name="Busy")
async def busy(mod, ctx):
    await anyio.to_thread.run_sync(sleep)
    return mod
"""
"""Registers a pass whose thread cannot be cancelled."""

BLOCKING_PASS = BUSY_PASS.replace("await anyio.to_thread.run_sync(sleep)", "sleep()")
"""Registers a pass that holds the event loop."""

SIGNALLED_PASS = BUSY_PASS.replace("import time\n", "import signal\nimport threading\nimport time\n", 1).replace(
    "    while True:", "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n    while True:"
)
"""Registers a pass whose thread gets the signal, so that it does not wake up the event loop."""

PATIENT_PASS = BLOCKING_PASS.replace("GRACE = 0.5", "GRACE = 600").replace(
    "    while True:\n        time.sleep(0.1)",
    """
    import signal
    while signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        time.sleep(0.01)
    print("once", flush=True)
    while True:
        time.sleep(0.1)""",
)
"""Registers a pass that holds the event loop, and prints when it was interrupted once."""


@pytest.mark.slow
@pytest.mark.parametrize("body", [BUSY_PASS, BLOCKING_PASS], ids=["thread", "event loop"])
def test_interrupt_does_not_wait_for_busy_passes(tmp_path: Path, backend: str, body: str) -> None:
    arguments = ("opt", write_model(tmp_path / "m.onnx"), "-p", "Busy", "--backend", backend)
    with script(body, arguments) as running:
        assert running.stdout.readline() == "busy\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    message = "apass: interrupted; a pass did not end in time; all files written so far are complete\n"
    assert (running.returncode, err.endswith(message), files(tmp_path)) == (130, True, ["m.onnx"])
    # The thread is none of apass, and so its pass is unknown.
    where = "in pass 'sequential > Busy', module 'm.onnx', at <string>:" if body == BLOCKING_PASS else ""
    assert where in err
    assert err.count("apass: still running: ") == bool(where)


def test_signal_for_another_thread_is_an_interrupt(tmp_path: Path, backend: str) -> None:
    status, _, err = process(
        "opt", write_model(tmp_path / "m.onnx"), "-p", "Busy", "--backend", backend, body=SIGNALLED_PASS
    )
    message = "apass: interrupted; a pass did not end in time; all files written so far are complete\n"
    assert (status, err) == (130, message)


def test_second_interrupt_ends_a_blocking_pass(tmp_path: Path, backend: str) -> None:
    arguments = ("opt", write_model(tmp_path / "m.onnx"), "-p", "Busy", "--backend", backend)
    with script(PATIENT_PASS, arguments) as running:
        assert running.stdout.readline() == "busy\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.readline() == "once\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    message = "apass: interrupted; all files written so far are complete\n"
    assert (running.returncode, err, files(tmp_path)) == (130, message, ["m.onnx"])


INTERRUPT_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from apass.__main__ import main
"""
"""Sends the signal of Ctrl-C to the process when it imports a module."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("typer", "apass: interrupted\n"),
        ("apass.cli.app", "apass: interrupted\n"),
        ("apass.cli.commands.opt", "apass: interrupted\n"),
        ("apass.core.context", "apass: interrupted\n"),
        ("apass.adapters.onnx", "apass: interrupted; all files written so far are complete\n"),
        ("onnx", "apass: interrupted; all files written so far are complete\n"),
        ("onnx_ir", "apass: interrupted; all files written so far are complete\n"),
    ],
)
def test_interrupt_during_import_has_no_traceback(module: str, message: str, tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    status, out, err = fresh_process("opt", model, body=INTERRUPT_IMPORT.format(name=module))
    assert (status, out, err) == (130, "", message)
    assert files(tmp_path) == ["m.onnx"]


@pytest.mark.slow
def test_interrupt_after_the_end_keeps_the_status(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    end = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)"
    status, _, err = fresh_process("opt", model, body=f"{end}\nfrom apass.__main__ import main\nmain()")
    assert (status, err) == (0, "")
