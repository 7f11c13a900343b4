"""Time limits count work, and not the time in a queue."""

import anyio
import pytest

from apass.concurrency.work_limits import limited_work, uncounted

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("idle_clock")]


async def wait_in_queue(seconds: float) -> None:
    with uncounted():
        await anyio.sleep(seconds)


async def fail_in_queue() -> None:
    with uncounted():
        await anyio.sleep(100)
        raise OSError("lost")


async def test_work_is_cancelled_at_its_limit() -> None:
    with limited_work(5) as work:
        await anyio.sleep(60)
    assert (anyio.current_time(), work.is_over, work.is_ended) == (5.0, True, False)


async def test_time_in_queues_does_not_count() -> None:
    with limited_work(5) as work:
        for _ in range(3):
            await wait_in_queue(100)
            await anyio.sleep(1)
        assert not work.is_over
        await anyio.sleep(60)
    assert anyio.current_time() == 305.0


async def test_outer_limits_are_paused_too() -> None:
    with limited_work(5) as outer, limited_work(3):
        await anyio.sleep(2)
        await wait_in_queue(100)
        await anyio.sleep(60)
    assert (anyio.current_time(), outer.is_over) == (103.0, False)


async def test_limit_is_paused_while_one_task_queues() -> None:
    with limited_work(5):
        async with anyio.create_task_group() as group:
            group.start_soon(wait_in_queue, 10)
            group.start_soon(wait_in_queue, 20)
            await anyio.sleep(60)
    assert anyio.current_time() == 25.0


async def test_end_applies_within_a_queue() -> None:
    with limited_work(5, left=8) as work:
        await wait_in_queue(100)
    assert (anyio.current_time(), work.is_ended) == (8.0, True)


async def test_limit_continues_after_a_failed_wait() -> None:
    with limited_work(5):
        with pytest.raises(OSError, match="lost"):
            await fail_in_queue()
        await anyio.sleep(60)
    assert anyio.current_time() == 105.0


async def test_limits_of_other_threads_are_left_alone() -> None:
    def queue_in_thread() -> float:
        with uncounted():
            return work.scope.deadline

    with limited_work(5) as work:
        # Elsewhere in a thread, which inherits the limits, another event loop may run.
        assert await anyio.to_thread.run_sync(queue_in_thread) == 5.0
