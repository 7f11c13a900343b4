"""The end of an optimizer: what happens to jobs, and that nothing is left."""

import asyncio
import gc
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass.adapters.onnx import model_to_bytes
from apass.service import (
    Job,
    JobCancelledError,
    JobRecord,
    JobState,
    Limits,
    MemoryJobStore,
    Optimizer,
    OptimizerClosedError,
)
from tests.helpers.folders import files
from tests.helpers.onnx_models import with_functions
from tests.service.job_stores import DurableStore, FaultyStore
from tests.service.loop_passes import PLAIN, Gate, add, reached

pytestmark = pytest.mark.anyio

SHORT = Limits(running=1, drain=0.05)


async def submit_two(optimizer: Optimizer, pipeline: str = "gate") -> list[Job[Any]]:
    """Return a job that runs, and one that waits."""
    jobs = [await optimizer.submit({"f": index}, pipeline=pipeline, options=PLAIN) for index in range(2)]
    await reached(jobs[0], "started")
    return jobs


async def test_drain_ends_running_and_cancels_queued_jobs() -> None:
    gate, store = Gate(), MemoryJobStore()
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1), store=store) as optimizer:
        jobs = await submit_two(optimizer)
        async with anyio.create_task_group() as group:
            group.start_soon(optimizer.drain)
            await anyio.wait_all_tasks_blocked()
            assert not optimizer.status().accepts
            gate.opened.set()
        assert await jobs[0].result() == {"f": 0, "passed": 1}
        with pytest.raises(JobCancelledError, match="the optimizer ended before the job"):
            await jobs[1].result()
    assert len(gate.started) == 1
    assert await store.count() == {JobState.DONE: 1, JobState.CANCELLED: 1}


async def test_durable_store_keeps_jobs_for_next_start() -> None:
    gate, store = Gate(), DurableStore()
    async with Optimizer({"gate": gate.wait, "add": add(1)}, limits=SHORT, store=store) as optimizer:
        done = await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN)
        await done.wait()
        jobs = await submit_two(optimizer)
        jobs.append(await optimizer.submit({"f": 0}, pipeline="gate", options=PLAIN))
        found = await optimizer.find(jobs[0].id)
        ended: list[str] = []

        async def wait(job: Job[Any]) -> None:
            with pytest.raises(OptimizerClosedError, match="has ended before job"):
                await job.result()
            ended.append(job.id)

        async with anyio.create_task_group() as group:
            for job in jobs:
                group.start_soon(wait, job)
            await anyio.wait_all_tasks_blocked()
            await optimizer.drain()
        # It has no state in this process any more.
        later = await optimizer.find(jobs[0].id)
        with pytest.raises(OptimizerClosedError, match="has ended before job"):
            await later.cancel()
        # Their events end too, so that a client connects to the next server.
        seen = [[event.id async for event in job.events()] for job in jobs]
    assert sorted(ended) == sorted(job.id for job in jobs)
    for job in (*jobs, found, later):
        with pytest.raises(OptimizerClosedError, match="has ended before job"):
            await job.cancel()
    assert (await done.cancel()).state is JobState.DONE
    assert await store.count() == {JobState.QUEUED: 3, JobState.DONE: 1}
    gate.opened.set()
    async with Optimizer({"gate": gate.wait}, limits=Limits(attempts=1), store=store) as optimizer:
        for job, before in zip(jobs, seen, strict=True):
            again = await optimizer.find(job.id)
            assert await again.result() == {"f": int(job is jobs[1]), "passed": 1}
            events = [event async for event in again.events()]
            ids = [event.id for event in events]
            assert ids == sorted(set(ids))
            # A client that has seen the events of the first server gets the further ones only.
            further = [event.id async for event in again.events(before[-1])]
            assert further == ids[-len(further) :]
            assert further[0] > before[-1]
            assert again.record.attempts == 1
        first = [event async for event in (await optimizer.find(jobs[0].id)).events()]
        states = [event.data["state"] for event in first if event.kind == "state"]
        assert states == ["queued", "running", "queued", "queued", "running", "done"]
    assert len(gate.started) == 3


async def test_job_of_killed_server_fails_after_attempts() -> None:
    gate, store = Gate(), DurableStore()
    gate.opened.set()
    limits = Limits(attempts=2)
    async with Optimizer({"gate": gate.wait}, limits=limits, store=store) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        record = await job.wait()
    ends: list[JobRecord] = []
    for attempts in (1, 2):
        # A server that is killed in an attempt leaves this.
        killed = record.with_state(JobState.RUNNING, attempts=attempts, result_digest=None)
        vars(store)["_jobs"][job.id] = killed
        async with Optimizer({"gate": gate.wait}, limits=limits, store=store) as optimizer:
            ends.append(await (await optimizer.find(job.id)).wait())
    assert [end.state for end in ends] == [JobState.DONE, JobState.FAILED]
    assert len(gate.started) == 2
    failure = ends[1].failure
    assert failure is not None
    assert failure.kind == "WorkerLostError"
    assert "in each of 2 attempts: the server was stopped" in failure.message


