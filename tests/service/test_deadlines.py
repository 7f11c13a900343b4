"""Deadlines of jobs, in the queue and while they run."""

import anyio
import pytest

import apass
from apass.service import JobFailedError, JobState, Limits, Optimizer
from apass.service.deadlines import SPARE, Deadlines
from apass.service.live_job import LiveJob
from tests.service.loop_passes import PLAIN, Gate, Module, reached
from tests.service.stored_jobs import live_job

pytestmark = pytest.mark.anyio


async def test_deadline_ends_its_own_queued_job() -> None:
    gate, block = Gate(), Gate()
    async with Optimizer({"gate": gate.wait, "block": block.wait}, limits=Limits(running=1)) as optimizer:
        await optimizer.submit({"f": 1}, pipeline="block", options=PLAIN)
        queued, *others = [
            await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, deadline=seconds)
            for seconds in (0.01, None, 100)
        ]
        with pytest.raises(
            JobFailedError, match=r"BudgetExceededError: .* not end within 0.01 s, its deadline; it was queued"
        ):
            await queued.result()
        block.opened.set()
        gate.opened.set()
        assert [(await job.wait()).state for job in others] == 2 * [JobState.DONE]
        assert optimizer.status().queued == 0
    assert len(gate.started) == 1


async def test_deadline_ends_running_job(idle_clock: None) -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, deadline=20)
        with pytest.raises(JobFailedError, match="BudgetExceededError") as caught:
            await job.result()
    assert caught.value.failure.pass_name == "Gate"
    assert caught.value.failure.message == "the job did not end within 20 s, its deadline; pass 'Gate' was running"
    assert gate.cancelled == 1


async def test_default_deadline_is_that_of_limits() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, limits=Limits(deadline=0.01, max_deadline=0.02)) as optimizer:
        jobs = [
            await optimizer.submit({"f": number}, pipeline="gate", options=PLAIN, deadline=seconds)
            for number, seconds in enumerate((None, 0.02))
        ]
        for job, seconds in zip(jobs, (0.01, 0.02), strict=True):
            record = await job.wait()
            assert record.state is JobState.FAILED
            assert record.deadline == pytest.approx(record.created + seconds)


async def test_job_with_later_deadline_is_computed_alone() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        # So long that none ends during the test.
        short = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, deadline=1000)
        await reached(short, "started")
        shorter = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, deadline=500)
        longer = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        also_longer = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, deadline=2000)
        await reached(longer, "started")
        gate.opened.set()
        for job in (short, shorter, longer, also_longer):
            assert await job.result() == {"f": 1, "passed": 1}
    assert len(gate.started) == 2


async def test_deadline_ends_its_own_job_among_equal_ones() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        short, shorter, longer, also_longer = [
            await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, deadline=seconds)
            for seconds in (0.05, 0.01, None, 100)
        ]
        await reached(longer, "started")
        for job in (shorter, short):
            with pytest.raises(JobFailedError, match="BudgetExceededError"):
                await job.result()
        gate.opened.set()
        for job in (longer, also_longer):
            assert await job.result() == {"f": 1, "passed": 1}


async def test_deadline_covers_pass_that_ignores_cancellation(idle_clock: None) -> None:
    ended = anyio.Event()

    @apass.module_pass(opt_level=0, name="Stubborn")
    async def stubborn(mod: Module, ctx: apass.PassContext) -> Module:
        with anyio.CancelScope(shield=True):
            await ended.wait()
        return mod

    async with Optimizer({"stubborn": stubborn}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="stubborn", options=PLAIN, deadline=10)
        with pytest.raises(JobFailedError, match=r"within 10 s, its deadline; pass 'Stubborn' was run") as caught:
            await job.result()
        assert caught.value.failure.pass_name == "Stubborn"
        assert optimizer.status().running == 1
        ended.set()
        await anyio.wait_all_tasks_blocked()
        assert optimizer.status().running == 0


async def test_deadlines_of_ended_jobs_are_forgotten() -> None:
    due: list[LiveJob] = []
    called = anyio.Event()

    def on_due(live: LiveJob) -> None:
        due.append(live)
        called.set()

    deadlines = Deadlines(on_due)
    now = anyio.current_time()
    ended, last = live_job(), live_job()
    ended.is_ending = True
    async with anyio.create_task_group() as group:
        group.start_soon(deadlines.run)
        for _ in range(5 * SPARE):
            deadlines.add(ended, now + 1000)
        assert len(vars(deadlines)["_heap"]) <= SPARE
        deadlines.add(ended, now)
        deadlines.add(last, now + 0.01)
        await called.wait()
        group.cancel_scope.cancel()
    assert due == [last]
