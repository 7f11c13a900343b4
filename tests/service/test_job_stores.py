"""Laws of all job stores: in memory, in SQLite and in PostgreSQL."""

import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from threading import Semaphore, get_ident
from time import time
from typing import Any

import anyio
import pytest
from sqlalchemy import Engine, event

from apass.service import MemoryJobStore, SqlJobStore, sql_jobs
from apass.service.job_store import CHUNK, Blob, JobChange, JobQuery, JobStore, blob_of_file, read_blob, write_blob
from apass.service.jobs import ENDED, JobEvent, JobFailure, JobRecord, JobState
from apass.service.sql_blobs import LARGE
from tests.helpers.amounts import amount, some
from tests.helpers.rows import row
from tests.service.postgres import POSTGRES
from tests.service.stored_jobs import MODEL, done, ended, new_job, opened, running, states_of

pytestmark = pytest.mark.anyio

Make = Callable[[], JobStore]
MakeSql = Callable[[], SqlJobStore]

RESULT = Blob.of(b"a result")


of_values = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For tests of the values that a store keeps, to which the event loop does not matter."""


@pytest.fixture(params=["memory", "sqlite", POSTGRES])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return a function that creates a store."""
    if request.param == "memory":
        return MemoryJobStore
    target: Path | str = tmp_path / "jobs.db" if request.param == "sqlite" else request.getfixturevalue("url")
    return lambda: SqlJobStore(target)


@pytest.fixture
def make_sql(target: str) -> MakeSql:
    """Return a function that creates a durable store."""
    return lambda: SqlJobStore(target)


async def add_all(store: JobStore, jobs: Sequence[JobRecord], models: Sequence[Blob]) -> None:
    """Add jobs with their models at once, in few transactions."""
    async with anyio.create_task_group() as group:
        for job, model in zip(jobs, models, strict=True):
            group.start_soon(store.add, job, model)


async def all_jobs(store: JobStore, **values: Any) -> list[str]:
    """Return the ids of all pages of a list."""
    ids: list[str] = []
    query = JobQuery(tenant=values.pop("tenant", None), **values)
    while True:
        page = await store.list(query)
        ids += [job.id for job in page.jobs]
        if page.next is None:
            return ids
        assert page.next == ids[-1]
        query = replace(query, before=page.next)


@pytest.mark.slow
async def test_added_job_is_found(make: Make) -> None:
    job = new_job(MODEL, deadline=5.5, idempotency_key="request", trace="00-trace", priority=-3)
    async with opened(make) as store:
        assert await store.add(job, MODEL) == job
        assert await store.find(job.id) == job
        assert await store.find_idempotent("tenant", "request") == job
        assert (await store.list(JobQuery(tenant="tenant"))).jobs == [job]
        assert await store.count() == await store.count("tenant") == {JobState.QUEUED: 1}
        assert await read_blob(store, MODEL.digest) == MODEL.data


@pytest.mark.slow
async def test_unknown_jobs_and_blobs_are_not_found(make: Make) -> None:
    job = new_job(MODEL, idempotency_key="request")
    async with opened(make) as store:
        await store.add(job, MODEL)
        for job_id in ("", "x", "\0", "\ud800", "'", job.id[:-1]):
            assert await store.find(job_id) is None
            assert list(await store.events(job_id, 0)) == []
            assert not await store.remove(job_id)
            with pytest.raises(KeyError):
                await store.read(job_id, 0)
        assert await store.find_idempotent("other", "request") is None
        assert await store.find_idempotent("tenant", "other") is None
        assert await store.find_done("tenant", job.key) is None
        assert await store.count("other") == {}


async def test_jobs_with_idempotency_key_are_one(make: Make) -> None:
    added: list[JobRecord] = []

    async def add(store: JobStore, job: JobRecord, model: Blob) -> None:
        added.append(await store.add(job, model))

    async with opened(make) as store:
        async with anyio.create_task_group() as group:
            for number in range(60):
                model = Blob.of(b"model %d" % number)
                group.start_soon(add, store, new_job(model, idempotency_key=f"request {number % 3}"), model)
        assert Counter(Counter(job.id for job in added).values()) == {20: 3}
        assert sorted(await all_jobs(store)) == sorted({job.id for job in added})
        other = new_job(MODEL, idempotency_key="request 0", tenant="other")
        assert await store.add(other, MODEL) == other
        for job in {job.id: job for job in added}.values():
            await store.update([ended(job)])
            await store.remove(job.id)
        # The models of the other jobs were not stored.
        for number in range(60):
            with pytest.raises(KeyError):
                await store.read(sha256(b"model %d" % number).hexdigest(), 0)


