"""Jobs on a real Dask cluster of this machine, also if a worker is killed."""

import os
import signal
from pathlib import Path
from typing import Any

import dask.config as dask_config
import pytest

from apass.executors.dask import DaskExecutor
from apass.service import JobOptions, JobState, Optimizer
from tests.executors.files import pid_in
from tests.service import job_passes

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, pytest.mark.slow]

settings: Any = dask_config

PIPELINES = {"wait": "jobs.WaitOnce,jobs.Increment"}


async def test_killed_dask_worker_loses_no_job(tmp_path: Path) -> None:
    assert job_passes.WaitOnce is not None
    # Killed workers restart slowly on a busy machine.
    late = settings.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    with late:
        async with DaskExecutor(workers=2) as executor, Optimizer(PIPELINES, executor=executor) as optimizer:
            waiting = await optimizer.submit({"f": 1, "wait": str(tmp_path / "pid")}, pipeline="wait")
            jobs = [await optimizer.submit({"f": number}, pipeline="wait") for number in range(40)]
            os.kill(await pid_in(tmp_path / "pid"), signal.SIGKILL)
            assert (await waiting.result())["f"] == 2
            assert [await job.result() for job in jobs] == [{"f": number + 1} for number in range(40)]
            assert {job.record.state for job in jobs} == {JobState.DONE}


async def test_events_of_jobs_arrive_from_cluster() -> None:
    async with DaskExecutor(workers=1) as executor, Optimizer(PIPELINES, executor=executor) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="wait", options=JobOptions(report=False))
        events = [(event.kind, event.data.get("state") or event.data.get("pass")) async for event in job.events()]
    assert events == [
        ("state", "queued"),
        ("state", "running"),
        ("started", "sequential"),
        ("started", "jobs.WaitOnce"),
        ("finished", "jobs.WaitOnce"),
        ("started", "jobs.Increment"),
        ("finished", "jobs.Increment"),
        ("finished", "sequential"),
        ("state", "done"),
    ]
