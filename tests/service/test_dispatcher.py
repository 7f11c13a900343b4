"""The order of jobs, limits, and what a cancellation affects."""

from collections import Counter
from typing import Any

import anyio
import pytest

from apass.service import Job, JobState, Limits, Optimizer, QueueFullError
from tests.service.loop_passes import PLAIN, Gate, reached

pytestmark = pytest.mark.anyio


async def submit_all(optimizer: Optimizer, gate: Gate, jobs: list[tuple[str, str, int]]) -> list[Job[Any]]:
    """Submit jobs (name, tenant, priority) behind one that occupies the only slot."""
    first = await optimizer.submit({"name": "first"}, pipeline="gate", options=PLAIN, tenant="first")
    await reached(first, "started")
    return [
        await optimizer.submit({"name": name}, pipeline="gate", options=PLAIN, tenant=tenant, priority=priority)
        for name, tenant, priority in jobs
    ]


def order(gate: Gate) -> str:
    """Return the names of the jobs in order of their start, without the first."""
    return "".join(mod["name"] for mod in gate.started[1:])


async def test_greater_priority_runs_first() -> None:
    gate = Gate()
    waiting = [("c", "t", 0), ("d", "t", 0), ("a", "t", 5), ("e", "t", -1), ("b", "t", 5), ("f", "t", -1)]
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1)) as optimizer:
        # An equal job raises the priority of the first one.
        jobs = await submit_all(optimizer, gate, [*waiting, ("d", "t", 1)])
        gate.opened.set()
        for job in jobs:
            await job.wait()
    assert order(gate) == "abdcef"


async def test_tenants_share_slots_by_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    # Each job takes one second.
    monkeypatch.setattr("apass.service.work.perf_counter", lambda: float(len(gate.started)))
    jobs = [(f"{name[0]}{index}", name, 0) for index in range(20) for name in ("heavy", "light")]
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1, weights={"heavy": 3.0})) as optimizer:
        handles = await submit_all(optimizer, gate, jobs)
        gate.opened.set()
        for job in handles:
            await job.wait()
    assert Counter(mod["name"][0] for mod in gate.started[1:13]) == {"h": 9, "l": 3}


@pytest.mark.parametrize(("limits", "most"), [(Limits(running=3), 3), (Limits(tenant_running=2), 4)])
async def test_no_more_jobs_run_than_allowed(limits: Limits, most: int) -> None:
    gate = Gate()
    gate.opened.set()
    async with Optimizer({"gate": gate.wait}, limits=limits) as optimizer:
        # After so many short jobs, a worker process would get a further batch in advance.
        for index in range(60):
            await (await optimizer.submit({"short": index}, pipeline="gate", options=PLAIN)).wait()
        gate.opened = anyio.Event()
        jobs = [
            await optimizer.submit({"f": index}, pipeline="gate", options=PLAIN, tenant="ab"[index % 2])
            for index in range(10)
        ]
        await anyio.wait_all_tasks_blocked()
        assert len(gate.started) - 60 == optimizer.status().running == most
        assert optimizer.status().queued == 10 - most
        gate.opened.set()
        assert {(await job.wait()).state for job in jobs} == {JobState.DONE}


@pytest.mark.parametrize(
    ("limits", "message"),
    [(Limits(running=1, queued=2), "2 jobs wait"), (Limits(running=1, tenant_queued=2), "2 jobs of the tenant wait")],
)
async def test_full_queue_refuses_or_waits(limits: Limits, message: str) -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, limits=limits) as optimizer:
        await submit_all(optimizer, gate, [("a", "t", 0), ("b", "t", 0)])
        with pytest.raises(QueueFullError, match=message):
            await optimizer.submit({"name": "c"}, pipeline="gate", options=PLAIN, tenant="t", wait=False)
        # An equal job needs no room, but it is not known to be one before it is accepted.
        done: list[str] = []

        async def submit(name: str) -> None:
            job = await optimizer.submit({"name": name}, pipeline="gate", options=PLAIN, tenant="t")
            done.append((await job.result())["name"])

        async with anyio.create_task_group() as group:
            for name in "cde":
                group.start_soon(submit, name)
            await anyio.wait_all_tasks_blocked()
            assert done == []
            assert optimizer.status().jobs == 3
            gate.opened.set()
        assert sorted(done) == ["c", "d", "e"]
        assert order(gate).startswith("ab")


async def test_job_without_need_leaves_room() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1, queued=1)) as optimizer:
        first = await optimizer.submit({"name": "x"}, pipeline="gate", options=PLAIN)
        await reached(first, "started")
        handles: list[Job[Any]] = []

        async def submit() -> None:
            handles.append(await optimizer.submit({"name": "x"}, pipeline="gate", options=PLAIN))

        # All ask for the only room. Equal jobs leave it again.
        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(5):
                    group.start_soon(submit)
        assert optimizer.status().queued == 0
        gate.opened.set()
        assert {(await job.wait()).state for job in handles} == {JobState.DONE}
    assert len(gate.started) == 1


async def test_rate_of_tenant_refuses_or_waits() -> None:
    async with Optimizer({"default": ""}, limits=Limits(tenant_rate=0.001)) as optimizer:
        await optimizer.submit({"f": 0}, tenant="a", wait=False)
        with pytest.raises(QueueFullError, match=r"0.001 jobs per second") as caught:
            await optimizer.submit({"f": 1}, tenant="a", wait=False)
        assert caught.value.retry_after == 1000
        with anyio.move_on_after(0.01) as scope:
            await optimizer.submit({"f": 1}, tenant="a")
        assert scope.cancelled_caught
        await optimizer.submit({"f": 0}, tenant="b", wait=False)
    async with Optimizer({"default": ""}, limits=Limits(tenant_rate=50)) as optimizer:
        start = anyio.current_time()
        for index in range(60):
            await optimizer.submit({"f": index}, tenant="a")
        assert anyio.current_time() - start >= 0.19


async def test_cancelled_leader_leaves_work_to_equal_job() -> None:
    gate, block = Gate(), Gate()
    async with Optimizer({"gate": gate.wait, "block": block.wait}, limits=Limits(running=1)) as optimizer:
        await optimizer.submit({"f": 0}, pipeline="block", options=PLAIN)
        jobs = [await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN) for _ in range(3)]
        # One is cancelled in the queue, and one while it runs.
        await jobs[0].cancel()
        block.opened.set()
        await reached(jobs[1], "started")
        await jobs[1].cancel()
        late = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, priority=1)
        gate.opened.set()
        assert await jobs[2].result() == await late.result() == {"f": 1, "passed": 1}
        assert [job.record.state for job in jobs[:2]] == 2 * [JobState.CANCELLED]
        assert late.record.attempts == 1
    assert (len(gate.started), gate.cancelled) == (1, 0)


async def test_last_equal_job_that_is_cancelled_stops_work() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        jobs = [await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN) for _ in range(3)]
        await reached(jobs[0], "started")
        for job in jobs:
            assert gate.cancelled == 0
            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(job.cancel)
            states = [event.data["state"] async for event in job.events() if event.kind == "state"]
            assert states[-1] == "cancelled"
            assert states.count("cancelled") == 1
        await anyio.wait_all_tasks_blocked()
        assert gate.cancelled == 1
        assert optimizer.status().running == 0
        # A later one is a new computation.
        again = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        gate.opened.set()
        assert (await again.wait()).state is JobState.DONE