async def test_result_of_equal_job_is_reused(make: Make) -> None:
    first, second, third = new_job(MODEL, key="same"), new_job(MODEL, key="same"), new_job(MODEL, key="same")
    async with opened(make) as store:
        await store.add(first, MODEL)
        assert await store.update([done(first, RESULT)]) == [True]
        assert await store.find_done("tenant", "same") == done(first, RESULT).job
        reused = replace(second, state=JobState.DONE, finished=4.0, result_digest=RESULT.digest, reused=True)
        assert await store.add(reused, MODEL) == reused
        assert await store.find_done("tenant", "same") == reused
        await store.remove(first.id)
        assert await read_blob(store, RESULT.digest) == RESULT.data
        await store.remove(second.id)
        with pytest.raises(KeyError):
            await store.add(replace(reused, id=third.id), MODEL)
        assert await all_jobs(store) == []
        with pytest.raises(KeyError):
            await store.read(MODEL.digest, 0)


async def test_change_stores_result_and_events(make: Make) -> None:
    job = new_job(MODEL)
    events = [
        JobEvent(number, "finished", 1.5, {"pass": "P\0\ud800", "id": number, "time": [None]}) for number in (1, 2, 9)
    ]
    later = [JobEvent(10**9 + 1, "state", 2.5, {})]
    async with opened(make) as store:
        await store.add(job, MODEL)
        assert await store.update([JobChange(running(job).job, events=events)]) == [True]
        assert await store.find(job.id) == running(job).job
        change = done(job, RESULT, later)
        assert await store.update([change]) == [True]
        assert await store.find(job.id) == change.job
        assert await read_blob(store, RESULT.digest) == RESULT.data
        assert list(await store.events(job.id, 0)) == [*events, *later]
        assert list(await store.events(job.id, 1)) == [*events[1:], *later]
        assert list(await store.events(job.id, 9)) == later
        assert list(await store.events(job.id, 10**9 + 1)) == []


async def test_job_may_fail_and_wait_again(make: Make) -> None:
    job = new_job(MODEL)
    failure = JobFailure("ValueError", "wrong: \0 \ud800", ("note",), "Pass", "f", ({"level": "error"},))
    async with opened(make) as store:
        await store.add(job, MODEL)
        waiting = running(job).job.with_state(JobState.QUEUED)
        failed = job.with_state(JobState.FAILED, failure=failure, finished=1.0)
        for record in (running(job).job, waiting, running(job, 2).job, failed):
            assert await store.update([JobChange(record)]) == [True]
            assert await store.find(job.id) == record
        assert await store.count() == {JobState.FAILED: 1}


async def test_job_ends_once(make: Make) -> None:
    jobs = [new_job(MODEL) for _ in range(3)]
    late = [JobEvent(1, "state", 1.0, {})]
    async with opened(make) as store:
        for job in jobs[:2]:
            await store.add(job, MODEL)
        assert await store.update([running(jobs[0]), ended(jobs[0]), done(jobs[0], RESULT)]) == [True, True, False]
        with pytest.raises(KeyError):
            await store.read(RESULT.digest, 0)
        changes = [done(job, RESULT, late) for job in jobs]
        assert await store.update(changes) == [False, True, False]
        # The answer to the first call may be lost with the connection.
        assert await store.update(changes) == [False, True, False]
        assert await store.update([ended(jobs[1])]) == [False]
        assert await states_of(store, jobs) == [JobState.CANCELLED, JobState.DONE, None]
        assert [len(await store.events(job.id, 0)) for job in jobs] == [0, 1, 0]


