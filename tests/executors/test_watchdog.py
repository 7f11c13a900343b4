"""Workers that are stopped, and the time that their parent grants them."""

import os
import signal
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from apass import PassContext
from apass.concurrency.processes.pool import READY, RECEIVED, run_in_worker
from apass.executors import ProcessExecutor
from apass.executors.watchdog import BEGUN, ENDED, INTERVAL, LATE_SECONDS, START_SECONDS, TICK, Patience
from apass.testing import idle_clock
from tests.executors import work

pytestmark = pytest.mark.anyio

STEP = 2.0
"""Seconds between two messages."""


@pytest.mark.parametrize(
    ("messages", "granted"),
    [
        ([], START_SECONDS),
        ([READY], LATE_SECONDS),
        ([READY, READY, RECEIVED], START_SECONDS),
        ([READY, RECEIVED, BEGUN], 2 + INTERVAL + LATE_SECONDS),
        ([READY, RECEIVED, *[BEGUN] * 20], 2 + INTERVAL + LATE_SECONDS),
        ([READY, RECEIVED, BEGUN, ENDED], START_SECONDS),
    ],
)
async def test_patience_depends_on_the_last_message(anyio_backend: str, messages: list[bytes], granted: float) -> None:
    async def measure() -> float:
        patience = Patience(limit=2)
        start = anyio.current_time()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(patience.cancel_when_over, scope)
                for message in messages:
                    await anyio.sleep(STEP)
                    patience.on_message(message)
                await anyio.sleep_forever()
        return anyio.current_time() - start - STEP * len(messages)

    with idle_clock(anyio_backend) as (backend, options):
        # In a thread, because the tests of this folder run in an event loop with a clock that does not jump.
        seconds = await to_thread.run_sync(partial(anyio.run, measure, backend=backend, backend_options=options))
    assert granted - 2 * TICK < seconds < granted + 2 * TICK


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("others", [0, 3])
async def test_stopped_worker_is_given_up_soon(tmp_path: Path, others: int) -> None:
    executor = ProcessExecutor(workers=1, timeout=1.0)
    mod = {f"f{i}": "x" for i in range(others)} | {"stopped": str(tmp_path / "was here")}
    with anyio.fail_after(START_SECONDS / 2):
        async with PassContext(executor=executor):
            assert await work.StopOnce(mod) == dict.fromkeys(mod, "done")


@pytest.mark.process
@pytest.mark.slow
async def test_worker_stopped_before_the_request_is_given_up() -> None:
    executor = ProcessExecutor(workers=1, timeout=1.0)
    pid = await executor.call(work.pid_after, 0.0)
    os.kill(pid, signal.SIGSTOP)
    with anyio.fail_after(START_SECONDS / 2):
        assert await executor.call(work.pid_after, 0.0) != pid


@pytest.mark.process
async def test_worker_reports_the_request_and_sends_messages() -> None:
    messages: list[bytes] = []
    assert await run_in_worker(work.send_twice, on_message=messages.append) == "sent"
    assert messages == [READY, RECEIVED, b"one", b"two"]


@pytest.mark.process
@pytest.mark.slow
async def test_time_to_load_the_work_is_not_limited() -> None:
    executor = ProcessExecutor(workers=1, timeout=0.5)
    assert await executor.call(isinstance, work.SlowToLoad(), int)
