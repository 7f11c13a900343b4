"""Handles of jobs: events, reports, failures and cancellation."""

import asyncio
import logging
import re
import zlib
from base64 import b64decode
from itertools import product
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.adapters.onnx import model_to_bytes
from apass.instruments.support.outcomes import MOST_INNER
from apass.service import (
    Job,
    JobCancelledError,
    JobEvent,
    JobFailedError,
    JobOptions,
    JobRecord,
    JobState,
    Limits,
    NoResultError,
    Optimizer,
)
from tests.helpers.onnx_models import with_functions
from tests.helpers.rows import row
from tests.service.loop_passes import PLAIN, Gate, Module, add, fail, reached

pytestmark = pytest.mark.anyio


async def events_of(job: Job[Any], after: int = 0) -> list[JobEvent]:
    return [event async for event in job.events(after)]


async def test_events_show_states_and_passes() -> None:
    async with Optimizer({"add": apass.Sequential([add(1), add(2, "Other")])}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="add", options=JobOptions(functions=True))
        events = await events_of(job)
    assert [event.data.get("state") for event in events if event.kind == "state"] == ["queued", "running", "done"]
    assert [(event.kind, event.data["pass"], event.data.get("function")) for event in events[2:-1]] == [
        ("started", "sequential", None),
        ("started", "Add", None),
        ("started", "Add", "f"),
        ("finished", "Add", "f"),
        ("finished", "Add", None),
        ("started", "Other", None),
        ("started", "Other", "f"),
        ("finished", "Other", "f"),
        ("finished", "Other", None),
        ("finished", "sequential", None),
    ]
    assert [event.id for event in events] == sorted({event.id for event in events})


async def test_many_readers_resume_events_anywhere() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate")
        seen: list[list[JobEvent]] = []

        async def read(after: int) -> None:
            seen.append(await events_of(job, after))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(read, 0)
            await reached(job, "started")
            gate.opened.set()
        whole = seen[0]
        assert seen == 3 * [whole]
        for index, event in enumerate(whole):
            assert await events_of(job, event.id) == whole[index + 1 :]
        # The store has the same ones for readers of another process.
        found = await optimizer.find(job.id)
        assert await events_of(found) == whole
        assert await events_of(found, whole[1].id) == whole[2:]


async def test_slow_reader_learns_how_many_events_were_dropped() -> None:
    @apass.module_pass(opt_level=0, name="Chatty")
    async def chatty(mod: Module, ctx: apass.PassContext) -> Module:
        for _ in range(100):
            await add(0)(mod)
        return mod

    async with Optimizer({"chatty": chatty}, limits=Limits(events=20)) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="chatty")
        reader = job.events()
        first = await anext(reader)
        await job.wait()
        events = [event async for event in reader]
    total = 3 + 2 + 200
    counts = [event.data["count"] for event in events if event.kind == "dropped"]
    assert (first.kind, len(counts)) == ("state", 1)
    assert 1 + counts[0] + len(events) - 1 == total
    assert 20 <= len(events) <= 41


async def test_reader_that_leaves_does_not_stop_job() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="gate")
        with anyio.move_on_after(0) as scope:
            await job.result()
        assert scope.cancelled_caught
        gate.opened.set()
        assert await job.result() == {"f": 1, "passed": 1}


async def test_report_is_a_page() -> None:
    async with Optimizer({"add": add(1), "fail": fail()}) as optimizer:
        page = await (await optimizer.submit({"f": 1}, pipeline="add", name="numbers")).report()
        assert page.startswith("<!doctype html>")
        assert "numbers" in page
        # A failed job has one too.
        failed = await optimizer.submit({"f": 1}, pipeline="fail")
        assert "ValueError" in await failed.report()
        with pytest.raises(NoResultError, match="without a report"):
            await (await optimizer.submit({"f": 1}, pipeline="add", options=PLAIN)).report()


def noted(error: Exception, note: str) -> Exception:
    """Return an error with a note."""
    error.add_note(note)
    return error


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def test_failure_names_pass_function_and_notes() -> None:
    nested = ExceptionGroup("outer", [ValueError("cause"), ExceptionGroup("inner", [noted(OSError("deep"), "a hint")])])
    many = ExceptionGroup("many", [ValueError(str(number)) for number in range(100)])
    rows: list[tuple[Exception, str, list[str]]] = [
        (noted(ValueError("f is too small"), "increase f"), "f is too small", ["increase f"]),
        (MuteError(), "(no text: its __str__ raised RuntimeError)", []),
        (MemoryError(), "there is not enough memory", []),
        (nested, "outer", ["error in the group: ValueError: cause", "error in the group: OSError: deep; a hint"]),
        (many, "many", ["the group has 80 further errors"]),
    ]
    for error, message, notes in rows:
        with row(message):
            async with Optimizer({"fail": apass.Sequential([add(1), fail(error)])}) as optimizer:
                job = await optimizer.submit({"f": 1}, pipeline="fail", name="numbers")
                with pytest.raises(JobFailedError, match=type(error).__name__) as caught:
                    await job.result()
            failure = job.record.failure
            assert failure == caught.value.failure
            assert failure is not None
            assert (failure.kind, failure.pass_name, failure.function) == (type(error).__name__, "Fail", "f")
            assert message in failure.message
            assert [note for note in notes if note not in failure.notes] == []
            assert any("Fail" in note for note in failure.notes)
            assert len(failure.notes) <= 1 + MOST_INNER + 1
            assert caught.value.__notes__ == list(failure.notes)