async def test_job_ends_once_in_concurrent_calls(make: Make) -> None:
    jobs = [new_job(MODEL) for _ in range(20)]
    ends: list[tuple[str, JobState]] = []

    async def end(store: JobStore, job: JobRecord, change: JobChange) -> None:
        if await store.update([change]) == [True]:
            ends.append((job.id, change.job.state))

    async with opened(make) as store:
        await add_all(store, jobs, [MODEL] * len(jobs))
        async with anyio.create_task_group() as group:
            for job in jobs:
                for change in (done(job, RESULT), ended(job), ended(job, JobState.FAILED)):
                    group.start_soon(end, store, job, change)
        assert Counter(job_id for job_id, _ in ends) == Counter(job.id for job in jobs)
        assert await states_of(store, jobs) == [dict(ends)[job.id] for job in jobs]


async def test_unfinished_job_is_not_removed(make: Make) -> None:
    job = new_job(MODEL, idempotency_key="request")
    async with opened(make) as store:
        await store.add(job, MODEL)
        assert not await store.remove(job.id)
        await store.update([running(job)])
        assert not await store.remove(job.id)
        assert await store.expire(0.0, 1) == 0
        await store.update([done(job, RESULT, [JobEvent(1, "state", 1.0, {})])])
        assert await store.remove(job.id)
        assert not await store.remove(job.id)
        assert await store.find(job.id) is None
        assert await store.find_idempotent("tenant", "request") is None
        assert await store.find_done("tenant", job.key) is None
        assert list(await store.events(job.id, 0)) == []
        # The key is free again.
        again = new_job(MODEL, idempotency_key="request")
        assert await store.add(again, MODEL) == again


async def test_equal_blobs_stay_while_used(make: Make) -> None:
    jobs = [new_job(MODEL, tenant=name) for name in "abc"]
    async with opened(make) as store:
        for job in jobs:
            await store.add(job, MODEL)
            # The model is its own result.
            await store.update([JobChange(done(job, MODEL).job)])
        for job in jobs:
            assert await read_blob(store, MODEL.digest) == MODEL.data
            assert await store.remove(job.id)
        with pytest.raises(KeyError):
            await store.read(MODEL.digest, 0)


@of_values
async def test_jobs_expire_by_age(make: Make) -> None:
    now = time()
    jobs = [new_job(MODEL) for _ in range(250)]
    async with opened(make) as store:
        await add_all(store, jobs, [MODEL] * len(jobs))
        await store.update([ended(job, finished=now - 100 * (number % 2)) for number, job in enumerate(jobs[:-1])])
        assert await store.expire(50.0, None) == 124
        assert await store.expire(50.0, None) == 0
        assert await all_jobs(store) == [job.id for job in reversed(jobs[::2] + jobs[-1:])]
        assert await store.expire(None, None) == 0
        assert await read_blob(store, MODEL.digest) == MODEL.data


@of_values
async def test_oldest_jobs_expire_by_size(make: Make) -> None:
    models = [Blob.of(b"%02d" % number * 50) for number in range(20)]
    async with opened(make) as store:
        jobs = [new_job(model) for model in models]
        # The models of the first two jobs are kept by the last two.
        jobs += [new_job(models[0]), new_job(models[1])]
        await add_all(store, jobs, [*models, *models[:2]])
        await store.update([ended(job) for job in jobs[:-1] if job is not jobs[3]])
        assert await store.expire(None, 2000) == 0
        assert await store.expire(None, 1701) == 5
        assert await all_jobs(store) == [job.id for job in reversed([jobs[3], *jobs[6:]])]
        assert await store.expire(None, 0) == len(jobs) - 7
        assert await all_jobs(store) == [jobs[21].id, jobs[3].id]
        assert [await read_blob(store, job.model_digest) for job in (jobs[3], jobs[21])] == [b"03" * 50, b"01" * 50]


