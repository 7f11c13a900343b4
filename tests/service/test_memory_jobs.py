"""`MemoryJobStore`: what it keeps, and what it removes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apass.service import JobQuery, JobRecord, JobState, MemoryJobStore
from apass.service.job_store import CHUNK, Blob, JobChange, read_blob, write_blob
from apass.service.jobs import JobEvent
from tests.service.records import record

pytestmark = pytest.mark.anyio

MODEL = Blob.of(b"model")


def job(number: int, **changes: Any) -> JobRecord:
    base = replace(record(), id=f"{number:032x}", key=str(number), model_digest=MODEL.digest, model_size=MODEL.size)
    return replace(base, **changes)


def done(number: int, result: bytes, **changes: Any) -> JobChange:
    blob = Blob.of(result)
    ended = job(number, state=JobState.DONE, result_digest=blob.digest, result_size=blob.size, **changes)
    return JobChange(ended, [blob], [JobEvent(1, "state", 0.0, {})])


async def test_job_ends_once() -> None:
    store = MemoryJobStore()
    await store.add(job(1), MODEL)
    assert await store.update([done(1, b"r"), done(2, b"r")]) == [True, False]
    assert await store.update([JobChange(job(1, state=JobState.FAILED))]) == [False]
    found = await store.find(job(1).id)
    assert found is not None
    assert found.state is JobState.DONE
    assert await read_blob(store, found.result_digest or "") == b"r"


async def test_blob_lives_as_long_as_its_jobs() -> None:
    store = MemoryJobStore()
    for number in (1, 2):
        await store.add(job(number), MODEL)
        await store.update([done(number, b"r")])
    assert await store.remove(job(1).id)
    assert await read_blob(store, MODEL.digest) == b"model"
    assert await store.remove(job(2).id)
    assert not await store.remove(job(2).id)
    for digest in (MODEL.digest, Blob.of(b"r").digest):
        with pytest.raises(KeyError):
            await store.read(digest, 0)
    assert await store.count() == {}


async def test_reused_result_must_exist() -> None:
    store = MemoryJobStore()
    with pytest.raises(KeyError):
        await store.add(done(1, b"r").job, MODEL)
    assert await store.find(job(1).id) is None


async def test_oldest_jobs_that_ended_expire_first() -> None:
    store = MemoryJobStore()
    await store.add(job(1), MODEL)
    for number, finished in ((3, 30.0), (2, 20.0), (4, 10.0)):
        await store.add(job(number), MODEL)
        await store.update([done(number, bytes([number]) * 100, finished=finished)])
    assert await store.expire(None, 250) == 1
    assert {found.id for found in (await store.list(JobQuery(tenant=None))).jobs} == {job(n).id for n in (1, 3, 4)}
    assert await store.expire(1.0, None) == 2
    # A job that has not ended never expires.
    assert await store.expire(1.0, 1) == 0
    assert await store.count() == {JobState.QUEUED: 1}


async def test_file_of_blob_is_written_whole_or_not(tmp_path: Path) -> None:
    data = b"x" * (2 * CHUNK + 5)
    blob = Blob.of(data)
    store = MemoryJobStore()
    await store.add(job(1), blob)
    await write_blob(store, blob.digest, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == data
    with pytest.raises(FileExistsError):
        await write_blob(store, blob.digest, tmp_path / "whole")
    assert (tmp_path / "whole").exists()
    with pytest.raises(KeyError):
        await write_blob(store, "unknown", tmp_path / "part")
    assert not (tmp_path / "part").exists()


async def test_list_filters_jobs() -> None:
    store = MemoryJobStore()
    for number in range(5):
        await store.add(job(number, tenant="ab"[number % 2], name=f"Model {number}"), MODEL)
    page = await store.list(JobQuery(tenant="a", text="model", limit=2))
    assert [found.name for found in page.jobs] == ["Model 4", "Model 2"]
    page = await store.list(JobQuery(tenant="a", text="model", limit=2, before=page.next))
    assert ([found.name for found in page.jobs], page.next) == (["Model 0"], None)
    assert (await store.list(JobQuery(tenant=None, states=[JobState.DONE]))).jobs == []
