"""Modules of each compiler in worker processes that crash or are cancelled."""

from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

import apass
from apass.concurrency.processes.pool import end_idle_workers
from apass.executors import ProcessExecutor
from apass.instruments import ReproducerInstrument
from tests.adapters.lost_passes import Crash, Sleep

pytestmark = [pytest.mark.anyio, pytest.mark.process, pytest.mark.slow]

COMPILERS = {"tvm": ("shared", ()), "xdsl": ("sums", (1,)), "llvm": ("module", ("sum",))}
"""The function of `tests.helpers` that makes a module of each compiler, with its arguments."""


def make(compiler: str) -> Any:
    """Return a module of a compiler.

    No other compiler is imported: each worker process would import it too, for seconds.
    """
    name, arguments = COMPILERS[compiler]
    return getattr(import_module(f"tests.helpers.{compiler}_modules"), name)(*arguments)


@pytest.mark.parametrize("compiler", COMPILERS)
async def test_crash_leaves_a_reproducer_and_other_modules(compiler: str, tmp_path: Path) -> None:
    mods: dict[str, Any] = {name: make(compiler) for name in ("good", "bad", "other")}
    adapter = apass.adapter_for(mods["bad"])
    async with apass.PassContext(instruments=[ReproducerInstrument(tmp_path)]):
        outcomes: Any = await apass.optimize_all(mods, Crash, executor=ProcessExecutor(workers=1), errors="collect")
    error = outcomes["bad"].error
    assert isinstance(error, apass.errors.WorkerLostError)
    assert str(error).endswith(": the worker process died (SIGSEGV)")
    assert all(adapter.equal(outcomes[name].module, mods[name]) for name in ("good", "other"))
    replayed = await apass.replay(tmp_path / "bad" / "1_tests.adapters.Crash", Crash)
    assert (replayed.verdict.name, type(replayed.error)) == ("SAME", apass.errors.WorkerLostError)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.both_loops
async def test_cancelled_run_leaves_no_process(compiler: str, tmp_path: Path) -> None:
    await end_idle_workers()
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    started = anyio.Path(tmp_path / "started")
    async with anyio.create_task_group() as group:

        async def work() -> None:
            await apass.optimize_all({str(started): make(compiler)}, Sleep, executor=ProcessExecutor(workers=2))

        group.start_soon(work)
        while not await started.exists():  # noqa: ASYNC110  another process creates it
            await anyio.sleep(0.05)
        group.cancel_scope.cancel()
    await end_idle_workers()
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
