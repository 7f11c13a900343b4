"""Worker processes: taken up again when they are free, killed when they are cancelled, and never lost."""

import os
import time

import anyio
import psutil
import pytest

from apass.process_pool import run_in_worker

pytestmark = pytest.mark.anyio


def children() -> set[int]:
    """The processes that this one has started and that have not ended."""
    return {one.pid for one in psutil.Process().children() if one.status() != psutil.STATUS_ZOMBIE}


async def test_a_free_process_is_taken_up_again() -> None:
    first = await run_in_worker(os.getpid)
    assert [await run_in_worker(os.getpid) for _ in range(3)] == [first] * 3
    assert first != os.getpid()


async def test_no_process_is_lost_that_is_cancelled_as_it_starts() -> None:
    before = children()
    with anyio.move_on_after(0) as scope:
        await run_in_worker(time.sleep, 600)
    assert scope.cancelled_caught
    # It is there for who comes next, and nothing else is.
    assert children() - before == {await run_in_worker(os.getpid)}


async def test_a_process_that_is_cancelled_at_its_work_is_killed() -> None:
    pid = await run_in_worker(os.getpid)
    async with anyio.create_task_group() as group:
        group.start_soon(run_in_worker, time.sleep, 600)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert pid not in children()
    assert await run_in_worker(os.getpid) != pid


async def test_what_the_function_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await run_in_worker(divmod, 1, 0)


async def test_a_process_that_ends_is_told_and_replaced() -> None:
    with pytest.raises(anyio.BrokenWorkerProcess):
        await run_in_worker(os._exit, 3)
    assert await run_in_worker(abs, -3) == 3
