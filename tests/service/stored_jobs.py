"""Records of jobs, and the stores that keep them."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import anyio

from apass.service import JobsUnavailableError
from apass.service.job_store import Blob, JobChange, JobStore, read_blob
from apass.service.jobs import JobEvent, JobOptions, JobRecord, JobState, JobSummary
from apass.service.live_job import LiveJob

__all__ = [
    "MODEL",
    "done",
    "ended",
    "fill_disk",
    "live_job",
    "new_job",
    "opened",
    "running",
    "states_of",
    "use_full_disk",
]

StoreT = TypeVar("StoreT", bound=JobStore)

MODEL = Blob.of(b"a model")

_NUMBERS = count(1)


def new_job(model: Blob = MODEL, **values: Any) -> JobRecord:
    """Return a job, whose id is greater than that of all before."""
    number = next(_NUMBERS)
    job = JobRecord(
        id=f"{number:032x}",
        tenant="tenant",
        name="model.onnx",
        kind=".onnx",
        result_kind=".onnx",
        pipeline="default",
        options=JobOptions(opt_level=3, config={"key": [1, 2]}),
        priority=0,
        deadline=None,
        key=f"key {number}",
        model_digest=model.digest,
        model_size=model.size,
        created=1000.0 + number,
    )
    return replace(job, **values)


def live_job(limit: int = 1000, **values: Any) -> LiveJob:
    """Return a job of an optimizer, which keeps so many events."""
    return LiveJob(new_job(**values), limit, lambda job, event: None)


def running(job: JobRecord, attempts: int = 1) -> JobChange:
    """Return the change of a job that starts."""
    return JobChange(job.with_state(JobState.RUNNING, attempts=attempts, started=2.0))


def done(job: JobRecord, result: Blob, events: Collection[JobEvent] = (), finished: float = 3.0) -> JobChange:
    """Return the change of a job that is done."""
    values = {
        "result_digest": result.digest,
        "result_size": result.size,
        "summary": JobSummary(5, 4, True, {"Pass": 1}),
    }
    record = job.with_state(JobState.DONE, finished=finished, attempts=1, **values)
    return JobChange(record, [result], list(events))


def ended(job: JobRecord, state: JobState = JobState.CANCELLED, finished: float = 3.0) -> JobChange:
    """Return the change of a job that ends without a result."""
    return JobChange(job.with_state(state, finished=finished))


@asynccontextmanager
async def opened(make: Callable[[], StoreT]) -> AsyncGenerator[StoreT]:
    """Open a store for the block."""
    store = make()
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def states_of(store: JobStore, jobs: Collection[JobRecord]) -> list[JobState | None]:
    """Return the states of jobs in a store."""
    found = [await store.find(job.id) for job in jobs]
    return [None if job is None else job.state for job in found]


def disk_model(number: int, size: int) -> Blob:
    """Return a model of a size that cannot be compressed."""
    return Blob.of(Random(number).randbytes(size))


async def fill_disk(store: JobStore, size: int) -> list[JobRecord]:
    """Add jobs with models of a size until the disk is full; the last one is refused."""
    jobs: list[JobRecord] = []
    refusal: JobsUnavailableError | None = None
    while refusal is None:
        model = disk_model(len(jobs), size)
        jobs.append(new_job(model))
        try:
            await store.add(jobs[-1], model)
        except JobsUnavailableError as error:
            refusal = error
    assert "cannot be used: the disk is full" in str(refusal)
    assert refusal.is_full
    return jobs


async def use_full_disk(store: JobStore, filler: Path, size: int) -> list[JobRecord]:
    """Fill the disk, delete a file, and add one more job; return all jobs."""
    jobs = await fill_disk(store, size)
    assert await states_of(store, jobs) == [JobState.QUEUED] * (len(jobs) - 1) + [None]
    await anyio.Path(filler).unlink()
    await store.add(jobs[-1], disk_model(len(jobs) - 1, size))
    for number, job in enumerate(jobs):
        assert await read_blob(store, job.model_digest) == disk_model(number, size).data
    assert len(jobs) > 4
    return jobs