@of_values
async def test_search_takes_text_literally(make: Make) -> None:
    names = [
        "100%.onnx",
        "100x.onnx",
        "a_b",
        "axb",
        "ÄÖ\u0130\N{GREEK CAPITAL LETTER OMEGA}",
        "quote'\"\\",
        "nul\0\ud800",
        "*?[",
    ]
    async with opened(make) as store:
        jobs = {name: new_job(MODEL, name=name, pipeline=f"Pipe<{number}>") for number, name in enumerate(names)}
        for job in jobs.values():
            await store.add(job, MODEL)

        async def found(text: str) -> set[str]:
            ids = await all_jobs(store, text=text)
            return {name for name, job in jobs.items() if job.id in ids}

        assert await found("") == set(names)
        assert await found("0%") == {"100%.onnx"}
        assert await found("A_B") == {"a_b"}
        assert await found("äö") == await found("Ω") == {names[4]}
        assert await found("'\"\\") == {names[5]}
        assert await found("NUL\0\ud800") == {names[6]}
        assert await found("?[") == {"*?["}
        assert await found("pipe<3>") == {"axb"}
        assert await found(jobs["axb"].id[:20]) == set(names)
        assert await found(jobs["axb"].id.upper()) == {"axb"}
        assert await found(jobs["axb"].id[1:]) == set()
        assert await found("x" * 100_000) == set()


async def test_pages_contain_each_job_once(make: Make) -> None:
    states = [JobState.QUEUED, JobState.RUNNING, JobState.DONE, JobState.FAILED, JobState.CANCELLED]
    async with opened(make) as store:
        jobs = [new_job(MODEL, tenant="ab"[number % 2]) for number in range(37)]
        order = list(range(37))
        Random(1).shuffle(order)
        for number in order:
            await store.add(jobs[number], MODEL)
        expected: dict[str, JobState] = {}
        changes: list[JobChange] = []
        for number, job in enumerate(jobs):
            state = expected[job.id] = states[number % 5]
            change = {JobState.RUNNING: running(job), JobState.DONE: done(job, RESULT)}.get(state, ended(job, state))
            if state is not JobState.QUEUED:
                changes.append(change)
        await store.update(changes)
        ids = [job.id for job in reversed(jobs)]
        for limit in (1, 2, 36, 37, 38):
            assert await all_jobs(store, limit=limit) == ids
        assert await all_jobs(store, tenant="a", limit=3) == ids[::2]
        for wanted in ([JobState.DONE], [JobState.RUNNING], [JobState.QUEUED, JobState.RUNNING], ENDED):
            matches = [job_id for job_id in ids if expected[job_id] in wanted]
            assert await all_jobs(store, states=wanted, limit=4) == matches
        assert await store.count() == Counter(expected.values())
        assert await store.count("a") == Counter(expected[job.id] for job in jobs[::2])


@pytest.mark.slow
@of_values
async def test_odd_text_is_kept(make: Make) -> None:
    rows = ["\0", "\\0", "\ud800", "\\ud800", "\\\\", "é", "e\u0301", " ", "'; --", "%s{}$1?:x"]
    async with opened(make) as store:
        for text in rows:
            with row(ascii(text)):
                values = {"tenant": text, "name": text, "pipeline": text, "idempotency_key": text, "key": text}
                job = new_job(MODEL, **values)
                assert await store.add(job, MODEL) == job
                assert await store.find_idempotent(text, text) == job
                assert await store.add(new_job(MODEL, **values), MODEL) == job
                await store.update([done(job, RESULT)])
                assert await store.find_done(text, text) == await store.find(job.id) == done(job, RESULT).job
                assert await all_jobs(store, tenant=text, text=text) == [job.id]
                assert await store.count(text) == {JobState.DONE: 1}


