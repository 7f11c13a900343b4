"""Thousands of jobs, with cancellations and faults, all of which end once."""

from collections import Counter
from random import Random
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.service import Job, JobCancelledError, JobEvent, JobFailedError, JobState, Limits, Optimizer
from apass.service.dispatcher import Dispatcher
from apass.service.jobs import ENDED, JobRecord
from tests.helpers.amounts import amount, some
from tests.service.job_stores import FaultyStore
from tests.service.loop_passes import PLAIN, Module

pytestmark = pytest.mark.anyio

COUNT = amount(2_000)


@apass.module_pass(opt_level=0, name="Work")
async def work(mod: Module, ctx: apass.PassContext) -> Module:
    for _ in range(mod["steps"]):
        await checkpoint()
    if mod["fails"]:
        raise ValueError(f"job {mod['f']}")
    return {"f": mod["f"] + 1}


class Ends:
    """An observer that counts the ends of each job."""

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        if event.kind == "state" and record.state in ENDED:
            self.ends[record.id] += 1

    async def run(self, optimizer: Optimizer) -> None:
        """Do nothing."""


async def outcome(job: Job[Any]) -> Any:
    """Return the result, or the class of the error with its message."""
    try:
        return await job.result()
    except JobFailedError as error:
        return error.failure.message
    except JobCancelledError:
        return JobState.CANCELLED


@pytest.mark.slow
@pytest.mark.parametrize("seed", some([1, 2], least=1))
async def test_every_job_in_event_loop_ends_once(seed: int) -> None:
    random, store, ends = Random(seed), FaultyStore(), Ends()
    limits = Limits(running=16, queued=100, tenant_queued=40, tenant_running=8, weights={"t0": 3.0}, events=50)
    ended: Counter[str] = Counter()

    async with Optimizer({"work": work}, store=store, limits=limits, observers=[ends]) as optimizer:

        async def one(index: int, module: Module, values: Random) -> None:
            tenant = f"t{values.randrange(5)}"
            job = await optimizer.submit(
                module,
                pipeline="work",
                options=PLAIN,
                tenant=tenant,
                priority=values.randrange(3),
                deadline=None if values.random() < 0.9 else 60,
                idempotency_key=str(index) if values.random() < 0.2 else None,
            )
            if values.random() < 0.2:
                for _ in range(values.randrange(30)):
                    await checkpoint()
                await job.cancel()
            result = await outcome(job)
            expected = f"job {module['f']}" if module["fails"] else {"f": module["f"] + 1}
            assert result == expected or (result is JobState.CANCELLED and job.record.state is JobState.CANCELLED)
            ended[str(job.record.state)] += 1

        async def disturb() -> None:
            while True:
                for _ in range(200):
                    await checkpoint()
                # Attempts begin again. The pauses of the store are short at first.
                store.before = {"update"}
                await checkpoint()
                store.before = set()

        async with anyio.create_task_group() as group:
            group.start_soon(disturb)
            async with anyio.create_task_group() as jobs:
                for index in range(COUNT):
                    # Some jobs are equal.
                    number = random.randrange(COUNT // 2)
                    module = {"f": number, "steps": random.randrange(4), "fails": number % 10 == 0}
                    jobs.start_soon(one, index, module, Random(f"{seed} {index}"))
            group.cancel_scope.cancel()
        status = optimizer.status()
        assert (status.jobs, status.queued, status.running) == (0, 0, 0)
        assert left_of(optimizer) == {}
    assert sum(ended.values()) == COUNT
    assert set(await store.count()) <= ENDED
    assert sum((await store.count()).values()) == COUNT
    assert ended["done"] > ended["failed"] > 0
    assert ended["cancelled"] > COUNT // 40
    assert set(ends.ends.values()) == {1}
    assert len(ends.ends) == COUNT


def left_of(optimizer: Optimizer) -> dict[str, object]:
    """Return what the dispatcher keeps of jobs that have ended."""
    dispatcher: Dispatcher = vars(optimizer)["_dispatcher"]
    state = vars(dispatcher)
    names = ("_retries", "_by_key", "_of_job", "_of_work", "_running", "_batches", "_cached")
    return {name: state[name] for name in names if state[name]}
