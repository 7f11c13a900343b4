"""Jobs in worker processes: workers that die, hang, or need too much memory."""

import os
import re
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.adapters.onnx import model_from_bytes, model_to_bytes
from apass.errors import ExecutorError
from apass.executors import ProcessExecutor
from apass.service import Job, JobFailedError, JobOptions, JobState, Limits, Optimizer
from apass.service import dispatcher as dispatcher_module
from apass.stores import SqliteStore
from tests.executors.files import pid_in
from tests.helpers.folders import files
from tests.helpers.onnx_models import with_functions
from tests.service import job_passes
from tests.service.loop_passes import PLAIN, reached

pytestmark = [pytest.mark.anyio, pytest.mark.process]

PIPELINES = {
    "increment": "jobs.Increment",
    "fail": "jobs.Increment,jobs.Fail",
    "die": "jobs.Die,jobs.Increment",
    "spin": "jobs.Spin,jobs.Increment",
    "wait": "jobs.WaitOnce,jobs.Increment",
    "allocate": "jobs.Allocate",
    "raise": "jobs.Raise,jobs.Increment",
    "inline": "onnx.Inline",
}


in_worker = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For tests of what happens in a worker, to which the event loop of the program does not matter."""


@pytest.fixture(autouse=True)
def _impatient_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the dispatcher kill the worker of a pass that hangs soon."""
    monkeypatch.setattr(dispatcher_module, "VICTIM_SECONDS", 0.05)
    monkeypatch.setattr(dispatcher_module, "LATE_SECONDS", 0.2)


def optimizer(workers: int = 1, **options: Any) -> Optimizer:
    assert job_passes.Increment is not None
    return Optimizer(PIPELINES, executor=ProcessExecutor(workers), **options)


async def run_short_jobs(service: Optimizer) -> None:
    """Run jobs until many of them share a batch."""
    jobs = [await service.submit({"short": index}, pipeline="increment", options=PLAIN) for index in range(60)]
    for job in jobs:
        await job.wait()


async def submit_many(service: Optimizer, pipeline: str, count: int = 20) -> list[Job[Any]]:
    return [await service.submit({"f": index}, pipeline=pipeline, options=PLAIN) for index in range(count)]


async def expect_numbers(jobs: list[Job[Any]]) -> None:
    assert [(await job.result())["f"] for job in jobs] == [index + 1 for index in range(len(jobs))]


@pytest.mark.slow
async def test_modules_bytes_reports_and_failures_cross_processes(tmp_path: Path) -> None:
    async with optimizer(cache=SqliteStore(tmp_path / "cache.db")) as service:
        job = await service.submit({"f": 1}, pipeline="increment", options=JobOptions(functions=True))
        assert await job.result() == {"f": 2}
        assert "Increment" in await job.report()
        kinds = Counter([event.kind async for event in job.events()])
        assert kinds == {"state": 3, "started": 3, "finished": 3}
        model = await service.submit(model_to_bytes(with_functions()), kind=".onnx", pipeline="inline")
        assert not model_from_bytes(await model.result()).functions
        failing = await service.submit({"f": "x"}, pipeline="fail")
        with pytest.raises(JobFailedError, match="ValueError: x is no number") as caught:
            await failing.result()
        assert (caught.value.failure.pass_name, caught.value.failure.function) == ("jobs.Fail", "f")


@pytest.mark.slow
@pytest.mark.parametrize("is_task", [False, True])
async def test_error_of_any_class_fails_its_job_only(is_task: bool) -> None:
    async with optimizer() as service:
        await run_short_jobs(service)
        for kind in ("KeyboardInterrupt", "GeneratorExit", "SystemExit", "Panic"):
            bad = await service.submit({"f": 0, "error": kind, "task": is_task}, pipeline="raise", options=PLAIN)
            jobs = await submit_many(service, "raise")
            failure = (await bad.wait()).failure
            assert failure is not None, kind
            assert failure.pass_name == "jobs.Raise"
            text = " ".join((failure.kind, failure.message, *failure.notes))
            assert kind in text or (kind == "SystemExit" and "the pass exited" in text)
            assert "Traceback" not in text, kind
            await expect_numbers(jobs)
            # Another job runs as well afterwards.
            await expect_numbers(await submit_many(service, "increment", 3))