@pytest.mark.slow
@of_values
async def test_blobs_of_all_sizes_are_kept(make: Make, tmp_path: Path) -> None:
    async with opened(make) as store:
        for size in (0, 1, CHUNK - 1, CHUNK, CHUNK + 1, LARGE, LARGE + 1, LARGE + CHUNK):
            with row(size):
                data = Random(size).randbytes(size)
                (tmp_path / "model").write_bytes(data)
                model, result = await blob_of_file(tmp_path / "model"), Blob.of(data[::-1])
                job = new_job(model)
                await store.add(job, model)
                assert await store.update([done(job, result)]) == [True]
                assert await read_blob(store, model.digest) == data
                await write_blob(store, result.digest, tmp_path / f"result {size}")
                with pytest.raises(FileExistsError):
                    await write_blob(store, result.digest, tmp_path / f"result {size}")
                assert (tmp_path / f"result {size}").read_bytes() == result.data
                assert await store.read(model.digest, size // CHUNK + 1) == b""
                assert await store.remove(job.id)
                with pytest.raises(KeyError):
                    await write_blob(store, model.digest, tmp_path / "part")
                assert not (tmp_path / "part").exists()


@pytest.mark.slow
async def test_same_large_model_is_stored_at_once(make: Make) -> None:
    model = Blob.of(Random(1).randbytes(LARGE + 5))
    jobs = [new_job(model) for _ in range(amount(5))]
    async with opened(make) as store:
        await add_all(store, jobs, [model] * len(jobs))
        await store.expire(None, None)  # it deletes the chunks of all uploads but one
        assert await read_blob(store, model.digest) == model.data
        await store.add(new_job(model), model)
        assert await store.update([ended(job) for job in jobs]) == [True] * len(jobs)


@pytest.mark.slow
async def test_concurrent_removals_keep_unfinished_uploads(make_sql: MakeSql, monkeypatch: pytest.MonkeyPatch) -> None:
    async def add(store: JobStore, number: int) -> None:
        for part in range(amount(8, least=2)):
            model = Blob.of(bytes([number, part]) * (CHUNK // 2 + 1))
            await store.add(new_job(model), model)
            for _ in range(number % 3):
                await store.expire(None, None)
            assert await read_blob(store, model.digest) == model.data

    monkeypatch.setattr(sql_jobs, "LARGE", CHUNK)
    async with opened(make_sql) as store, anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(add, store, number)


async def test_unreadable_file_fails_only_its_job(make_sql: MakeSql, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("changed", "missing", "good", "large")]
    for path in paths:
        path.write_bytes(path.name.encode() * (LARGE // 5 + 1 if path.name == "large" else 1))
    blobs = [await blob_of_file(path) for path in paths]
    paths[0].write_bytes(b"changes")
    paths[1].unlink()
    paths[3].write_bytes(b"other" * (LARGE // 5 + 1))
    jobs = [new_job(blob) for blob in blobs]
    errors: dict[str, BaseException] = {}

    async def add(job: JobRecord, blob: Blob) -> None:
        try:
            await store.add(job, blob)
        except OSError as error:
            errors[job.id] = error

    async with opened(make_sql) as store:
        async with anyio.create_task_group() as group:
            for job, blob in zip(jobs, blobs, strict=True):
                group.start_soon(add, job, blob)
        assert await all_jobs(store) == [jobs[2].id]
        assert [type(errors[job.id]) for job in jobs if job is not jobs[2]] == [OSError, FileNotFoundError, OSError]
        assert "was changed while it was stored" in str(errors[jobs[0].id])
        await store.expire(None, None)


@pytest.mark.slow
@of_values
async def test_large_blobs_need_little_memory(make_sql: MakeSql, tmp_path: Path) -> None:
    path = tmp_path / "model"
    with path.open("wb") as file:
        for number in range(amount(48, least=20)):
            file.write(Random(number).randbytes(CHUNK))
    model = await blob_of_file(path)
    async with opened(make_sql) as store:
        job = new_job(model)
        tracemalloc.start()
        try:
            await store.add(job, model)
            await write_blob(store, model.digest, tmp_path / "copy")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # It is 8 chunks, whatever the size of the model.
        assert peak < 12 * CHUNK
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


async def test_concurrent_calls_share_transactions(make_sql: MakeSql) -> None:
    jobs = [new_job(MODEL) for _ in range(200)]
    results: list[Sequence[bool]] = []
    threads: list[int] = []

    def note(connection: object) -> None:
        threads.append(get_ident())

    async def update(store: JobStore, job: JobRecord) -> None:
        results.append(await store.update([running(job)]))

    async with opened(make_sql) as store:
        event.listen(Engine, "commit", note)
        try:
            await add_all(store, jobs, [MODEL] * len(jobs))
            async with anyio.create_task_group() as group:
                for job in jobs:
                    group.start_soon(update, store, job)
        finally:
            event.remove(Engine, "commit", note)
        assert results == [[True]] * 200
        assert len(threads) <= 6
        assert get_ident() not in threads
        assert await store.count() == {JobState.RUNNING: 200}


async def test_cancelled_submission_leaves_no_job(make_sql: MakeSql) -> None:
    in_commit, proceed = Semaphore(0), Semaphore(0)
    scope = anyio.CancelScope()
    jobs = [new_job(MODEL, idempotency_key=f"request {number}") for number in range(4)]

    def block(connection: object) -> None:
        in_commit.release()
        assert proceed.acquire(timeout=20)

    async def add_cancelled(store: JobStore) -> None:
        with scope:
            await store.add(jobs[2], MODEL)

    async with opened(make_sql) as store:
        event.listen(Engine, "commit", block)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(store.add, jobs[0], MODEL)
                await anyio.to_thread.run_sync(in_commit.acquire)
                # The next transaction stores both; the caller of the second one leaves meanwhile.
                group.start_soon(store.add, jobs[1], MODEL)
                await anyio.wait_all_tasks_blocked()
                group.start_soon(add_cancelled, store)
                await anyio.wait_all_tasks_blocked()
                proceed.release()
                await anyio.to_thread.run_sync(in_commit.acquire)
                scope.cancel()
                proceed.release(10)
        finally:
            event.remove(Engine, "commit", block)
        assert scope.cancelled_caught
        assert await store.find_idempotent("tenant", "request 2") is None
        await store.add(jobs[3], MODEL)
        assert sorted(await all_jobs(store)) == [jobs[0].id, jobs[1].id, jobs[3].id]


@pytest.mark.slow
@pytest.mark.parametrize("seed", some(range(4), least=1))
async def test_random_calls_agree_with_memory(make_sql: MakeSql, seed: int) -> None:
    random = Random(seed)
    model = MemoryJobStore()
    jobs: list[JobRecord] = []
    blobs = [Blob.of(random.randbytes(random.randrange(200))) for _ in range(6)]
    async with opened(make_sql) as store:
        for step in range(amount(150, least=75)):
            choice = random.random()
            if choice < 0.4:
                blob = random.choice(blobs)
                request = random.choice([None, None, "a", "b", "c"])
                job = new_job(blob, tenant=random.choice("xy"), idempotency_key=request, key=random.choice("kl"))
                expected, got = await model.add(job, blob), await store.add(job, blob)
                assert got == expected
                jobs.append(job)
            elif choice < 0.8 and jobs:
                some = random.choices(jobs, k=random.randrange(1, 5))
                changes = [random_change(random, job, random.choice(blobs)) for job in some]
                assert await store.update(changes) == await model.update(changes)
            elif choice < 0.9 and jobs:
                job = random.choice(jobs)
                assert await store.remove(job.id) == await model.remove(job.id)
            else:
                limit = random.randrange(500)
                assert await store.expire(None, limit) == await model.expire(None, limit)
            if step % 5:
                continue
            for query in (JobQuery(tenant=None, limit=1000), JobQuery(tenant="x", states=[JobState.DONE], limit=3)):
                expected_page = await model.list(query)
                page = await store.list(query)
                assert (list(page.jobs), page.next) == (list(expected_page.jobs), expected_page.next)
            assert await store.count() == await model.count()
            for blob in blobs:
                assert await outcome(store, blob.digest) == await outcome(model, blob.digest)
            for job in jobs[-5:]:
                assert list(await store.events(job.id, 1)) == list(await model.events(job.id, 1))


def random_change(random: Random, job: JobRecord, result: Blob) -> JobChange:
    state = random.choice(list(JobState))
    number = random.randrange(10**6)
    if state is JobState.RUNNING:
        return running(job, number)
    if state is JobState.QUEUED:
        return JobChange(job)
    events = [JobEvent(number, "state", 1.0, {"state": str(state)})]
    change = done(job, result) if state is JobState.DONE else ended(job, state)
    # No change is equal to another one: to repeat a change is no error.
    return replace(change, job=replace(change.job, finished=float(number)), events=events)


async def outcome(store: JobStore, digest: str) -> bytes | None:
    try:
        return await read_blob(store, digest)
    except KeyError:
        return None
