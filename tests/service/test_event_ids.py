"""The ids of the events of a job increase, whatever happens to its attempts."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

import apass
from apass.service import Limits, Optimizer
from apass.service.job_store import Blob
from apass.service.jobs import JobEvent, JobRecord, JobState
from apass.service.live_job import LiveJob
from tests.service.stored_jobs import new_job

pytestmark = pytest.mark.anyio

Module = dict[str, Any]


def ignore(record: JobRecord, event: JobEvent) -> None:
    """Do nothing with an event."""


def test_ids_increase_after_attempt_is_given_back() -> None:
    live = LiveJob(new_job(Blob.of(b"model")), 100, ignore)
    for number in (1, 2, 3):
        live.change(replace(live.record, state=JobState.RUNNING, attempts=1, starts=number))
        live.add_event("finished", 1.0, {})
        live.change(replace(live.record, state=JobState.QUEUED, attempts=0))
    resumed = LiveJob(live.record, 100, ignore)
    resumed.change(replace(resumed.record, state=JobState.RUNNING, attempts=1, starts=4))
    ids = [event.id for event in (*live.events, *resumed.events)]
    assert ids == sorted(set(ids))


async def test_client_misses_no_event_after_restart(tmp_path: Path) -> None:
    path, started = tmp_path / "jobs.db", anyio.Event()

    @apass.module_pass(opt_level=0)
    async def WaitOnce(mod: Module, ctx: apass.PassContext) -> Module:
        if not started.is_set():
            started.set()
            await anyio.sleep_forever()
        return {**mod, "g": 1}

    async with Optimizer({"default": WaitOnce}, store=path, limits=Limits(drain=0.01)) as optimizer:
        job = await optimizer.submit({"f": 1})
        await started.wait()
        stream = job.events()
        seen = await anext(stream)
        while seen.kind != "started":
            seen = await anext(stream)
    async with Optimizer({"default": WaitOnce}, store=path) as optimizer:
        again = await optimizer.find(job.id)
        assert await again.result() == {"f": 1, "g": 1}
        ended = await optimizer.find(job.id)
        stored = [event async for event in ended.events()]
        later = [event async for event in ended.events(after=seen.id)]
    states = [event.data["state"] for event in later if event.kind == "state"]
    assert states == ["queued", "queued", "running", "done"]
    ids = [event.id for event in stored]
    assert ids == sorted(set(ids))
    assert stored[-len(later) :] == later