@in_worker
async def test_large_results_come_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with optimizer() as service:
        job = await service.submit({"f": 1, "g": "x" * 5_000_000}, pipeline="increment", options=PLAIN)
        assert await job.result() == {"f": 2, "g": "x" * 5_000_000}
        assert files(tmp_path) == []


@pytest.mark.slow
async def test_killed_worker_loses_no_job(tmp_path: Path) -> None:
    async with optimizer(2) as service:
        waiting = await service.submit({"f": 0, "wait": str(tmp_path / "pid")}, pipeline="wait", options=PLAIN)
        jobs = await submit_many(service, "wait")
        os.kill(await pid_in(tmp_path / "pid"), signal.SIGKILL)
        assert (await waiting.result())["f"] == 1
        await expect_numbers(jobs)
        assert waiting.record.attempts == waiting.record.starts == 2
        states = [event.data["state"] async for event in waiting.events() if event.kind == "state"]
        assert states == ["queued", "running", "queued", "running", "done"]


@pytest.mark.slow
@pytest.mark.parametrize(("attempts", "text"), [(1, "its only attempt"), (3, "each of 3 attempts")])
async def test_job_that_kills_workers_fails_alone(tmp_path: Path, attempts: int, text: str) -> None:
    log = tmp_path / "log"
    log.touch()
    async with optimizer(limits=Limits(attempts=attempts)) as service:
        await run_short_jobs(service)
        deadly = await service.submit({"f": 1, "die": 100, "log": str(log)}, pipeline="die", options=PLAIN)
        jobs = await submit_many(service, "die")
        with pytest.raises(JobFailedError, match=rf"WorkerLostError: .* in {text}") as caught:
            await deadly.result()
        failure = caught.value.failure
        assert f"{text}: the worker process died (SIGKILL)" in failure.message
        if attempts > 1:
            assert failure.message.endswith("; pass 'jobs.Die' was running")
            assert failure.pass_name == "jobs.Die"
        await expect_numbers(jobs)
        # Jobs that run once share no batch with others.
        assert max(job.record.attempts for job in jobs) <= min(attempts, 2)
    assert log.read_text() == "x" * attempts


@pytest.mark.slow
async def test_job_succeeds_after_lost_attempts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    async with optimizer() as service:
        job = await service.submit({"f": 1, "die": 3, "log": str(log)}, pipeline="die", options=PLAIN)
        equal = await service.submit({"f": 1, "die": 3, "log": str(log)}, pipeline="die", options=PLAIN)
        assert (await job.result())["f"] == (await equal.result())["f"] == 2
        assert job.record.attempts == 4
        ids = [event.id async for event in job.events()]
        assert ids == sorted(set(ids))
    assert log.read_text() == "xxxx"


@pytest.mark.slow
async def test_hanging_pass_is_killed_at_deadline() -> None:
    async with optimizer() as service:
        await run_short_jobs(service)
        hanging = await service.submit({"f": 1, "spin": 1}, pipeline="spin", options=PLAIN, deadline=0.5)
        jobs = await submit_many(service, "spin")
        with pytest.raises(
            JobFailedError, match=r"BudgetExceededError: .* within 0\.5 s, its .* pass 'jobs.Spin' was"
        ) as caught:
            await hanging.result()
        assert caught.value.failure.pass_name == "jobs.Spin"
        await expect_numbers(jobs)
        # An attempt that the optimizer ended does not count.
        assert {job.record.attempts for job in jobs} == {1}


@pytest.mark.slow
async def test_cancelled_job_frees_its_worker() -> None:
    async with optimizer() as service:
        await run_short_jobs(service)
        hanging = await service.submit({"f": 1, "spin": 1}, pipeline="spin", options=PLAIN)
        jobs = await submit_many(service, "spin")
        await reached(hanging, "state", "running")
        assert (await hanging.cancel()).state is JobState.CANCELLED
        await expect_numbers(jobs)


@in_worker
async def test_worker_over_its_memory_fails_its_job_only() -> None:
    async with Optimizer(PIPELINES, executor=ProcessExecutor(2, memory=2**29)) as service:
        models = [{"megabytes": size} for size in (1, 2, 3)]
        models[1:1] = [{"megabytes": 600, "hold": 1}]
        models[3:3] = [{"megabytes": 700, "hold": 1}]
        jobs = [await service.submit(model, pipeline="allocate", options=PLAIN) for model in models]
        states = [(await job.wait()).state for job in jobs]
        assert states == [JobState.DONE, JobState.FAILED, JobState.DONE, JobState.FAILED, JobState.DONE]
        failure = jobs[1].record.failure
        assert failure is not None
        assert (failure.kind, failure.pass_name) == ("OutOfMemoryError", "jobs.Allocate")
        pattern = r"out of memory: \d+\.\d of 512\.0 MiB; pass 'jobs.Allocate' was running"
        assert re.fullmatch(pattern, failure.message)