async def test_failure_names_innermost_pass_of_group() -> None:
    @apass.module_pass(opt_level=0, name="Outer")
    async def outer(mod: Module, ctx: apass.PassContext) -> Module:
        async def run() -> None:
            await fail()(mod)

        async with anyio.create_task_group() as group:
            group.start_soon(run)
        return mod

    async with Optimizer({"outer": outer}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="outer")
        failure = (await job.wait()).failure
        assert failure is not None
        assert (failure.pass_name, failure.function) == ("Fail", "f")
        assert any("ValueError: no" in note for note in failure.notes)


async def test_diagnostics_are_in_failure_and_summary() -> None:
    @apass.module_pass(opt_level=0, name="Warn")
    def warn(mod: Module, ctx: apass.PassContext) -> Module:
        ctx.diag_ctx.emit(apass.Diagnostic.warning("f is small"))
        if mod["f"] == 0:
            raise ValueError("no")
        return mod

    async with Optimizer({"warn": warn}) as optimizer:
        jobs = [await optimizer.submit({"f": number}, pipeline="warn") for number in (0, 1)]
        records = [await job.wait() for job in jobs]
    failure, summary = records[0].failure, records[1].summary
    assert failure is not None
    assert summary is not None
    for diagnostics in (failure.diagnostics, summary.diagnostics):
        assert [dict(item) for item in diagnostics] == [{"level": "warning", "message": "f is small", "pass": "Warn"}]


@pytest.mark.slow  # it imports the libraries of four IRs
async def test_failure_contains_no_temporary_path() -> None:
    models = {"empty": b"", "nonsense": b"nonsense", "half": model_to_bytes(with_functions())[:100]}
    async with Optimizer() as optimizer:
        for (name, data), kind in product(models.items(), (".onnx", ".relay", ".mlir", ".ll")):
            with row(f"{name} {kind}"):
                job = await optimizer.submit(data, kind=kind, name="upload")
                record = await job.wait()
                if record.failure is None:
                    continue  # the empty text of some IRs is a model
                index = re.search(r'id="apass-index">([^<]*)<', await job.report())
                assert index is not None
                shown = zlib.decompress(b64decode(index[1]), -15).decode()
                for text in (record.failure.message, *record.failure.notes, await job.report(), shown):
                    assert job.id not in text
                    assert "apass-service-" not in text


async def test_cancelled_job_stops_at_once() -> None:
    gate = Gate()
    async with Optimizer({"gate": gate.wait}, limits=Limits(running=1)) as optimizer:
        running = await optimizer.submit({"f": 1}, pipeline="gate")
        queued = await optimizer.submit({"f": 2}, pipeline="gate")
        await reached(running, "started")
        for job in (queued, running):
            assert (await job.cancel()).state is JobState.CANCELLED
            with pytest.raises(JobCancelledError, match="was cancelled"):
                await job.result()
        assert (await running.cancel()).state is JobState.CANCELLED
        assert optimizer.status().queued == 0
        gate.opened.set()
        assert (await (await optimizer.submit({"f": 3}, pipeline="gate")).wait()).state is JobState.DONE
    assert len(gate.started) == 2
    assert gate.cancelled == 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("of_task", [True, False])
async def test_native_cancellation_in_pass_fails_its_job_only(of_task: bool) -> None:
    @apass.module_pass(opt_level=0, name="Native")
    async def native(mod: Module, ctx: apass.PassContext) -> Module:
        future = asyncio.get_running_loop().create_future()
        cancelled = asyncio.current_task() if of_task else future
        assert cancelled is not None
        cancelled.cancel()
        await future
        return mod

    async with Optimizer({"native": native, "add": add(1)}) as optimizer:
        jobs = [await optimizer.submit({"f": number}, pipeline="native") for number in range(3)]
        others = [await optimizer.submit({"f": number}, pipeline="add") for number in range(3)]
        assert [await job.result() for job in others] == [{"f": number + 1} for number in range(3)]
        for job in jobs:
            with pytest.raises(JobFailedError, match="cancelled outside the run"):
                await job.result()


class BadObserver:
    """An observer that breaks its promise."""

    def on_event(self, record: JobRecord, event: JobEvent) -> None:
        raise KeyError(event.kind)

    async def run(self, optimizer: Optimizer) -> None:
        await checkpoint()
        raise OSError("no")


async def test_errors_of_observers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Optimizer({"add": add(1)}, observers=[BadObserver()]) as optimizer:
        with caplog.at_level(logging.ERROR, "apass.service"):
            assert await (await optimizer.submit({"f": 1}, pipeline="add")).result() == {"f": 2}
            await anyio.wait_all_tasks_blocked()
    assert {record.exc_info[0] for record in caplog.records if record.exc_info} == {KeyError, OSError}
