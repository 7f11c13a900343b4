"""Jobs, and the stores that keep them, for the tests of stores."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

from apass.service.job_store import Blob, JobChange, JobStore
from apass.service.jobs import JobEvent, JobOptions, JobRecord, JobState, JobSummary

__all__ = ["done", "ended", "new_job", "opened", "running", "states_of"]

StoreT = TypeVar("StoreT", bound=JobStore)

_NUMBERS = count(1)


def new_job(model: Blob, **values: Any) -> JobRecord:
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
