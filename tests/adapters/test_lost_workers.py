"""Modules of each compiler in worker processes that crash or are cancelled."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

import apass
from apass.concurrency.processes.pool import end_idle_workers
from apass.core.run import current_module_name
from apass.executors import ProcessExecutor
from apass.instruments import ReproducerInstrument
from tests.helpers import llvm_modules, tvm_modules, xdsl_modules

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.slow]

COMPILERS = [
    pytest.param(tvm_modules.shared, id="tvm"),
    pytest.param(lambda: xdsl_modules.sums(1), id="xdsl"),
    pytest.param(lambda: llvm_modules.module("sum"), id="llvm"),
]


@apass.module_pass(opt_level=0, name="tests.adapters.Crash")
def Crash(mod: Any, ctx: apass.PassContext) -> Any:
    if current_module_name() == "bad":
        ctypes.string_at(0)
    return mod


@apass.module_pass(opt_level=0, name="tests.adapters.Sleep")
def Sleep(mod: Any, ctx: apass.PassContext) -> Any:
    Path(current_module_name() or "").touch()
    while True:
        time.sleep(0.1)


@pytest.mark.parametrize("make", COMPILERS)
async def test_crash_leaves_a_reproducer_and_other_modules(make: Callable[[], Any], tmp_path: Path) -> None:
    mods: dict[str, Any] = {name: make() for name in ("good", "bad", "other")}
    adapter = apass.adapter_for(mods["bad"])
    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path)]):
        outcomes: Any = await apass.optimize_all(mods, Crash, executor=ProcessExecutor(workers=1), errors="collect")
    error = outcomes["bad"].error
    assert isinstance(error, apass.WorkerLostError)
    assert str(error).endswith(": the worker process died (SIGSEGV) in pass 'tests.adapters.Crash'")
    assert all(adapter.equal(outcomes[name].module, mods[name]) for name in ("good", "other"))
    replayed = await apass.replay(tmp_path / "bad" / "1_tests.adapters.Crash", Crash)
    assert (replayed.verdict.name, type(replayed.error)) == ("SAME", apass.WorkerLostError)


@pytest.mark.parametrize("make", COMPILERS)
async def test_cancelled_run_leaves_no_process(make: Callable[[], Any], tmp_path: Path) -> None:
    await end_idle_workers()
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    started = anyio.Path(tmp_path / "started")
    async with anyio.create_task_group() as group:

        async def work() -> None:
            await apass.optimize_all({str(started): make()}, Sleep, executor=ProcessExecutor(workers=2))

        group.start_soon(work)
        while not await started.exists():  # noqa: ASYNC110  another process creates it
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    await end_idle_workers()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
