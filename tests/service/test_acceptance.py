"""Jobs that the store finds while they end."""

import anyio
import pytest

from apass.service import Job, JobRecord, MemoryJobStore, Optimizer
from tests.service.loop_passes import PLAIN, Gate

pytestmark = pytest.mark.anyio


class SlowStore(MemoryJobStore):
    """A store whose answers are old when they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.has_read = anyio.Event()
        self.may_go_on = anyio.Event()

    async def find_idempotent(self, tenant: str, idempotency_key: str) -> JobRecord | None:
        """Return a job, after it may have ended."""
        record = await super().find_idempotent(tenant, idempotency_key)
        if record is not None:
            self.has_read.set()
            await self.may_go_on.wait()
        return record


async def test_job_may_end_while_it_is_found() -> None:
    store, gate = SlowStore(), Gate()
    async with Optimizer({"gate": gate.wait}, store=store) as optimizer:
        jobs: list[Job[object]] = []

        async def submit() -> None:
            jobs.append(await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, idempotency_key="one"))

        await submit()
        async with anyio.create_task_group() as group:
            group.start_soon(submit)
            await store.has_read.wait()
            gate.opened.set()
            await jobs[0].wait()
            store.may_go_on.set()
        assert jobs[1].id == jobs[0].id
        assert await jobs[1].result() == await jobs[0].result()
