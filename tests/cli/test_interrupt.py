"""Ctrl-C in the middle of `apass opt`."""

import signal
from pathlib import Path

import pytest

from tests.helpers.command_line import nodes_of, script, write_model
from tests.helpers.folders import files

pytestmark = [pytest.mark.process, pytest.mark.slow]

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


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_interrupt_leaves_only_complete_files(tmp_path: Path, backend: str) -> None:
    for name in ("a.onnx", "b.onnx", "c.onnx"):
        write_model(tmp_path / "in" / name)
    pipeline = "onnx.IdentityElimination,Hold"
    arguments = ("opt", tmp_path / "in", "-p", pipeline, "-o", tmp_path / "out", "--jobs", 1, "--backend", backend)
    with script(HOLD_PASS, arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (130, "apass: interrupted; all files written so far are complete\n")
    assert out.splitlines()[-1] == "1 of 3 models written, 4 nodes before, 2 after, 2 not done"
    assert (files(tmp_path / "out"), nodes_of(tmp_path / "out" / "a.onnx")) == (["a.onnx"], ["Relu", "Neg"])