@in_worker
@pytest.mark.parametrize(
    ("memory", "models", "size"),
    [
        (512, [{"megabytes": 600, "hold": 1}], 101),
        # What an earlier job of the same worker has needed does not hide what the next one needs.
        (540, [{"megabytes": 500, "text": "x" * 1000}, {"megabytes": 300}], 301),
    ],
    ids=["exceeded", "needed"],
)
async def test_memory_of_jobs_is_learned(memory: int, models: list[dict[str, Any]], size: int) -> None:
    """The second of two similar jobs is not expected to fit beside the first."""
    limit = memory * 2**20
    executor = ProcessExecutor(2, memory=limit if len(models) == 1 else None)
    async with Optimizer(PIPELINES, executor=executor, limits=Limits(memory_bytes=limit)) as service:
        for model in models:
            await (await service.submit(model, pipeline="allocate", options=PLAIN)).wait()
        holding, waiting = [
            await service.submit({"megabytes": size + more, "hold": 1}, pipeline="allocate", options=PLAIN)
            for more in range(2)
        ]
        other = await service.submit({"f": 1}, pipeline="increment", options=PLAIN)
        await reached(holding, "started")
        if len(models) > 1:
            # It fits beside the first one.
            assert await other.result() == {"f": 2}
        assert waiting.record.state is JobState.QUEUED
        await holding.cancel()
        await reached(waiting, "started")
        await waiting.cancel()
        assert await other.result() == {"f": 2}


async def test_equal_jobs_follow_leader_into_process() -> None:
    async with optimizer() as service:
        hanging = await service.submit({"spin": 1}, pipeline="spin", options=PLAIN)
        jobs = [await service.submit({"f": 0}, pipeline="increment", options=PLAIN) for _ in range(5)]
        await jobs[0].cancel()
        await hanging.cancel()
        assert [await job.result() for job in jobs[1:]] == 4 * [{"f": 1}]


async def test_limit_of_running_jobs_counts_batches() -> None:
    async with optimizer(2, limits=Limits(running=1)) as service:
        await run_short_jobs(service)
        first, second = [
            await service.submit({"spin": index}, pipeline="spin", options=PLAIN, tenant=str(index))
            for index in range(2)
        ]
        await reached(first, "started")
        assert second.record.state in (JobState.QUEUED, JobState.RUNNING)
        assert "started" not in [event.kind for event in second.events().read_nowait(1000)]
        await first.cancel()
        await second.cancel()


async def test_pipeline_that_cannot_be_sent_is_refused() -> None:
    lock = threading.Lock()

    @apass.module_pass(opt_level=0, name="Locked")
    def locked(mod: dict[str, Any], ctx: apass.PassContext) -> dict[str, Any]:
        with lock:
            return mod

    def keep() -> Callable[[Any, Any, Any], Any]:
        return lambda func, mod, ctx: func

    unnamed = apass.function_pass(keep(), opt_level=0, name="Unnamed")
    pipelines: list[apass.Pass[dict[str, Any]]] = [locked, unnamed]
    for pipeline in pipelines:
        service = Optimizer({"bad": pipeline, **PIPELINES}, executor=ProcessExecutor(1))
        with pytest.raises(ExecutorError, match=f"pipeline 'bad' cannot run: .*{pipeline.info.name}"):
            async with service:
                pass
        assert not service.is_open


@pytest.mark.slow
async def test_drain_ends_workers_and_leaves_no_process() -> None:
    executor = ProcessExecutor(2)
    async with Optimizer(PIPELINES, executor=executor, limits=Limits(drain=0.2)) as service:
        await submit_many(service, "increment", 10)
        hanging = await service.submit({"spin": 1}, pipeline="spin", options=PLAIN)
        await reached(hanging, "started")
        before = children()
    assert hanging.record.state is JobState.CANCELLED
    # The worker that hung was killed; others are idle, and belong to the event loop.
    assert len(children() & before) < len(before)


def children() -> set[int]:
    """Return the ids of the child processes."""
    lists = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return {int(pid) for listed in lists for pid in listed}
