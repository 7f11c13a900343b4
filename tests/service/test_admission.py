"""Requests that wait for room in the queue."""

from collections import Counter
from typing import Any

import anyio
import pytest

from apass.service import Limits, OptimizerClosedError, QueueFullError
from apass.service.admission import Admission

pytestmark = pytest.mark.anyio


class Queue:
    """A queue that jobs are put in and taken from by hand."""

    def __init__(self, **limits: Any) -> None:
        self.jobs: Counter[str] = Counter()
        self.admission = Admission(Limits(**limits), self.jobs.total, lambda tenant: self.jobs[tenant])
        self.order: list[str] = []

    async def enter(self, tenant: str) -> None:
        """Wait for room, and take it."""
        await self.admission.enter(tenant, wait=True)
        self.order.append(tenant)
        self.jobs[tenant] += 1
        self.admission.leave(tenant)

    def take(self, tenant: str) -> None:
        """Take a job from the queue."""
        self.jobs[tenant] -= 1
        self.admission.admit()


async def test_tenants_that_wait_are_admitted_in_turn() -> None:
    queue = Queue(queued=1)
    async with anyio.create_task_group() as group:
        for tenant in "xaaabbc":
            group.start_soon(queue.enter, tenant)
            await anyio.wait_all_tasks_blocked()
        for _ in range(6):
            assert queue.jobs.total() == 1
            with pytest.raises(QueueFullError, match="1 jobs wait"):
                await queue.admission.enter("new", wait=False)
            queue.take(queue.order[-1])
            await anyio.wait_all_tasks_blocked()
    assert "".join(queue.order) == "xabcaba"


async def test_full_tenant_does_not_block_others() -> None:
    queue = Queue(queued=10, tenant_queued=1)
    async with anyio.create_task_group() as group:
        for tenant in "aabb":
            group.start_soon(queue.enter, tenant)
            await anyio.wait_all_tasks_blocked()
        assert queue.order == ["a", "b"]
        # A request must not overtake those of its tenant that wait.
        queue.jobs["a"] = 0
        with pytest.raises(QueueFullError, match="wait for room"):
            await queue.admission.enter("a", wait=False)
        queue.admission.admit()
        await anyio.wait_all_tasks_blocked()
        assert queue.order == ["a", "b", "a"]
        queue.take("b")
    assert queue.order == ["a", "b", "a", "b"]


async def test_cancelled_request_passes_its_room_on() -> None:
    queue = Queue(queued=1)
    await queue.enter("x")
    scopes = [anyio.CancelScope() for _ in range(4)]

    async def enter(index: int) -> None:
        with scopes[index]:
            await queue.enter(str(index))

    async with anyio.create_task_group() as group:
        for index in range(4):
            group.start_soon(enter, index)
            await anyio.wait_all_tasks_blocked()
        scopes[1].cancel()
        await anyio.wait_all_tasks_blocked()
        # The request is admitted and cancelled before its task runs.
        queue.take("x")
        scopes[0].cancel()
        await anyio.wait_all_tasks_blocked()
        # Which of the two comes first depends on the event loop.
        for tenant in ("0", "2", "3"):
            if tenant in queue.order:
                queue.take(tenant)
                await anyio.wait_all_tasks_blocked()
    assert queue.order[-2:] == ["2", "3"]
    assert queue.jobs.total() == 0
    with anyio.fail_after(60):
        await queue.admission.wait_stored()


async def test_close_refuses_all_requests() -> None:
    queue = Queue(queued=1)
    await queue.enter("x")
    refused: list[str] = []

    async def enter(tenant: str) -> None:
        with pytest.raises(OptimizerClosedError, match="accepts no jobs"):
            await queue.enter(tenant)
        refused.append(tenant)

    async with anyio.create_task_group() as group:
        for tenant in "abb":
            group.start_soon(enter, tenant)
        await anyio.wait_all_tasks_blocked()
        queue.admission.close()
        queue.take("x")
    await enter("c")
    assert sorted(refused) == ["a", "b", "b", "c"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"running": 0}, "running must be a positive int"),
        ({"deadline": "3"}, "deadline must be a positive number"),
        ({"deadline": 100, "max_deadline": 10}, "deadline must be at most max_deadline, got 100 and 10"),
        ({"weights": []}, "weights must be a mapping"),
        ({"weights": {"a": 0}}, "weight of tenant 'a' must be"),
        ({"config": "onnx.depth"}, "config must be a set of names"),
        ({"config": [5]}, "config must be a set of names"),
        ({"config": 5}, "config must be a set of names"),
    ],
)
async def test_invalid_limits_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Limits(**values)
