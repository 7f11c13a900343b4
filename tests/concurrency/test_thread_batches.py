"""Functions in threads: results, errors, batches, limits and cancellation."""

import threading
from typing import Any

import anyio
import pytest

from apass.concurrency.thread_batches import ThreadBatches

pytestmark = pytest.mark.anyio


async def test_results_and_errors_reach_their_callers() -> None:
    def fail() -> None:
        raise ValueError("no")

    async with anyio.create_task_group() as group:
        threads = ThreadBatches(group, 2, 3)
        assert await threads.run(lambda: 3) == 3
        with pytest.raises(ValueError, match="no"):
            await threads.run(fail)


async def test_waiting_functions_share_a_thread() -> None:
    started, release = threading.Event(), threading.Event()
    batches: list[int] = []

    def first() -> None:
        started.set()
        assert release.wait(30)

    def other() -> None:
        batches.append(threading.get_ident())

    async with anyio.create_task_group() as group:
        threads = ThreadBatches(group, 1, 4)
        group.start_soon(threads.run, first)
        await anyio.to_thread.run_sync(started.wait)
        for _ in range(6):
            group.start_soon(threads.run, other)
        await anyio.wait_all_tasks_blocked()
        assert not batches
        release.set()
    assert len(batches) == 6


async def test_at_most_the_given_number_of_threads_run() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1

    async with anyio.create_task_group() as group:
        threads = ThreadBatches(group, 2, 1)
        for _ in range(50):
            group.start_soon(threads.run, work)
    assert 1 <= most <= 2


async def test_cancelled_caller_completes_a_started_function() -> None:
    started, release = threading.Event(), threading.Event()
    calls: list[str] = []

    def first() -> None:
        started.set()
        assert release.wait(30)
        calls.append("first")

    async def run(threads: ThreadBatches, work: Any, scope: anyio.CancelScope) -> None:
        with scope:
            await threads.run(work)

    async with anyio.create_task_group() as group:
        threads = ThreadBatches(group, 1, 4)
        scopes = [anyio.CancelScope(), anyio.CancelScope()]
        group.start_soon(run, threads, first, scopes[0])
        await anyio.to_thread.run_sync(started.wait)
        group.start_soon(run, threads, lambda: calls.append("second"), scopes[1])
        await anyio.wait_all_tasks_blocked()
        for scope in scopes:
            scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not calls
        release.set()
    assert calls == ["first"]
    assert all(scope.cancelled_caught for scope in scopes)
