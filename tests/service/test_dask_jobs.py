"""Jobs on a real Dask cluster, whose processes are killed, stopped and restarted."""

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.debugging.replay import Verdict, replay
from apass.errors import ExecutorError
from apass.service import Job, JobFailedError, Limits, Optimizer
from apass.service.reproducers import write_job_reproducer
from tests.executors.dask_cluster import dask_cluster
from tests.executors.files import pid_in
from tests.service import job_passes

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, pytest.mark.slow]

PIPELINES = {"wait": "jobs.WaitOnce,jobs.Increment", "die": "jobs.Die,jobs.Increment"}

EVENTS = [
    ("state", "running"),
    ("started", "sequential"),
    ("started", "jobs.WaitOnce"),
    ("finished", "jobs.WaitOnce"),
    ("started", "jobs.Increment"),
    ("finished", "jobs.Increment"),
    ("finished", "sequential"),
    ("state", "done"),
]
"""The events of the last attempt of a job."""


MISSING = (
    r"process \d+ on \S+ has no module 'passes_of_mine', .*\(No module named 'passes_of_mine'\); "
    r"install the module on all workers"
)
"""The error of a worker without the module of a pass."""


async def events_of(job: Job[Any]) -> Sequence[tuple[str, Any]]:
    return [(event.kind, event.data.get("state") or event.data.get("pass")) async for event in job.events()]


def optimizer(address: str, attempts: int = 1, pipelines: dict[str, str] = PIPELINES) -> Optimizer:
    assert job_passes.WaitOnce is not None
    return Optimizer(pipelines, executor=address, limits=Limits(attempts=attempts))


async def test_scheduler_restarted_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    async with dask_cluster() as cluster, optimizer(cluster.address) as service:
        waiting: Job[Any] = await service.submit({"f": 0, "wait": str(tmp_path / "pid")}, pipeline="wait")
        jobs: list[Job[Any]] = [await service.submit({"f": number}, pipeline="wait") for number in range(1, 60)]
        await pid_in(tmp_path / "pid")
        cluster.scheduler.kill()
        for number, job in enumerate([waiting, *jobs]):
            assert (await job.result())["f"] == number + 1
            # The attempts that were lost with the scheduler do not count.
            assert job.record.attempts == 1
            events = await events_of(job)
            assert (events[0], events[-len(EVENTS) :]) == (("state", "queued"), EVENTS)


@pytest.mark.parametrize(("number", "attempts"), [(signal.SIGKILL, 2), (signal.SIGSTOP, 5)])
async def test_lost_worker_loses_no_job(tmp_path: Path, number: int, attempts: int) -> None:
    ttl = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "5s"}
    async with dask_cluster(scheduler=ttl) as cluster, optimizer(cluster.address, attempts) as service:
        waiting = await service.submit({"f": 1, "wait": str(tmp_path / "pid")}, pipeline="wait")
        jobs = [await service.submit({"f": index}, pipeline="wait") for index in range(40)]
        os.kill(await pid_in(tmp_path / "pid"), number)
        assert (await waiting.result())["f"] == 2
        assert number == signal.SIGSTOP or waiting.record.attempts == 2
        assert [await job.result() for job in jobs] == [{"f": index + 1} for index in range(40)]


async def test_poison_job_fails_after_its_attempts(tmp_path: Path) -> None:
    async with dask_cluster() as cluster, optimizer(cluster.address, attempts=3) as service:
        poison = await service.submit({"f": 1, "log": str(tmp_path / "log"), "die": 100}, pipeline="die")
        jobs = [await service.submit({"f": number}, pipeline="wait") for number in range(20)]
        with pytest.raises(JobFailedError, match=r"in each of 3 attempts: .*; pass 'jobs.Die' was running"):
            await poison.result()
        assert [await job.result() for job in jobs] == [{"f": number + 1} for number in range(20)]
        # Dask has not repeated it below the attempts.
        assert (tmp_path / "log").read_text() == "xxx"
        folder = await write_job_reproducer(await poison.wait(), await poison.model(), PIPELINES, tmp_path / "failure")
        assert (await replay(folder)).verdict is Verdict.SAME


async def test_missing_module_on_a_worker_is_named(tmp_path: Path) -> None:
    module = tmp_path / "passes_of_mine.py"
    module.write_text(
        "import apass\n\n\n@apass.register_pass('mine.Pass')\n@apass.function_pass(opt_level=0)\n"
        "def Pass(func, mod, ctx):\n    return func\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.path", [str(tmp_path), *sys.path])
        import_module("passes_of_mine")
        async with dask_cluster({}) as cluster, optimizer(cluster.address, pipelines={"m": "mine.Pass"}) as service:
            job = await service.submit({"f": 1}, pipeline="m")
            with pytest.raises(JobFailedError, match=MISSING):
                await job.result()
            with pytest.raises(ExecutorError, match=MISSING):
                await apass.get_pass("mine.Pass")({"f": 1}, apass.PassContext(executor=cluster.address))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_other_version_on_a_worker_is_refused(tmp_path: Path) -> None:
    metadata = tmp_path / "apass-0.0.1.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: apass\nVersion: 0.0.1\n")
    other = {"PYTHONPATH": f"{tmp_path}:{Path.cwd()}"}
    async with dask_cluster(other) as cluster:
        with pytest.raises(ExecutorError, match=r"the Dask worker tcp://\S+ has apass 0.0.1, and this program has"):
            async with optimizer(cluster.address):
                pytest.fail("the optimizer is open")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_two_thousand_jobs_end_once_each() -> None:
    async with dask_cluster() as cluster, optimizer(cluster.address) as service:
        jobs = [await service.submit({"f": number}, pipeline="wait") for number in range(2000)]
        assert [await job.result() for job in jobs] == [{"f": number + 1} for number in range(2000)]
