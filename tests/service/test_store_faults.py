"""Jobs on a store that fails: none is lost, and none ends twice."""

import sqlite3
from collections import Counter
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from apass.adapters.onnx import model_to_bytes
from apass.executors import ProcessExecutor
from apass.service import (
    Job,
    JobFailedError,
    JobState,
    JobsUnavailableError,
    Limits,
    Optimizer,
    SqlJobStore,
    acceptance,
    store_health,
)
from tests.helpers.onnx_models import with_functions
from tests.service import job_passes
from tests.service.job_stores import FaultyStore
from tests.service.loop_passes import PLAIN, Gate, add, reached
from tests.service.stored_jobs import MODEL, new_job

pytestmark = pytest.mark.anyio

BIG = "x" * 3_000_000


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try a store that failed again soon."""
    monkeypatch.setattr(store_health, "PAUSE", (0.001, 0.01))
    monkeypatch.setattr(store_health, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(acceptance, "DOUBT_SECONDS", 0.001)


async def failed(store: FaultyStore, method: str, times: int = 3) -> None:
    """Wait until a method has failed some times more."""
    before = store.calls[method]
    while store.calls[method] < before + times:
        await store.called.wait()


def final_states(store: FaultyStore) -> Counter[JobState]:
    return Counter(job.state for job in vars(store)["_jobs"].values())


@pytest.mark.parametrize("method", ["find_idempotent", "find_done", "add"])
async def test_job_that_cannot_be_stored_is_refused(method: str) -> None:
    store = FaultyStore()
    async with Optimizer({"add": add(1)}, store=store) as optimizer:
        store.before = {method}
        with pytest.raises(JobsUnavailableError, match=f"{method} fails"):
            await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN, idempotency_key="k")
        assert (optimizer.status().jobs, optimizer.status().accepts) == (0, False)
        store.before = set()
        job = await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN, idempotency_key="k")
        assert await job.result() == {"f": 2}
        assert (optimizer.status().error, optimizer.status().accepts) == (None, True)
    assert final_states(store) == {JobState.DONE: 1}


async def test_job_without_room_does_not_stop_others() -> None:
    store = FaultyStore()
    store.error = partial(JobsUnavailableError, is_full=True)
    async with Optimizer({"add": add(1)}, store=store) as optimizer:
        store.before = {"add"}
        with pytest.raises(JobsUnavailableError, match="add fails"):
            await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN)
        assert (optimizer.status().error, optimizer.status().accepts) == (None, False)


@pytest.mark.filterwarnings("ignore:jobs were not given back")
async def test_status_names_deleted_file_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "store" / "jobs.db"
    path.parent.mkdir()
    async with Optimizer({"add": add(1)}, store=path) as optimizer:
        await (await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN)).wait()
        assert optimizer.status().error is None
        path.rename(tmp_path / "moved.db")
        with anyio.fail_after(30):
            while optimizer.status().error is None:
                await checkpoint()
        assert "was deleted or replaced" in str(optimizer.status().error)
        with pytest.raises(JobsUnavailableError, match="was deleted or replaced while it was open"):
            await optimizer.submit({"f": 2}, pipeline="add", options=PLAIN)
        with pytest.raises(JobsUnavailableError, match="was deleted or replaced while it was open"):
            await optimizer.store.add(new_job(), MODEL)
        assert not path.exists()
        (tmp_path / "moved.db").rename(path)
        assert await (await optimizer.submit({"f": 2}, pipeline="add", options=PLAIN)).result() == {"f": 3}
        path.parent.rename(tmp_path / "moved")
        with pytest.raises(JobsUnavailableError, match="was deleted or replaced while it was open"):
            await optimizer.store.add(new_job(), MODEL)


async def test_status_names_locked_file_until_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with Optimizer({"add": add(1)}, store=SqlJobStore(path, timeout=0.1)) as optimizer:
        await (await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN)).wait()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(JobsUnavailableError, match=r"another program has locked it for more than 0\.1 s"):
                await optimizer.submit({"f": 2}, pipeline="add", options=PLAIN)
            # The file can be read all the time.
            assert (await optimizer.store.count()) == {JobState.DONE: 1}
            assert "another program has locked it" in str(optimizer.status().error)
        with anyio.fail_after(30):
            while optimizer.status().error is not None:
                await checkpoint()
        assert await (await optimizer.submit({"f": 2}, pipeline="add", options=PLAIN)).result() == {"f": 3}


@pytest.mark.parametrize("repeats", [True, False])
async def test_job_stored_by_failing_call_runs(repeats: bool) -> None:
    gate, store = Gate(), FaultyStore()
    gate.opened.set()
    async with Optimizer({"gate": gate.wait}, store=store) as optimizer:
        store.after = {"add"}
        with pytest.raises(JobsUnavailableError, match="add fails"):
            await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, idempotency_key="k")
        store.after = set()
        if repeats:
            job = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, idempotency_key="k")
        else:
            (record,) = vars(store)["_jobs"].values()
            await failed(store, "find", 1)
            job = await optimizer.find(record.id)
        assert await job.result() == {"f": 1, "passed": 1}
    assert len(gate.started) == 1
    assert final_states(store) == {JobState.DONE: 1}


async def test_job_in_doubt_ends_for_other_requests() -> None:
    store = FaultyStore()
    async with Optimizer({"add": add(1)}, store=store) as optimizer:
        store.after = {"add"}
        with pytest.raises(JobsUnavailableError):
            await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN, idempotency_key="k")
        # The store fails for longer, but can be read.
        jobs = [await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN, idempotency_key="k") for _ in range(3)]
        assert [await job.result() for job in jobs] == 3 * [{"f": 2}]
        assert len({job.id for job in jobs}) == 1


@pytest.mark.parametrize("fails_after", [True, False])
async def test_attempt_begins_when_store_is_back(fails_after: bool) -> None:
    gate, store = Gate(), FaultyStore()
    gate.opened.set()
    async with Optimizer({"gate": gate.wait}, store=store, limits=Limits(attempts=2)) as optimizer:
        (store.after if fails_after else store.before).add("update")
        jobs = [await optimizer.submit({"f": index}, pipeline="gate", options=PLAIN) for index in range(5)]
        await failed(store, "update")
        status = optimizer.status()
        assert (status.error, status.queued, status.accepts) == ("update fails", 5, False)
        assert gate.started == []
        store.before, store.after = set(), set()
        for job in jobs:
            assert (await job.wait()).state is JobState.DONE
            # There are no states but those of the job.
            assert job.record.attempts == 1
            states = [event.data["state"] async for event in job.events() if event.kind == "state"]
            assert states == ["queued", "running", "done"]
        assert optimizer.status().error is None


@pytest.mark.parametrize("fails_after", [True, False])
async def test_end_is_stored_when_store_is_back(fails_after: bool) -> None:
    gate, store = Gate(), FaultyStore()
    async with Optimizer({"gate": gate.wait}, store=store) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        await reached(job, "started")
        (store.after if fails_after else store.before).add("update")
        gate.opened.set()
        await failed(store, "update")
        # The end is not shown before it is durable.
        assert job.record.state is JobState.RUNNING
        store.before, store.after = set(), set()
        assert (await job.wait()).state is JobState.DONE
        assert [event.data["state"] async for event in job.events(10**9 + 1) if event.kind == "state"] == ["done"]
        assert await job.result() == {"f": 1, "passed": 1}
    assert final_states(store) == {JobState.DONE: 1}
    assert len(gate.started) == 1


async def test_cancellation_waits_for_store() -> None:
    gate, store = Gate(), FaultyStore()
    async with Optimizer({"gate": gate.wait}, store=store) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        await reached(job, "started")
        store.before = {"update"}
        async with anyio.create_task_group() as group:
            group.start_soon(job.cancel)
            await failed(store, "update")
            assert job.record.state is JobState.RUNNING
            store.before = set()
        assert job.record.state is JobState.CANCELLED
        assert gate.cancelled == 1


@pytest.fixture
def large_model(tmp_path: Path) -> Path:
    """Return the file of a model that is not kept in memory."""
    model = with_functions()
    model.doc_string = BIG
    path = tmp_path / "model.onnx"
    path.write_bytes(model_to_bytes(model))
    return path


async def test_model_is_read_again_when_store_is_back(large_model: Path) -> None:
    store = FaultyStore()
    async with Optimizer({"inline": "onnx.Inline"}, store=store) as optimizer:
        store.before = {"read"}
        job = await optimizer.submit(large_model, pipeline="inline", options=PLAIN)
        await failed(store, "read")
        assert job.record.state in (JobState.QUEUED, JobState.RUNNING)
        store.before = set()
        assert len(await job.result()) > len(BIG)
        assert job.record.starts > job.record.attempts == 1
        ids = [event.id async for event in job.events()]
        assert ids == sorted(set(ids))


async def test_missing_model_fails_its_job_only(large_model: Path) -> None:
    store = FaultyStore()
    async with Optimizer({"inline": "onnx.Inline", "add": add(1)}, store=store) as optimizer:
        store.before, store.error = {"read"}, KeyError
        job = await optimizer.submit(large_model, pipeline="inline", options=PLAIN)
        with pytest.raises(JobFailedError, match="KeyError: the model of the job cannot be read"):
            await job.result()
        store.before = set()
        assert await (await optimizer.submit({"f": 1}, pipeline="add")).result() == {"f": 2}


async def test_unexpected_error_of_store_fails_its_job() -> None:
    class Picky(FaultyStore):
        async def update(self, changes: Any) -> Any:
            for change in changes:
                if change.job.name == "bad" and change.job.state is JobState.DONE:
                    raise sqlite3.IntegrityError("no")
            return await super().update(changes)

    gate = Gate()
    async with Optimizer({"gate": gate.wait}, store=Picky()) as optimizer:
        jobs: list[Job[Any]] = []
        for index in range(6):
            name = "bad" if index == 3 else "good"
            jobs.append(await optimizer.submit({"f": index}, pipeline="gate", options=PLAIN, name=name))
        gate.opened.set()
        states = [(await job.wait()).state for job in jobs]
    assert states == [*3 * [JobState.DONE], JobState.FAILED, *2 * [JobState.DONE]]
    assert jobs[3].record.failure is not None
    assert jobs[3].record.failure.kind == "IntegrityError"


async def test_cancelled_caller_does_not_lose_stored_job() -> None:
    gate, store = Gate(), FaultyStore()
    gate.opened.set()
    store.held = {"add"}
    async with Optimizer({"gate": gate.wait}, store=store) as optimizer:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, idempotency_key="k"))
            await store.entered.wait()
            group.cancel_scope.cancel()
        store.go.set()
        again = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN, idempotency_key="k")
        assert await again.result() == {"f": 1, "passed": 1}
    assert len(gate.started) == 1


@pytest.mark.process
@pytest.mark.parametrize("executor", [None, ProcessExecutor(1)], ids=["loop", "process"])
async def test_jobs_join_and_leave_while_attempt_begins(executor: ProcessExecutor | None) -> None:
    assert job_passes.Increment is not None
    store = FaultyStore()
    store.held = {"update"}
    async with Optimizer({"increment": "jobs.Increment"}, store=store, executor=executor) as optimizer:

        async def submit(number: int, deadline: float | None = None) -> Job[Any]:
            return await optimizer.submit({"f": number}, pipeline="increment", options=PLAIN, deadline=deadline)

        first, alone = await submit(1), await submit(2)
        await store.entered.wait()
        joined = [await submit(1), await submit(1, 1000)]
        async with anyio.create_task_group() as group:
            # Their work is not known to the worker yet.
            group.start_soon(first.cancel)
            group.start_soon(alone.cancel)
            await anyio.wait_all_tasks_blocked()
            store.go.set()
        assert [await job.result() for job in joined] == 2 * [{"f": 2}]
        assert {job.record.attempts for job in joined} == {1}
        assert {job.record.state for job in (first, alone)} == {JobState.CANCELLED}
        assert await (await submit(3)).result() == {"f": 4}
        assert (optimizer.status().running, optimizer.status().queued) == (0, 0)
    assert final_states(store) == {JobState.CANCELLED: 2, JobState.DONE: 3}
