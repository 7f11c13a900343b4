"""Ctrl-C in the middle of `apass opt`."""

import gc
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from apass.cli.interrupts import run_until_interrupted
from tests.cli.models import files, nodes_of, script, write_model

HOLDS = """
import anyio
from apass.decorators import module_pass
from apass.registry import register_pass
from apass.run import current_module_name

@register_pass
@module_pass(opt_level=0, name="Hold")
async def hold(mod, ctx):
    if current_module_name() == "b.onnx":
        print("holding", flush=True)
        await anyio.sleep_forever()
    return mod
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_leaves_whole_files_only_and_says_so(tmp_path: Path, backend: str) -> None:
    for name in ("a.onnx", "b.onnx", "c.onnx"):
        write_model(tmp_path / "in" / name)
    pipeline = "onnx.IdentityElimination,Hold"
    given = ("opt", tmp_path / "in", "-p", pipeline, "-o", tmp_path / "out", "--jobs", 1, "--backend", backend)
    with script(HOLDS, given) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "holding\n"
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=300)
    assert (started.returncode, err) == (130, "apass: interrupted; every file that was written is whole\n")
    assert out.splitlines()[-1] == "1 of 3 models written, 4 nodes before, 2 after, 2 not done"
    assert (files(tmp_path / "out"), nodes_of(tmp_path / "out" / "a.onnx")) == (["a.onnx"], ["Relu", "Neg"])


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_asyncio_says_of_ended_workers_is_kept_off_the_terminal(
    caplog: pytest.LogCaptureFixture, backend: str
) -> None:
    async def work() -> None:
        logger = logging.getLogger("asyncio")
        logger.warning("Unknown child process pid %d, will report returncode 255", 7)
        logger.warning("Loop %r that handles pid %r is closed", "loop", 7)
        logger.warning("something else of %d", 7)

    run_until_interrupted(work, backend)
    assert caplog.messages == ["something else of 7"]
    assert logging.getLogger("asyncio").filters == []


def test_nothing_is_said_of_a_worker_that_ends_after_the_loop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apass.cli.interrupts._REAPED_WITHIN", 60.0)
    worker = subprocess.Popen([sys.executable, "-c", ""])

    def reap() -> None:
        """Do as asyncio's threads do."""
        worker.wait()
        logging.getLogger("asyncio").warning("Loop %r that handles pid %r is closed", "loop", worker.pid)

    async def work() -> None:
        threading.Thread(target=reap, name="asyncio-waitpid-7").start()

    run_until_interrupted(work, "asyncio")
    assert (worker.returncode, caplog.messages) == (0, [])
    assert logging.getLogger("asyncio").filters == []


def test_nothing_is_said_of_a_worker_that_takes_longer_than_anybody_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apass.cli.interrupts._REAPED_WITHIN", 0.01)
    monkeypatch.setattr(logging.getLogger("asyncio"), "filters", [])
    told: list[object] = []

    def tell(one: "sys.UnraisableHookArgs") -> None:
        told.append(one.exc_value)

    monkeypatch.setattr(sys, "unraisablehook", tell)
    goes_on = threading.Event()

    class Pipe:
        def __init__(self, complaint: str) -> None:
            self.complaint = complaint

        def __del__(self) -> None:
            raise RuntimeError(self.complaint)

    def reap(*pipes: Pipe) -> None:
        goes_on.wait()
        logging.getLogger("asyncio").warning("Loop %r that handles pid %r is closed", "loop", 7)

    pipes = (Pipe("Event loop is closed"), Pipe("something else"))
    late = threading.Thread(target=reap, args=pipes, name="asyncio-waitpid-7")
    del pipes

    async def work() -> None:
        late.start()

    run_until_interrupted(work, "asyncio")
    goes_on.set()
    late.join()
    gc.collect()
    assert (caplog.messages, list(map(str, told))) == ([], ["something else"])


LEFT_OPEN = """
import anyio, gc, sys
from apass.cli.interrupts import run_until_interrupted

async def work():
    worker = await anyio.open_process([sys.executable, "-c", ""])
    held = [worker]
    held.append(held)  # as the traceback of the error holds it that the worker did not start
    async for _ in worker.stdout:
        pass

run_until_interrupted(work, "asyncio")
gc.collect()
"""


def test_nothing_is_said_of_the_pipes_to_a_worker_that_was_interrupted_as_it_started() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=True)
    assert done.stderr == ""