async def test_drain_with_dead_store_ends() -> None:
    gate, store = Gate(), FaultyStore()
    pipelines = {"gate": gate.wait}
    jobs: list[Job[Any]] = []

    async def cancel() -> None:
        with pytest.raises(OptimizerClosedError, match="has ended before job"):
            await jobs[2].cancel()

    async with anyio.create_task_group() as group, Optimizer(pipelines, limits=SHORT, store=store) as optimizer:
        jobs += await submit_two(optimizer)
        jobs.append(await optimizer.submit({"f": 9}, pipeline="gate", options=PLAIN))
        store.before = {"update", "find", "close"}
        group.start_soon(cancel)
        await anyio.wait_all_tasks_blocked()
    for job in jobs:
        with pytest.raises(OptimizerClosedError):
            await job.wait()
    # The next start finds all of them.
    store.before = set()
    gate.opened.set()
    async with Optimizer({"gate": gate.wait}, store=store) as optimizer:
        for job in jobs:
            assert (await (await optimizer.find(job.id)).wait()).state is JobState.DONE


async def test_submission_while_draining_is_refused_or_ends() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1, queued=1)) as optimizer:
        await submit_two(optimizer)
        refused: list[str] = []

        async def submit(index: int) -> None:
            try:
                job = await optimizer.submit({"g": index}, pipeline="gate", options=PLAIN)
            except OptimizerClosedError:
                refused.append("refused")
            else:
                refused.append(str((await job.wait()).state))

        async with anyio.create_task_group() as group:
            for index in range(3):
                group.start_soon(submit, index)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(optimizer.drain)
            group.start_soon(submit, 3)
            await anyio.wait_all_tasks_blocked()
            gate.opened.set()
        assert refused == 4 * ["refused"]


async def test_drain_by_several_tasks_is_one_drain() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1)) as optimizer:
        jobs = await submit_two(optimizer)
        async with anyio.create_task_group() as group:
            with anyio.move_on_after(0.01):
                await optimizer.drain()
            for _ in range(2):
                group.start_soon(optimizer.drain)
            await anyio.wait_all_tasks_blocked()
            # The block does not end the job that another drain still waits for.
            assert jobs[0].record.state is JobState.RUNNING
            gate.opened.set()
        assert jobs[0].record.state is JobState.DONE
        await optimizer.wait_drained()


@pytest.mark.parametrize("leave", ["end", "error", "cancellation"])
async def test_end_of_block_ends_jobs(leave: str) -> None:
    gate = Gate()
    jobs: list[Job[Any]] = []
    with anyio.CancelScope() as scope, suppress(KeyError):
        async with Optimizer({"gate": gate.wait}, limits=SHORT) as optimizer:
            jobs += await submit_two(optimizer)
            if leave == "error":
                raise KeyError
            if leave == "cancellation":
                scope.cancel()
                await anyio.sleep_forever()
    assert scope.cancelled_caught == (leave == "cancellation")
    assert gate.cancelled == 1
    assert [(await job.wait()).state for job in jobs] == 2 * [JobState.CANCELLED]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_native_timeout_around_block_leaves_nothing() -> None:
    gate = Gate()
    jobs: list[Job[Any]] = []

    async def main() -> None:
        async with Optimizer({"gate": gate.wait}, limits=Limits(running=1)) as optimizer:
            jobs.extend(await submit_two(optimizer))
            await asyncio.sleep(1000)

    task = asyncio.ensure_future(main())
    while len(jobs) < 2:
        await anyio.lowlevel.checkpoint()
    for _ in range(2):
        # The second one arrives while running jobs have time to end.
        await anyio.wait_all_tasks_blocked()
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert gate.cancelled == 1
    for job in jobs:
        with pytest.raises(OptimizerClosedError):
            await job.wait()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def count_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_nothing_is_left_after_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / "model.onnx"
    model = with_functions()
    model.doc_string = "x" * 3_000_000
    path.write_bytes(model_to_bytes(model))
    gate = Gate()
    descriptors = count_files()
    async with anyio.create_task_group():
        before = {task.id for task in anyio.get_running_tasks()}
        async with Optimizer({"add": add(1), "gate": gate.wait, "inline": "onnx.Inline"}, limits=SHORT) as optimizer:
            jobs: list[Job[Any]] = [await optimizer.submit({"f": index}, pipeline="add") for index in range(10)]
            jobs += [
                await optimizer.submit(path, pipeline="inline", options=PLAIN, tenant=str(index)) for index in range(3)
            ]
            for job in jobs:
                await job.result()
            cancelled = await optimizer.submit({"f": 1}, pipeline="gate")
            await reached(cancelled, "started")
            await cancelled.cancel()
            await optimizer.submit({"f": 2}, pipeline="gate")
            await anyio.wait_all_tasks_blocked()
            # Models and results of jobs that have ended are in the store only.
            assert files(tmp_path) == ["model.onnx"]
            assert len(names_in(tmp_path)) == 2
        assert {task.id for task in anyio.get_running_tasks()} <= before
    assert names_in(tmp_path) == ["model.onnx"]
    gc.collect()
    assert count_files() <= descriptors + 1
    assert not [thread for thread in threading.enumerate() if "apass" in thread.name]
