"""Passes that raise what ends a program, and programs that are interrupted."""

import signal
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.lowlevel import checkpoint

import apass
from apass.concurrency.interruption import is_interruption
from apass.service import JobQuery, JobRecord, JobState, Limits, Optimizer
from apass.service.sql_jobs import SqlJobStore
from tests.helpers.rows import row
from tests.service.job_passes import Panic
from tests.service.loop_passes import PLAIN, Gate, Module, add, reached


@pytest.fixture
def server_signals() -> Generator[None]:
    """Handle Ctrl-C as a server does: the handler raises nothing."""
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    yield
    signal.signal(signal.SIGINT, before)


ERRORS: list[Callable[[], BaseException]] = [
    lambda: Panic("no"),
    lambda: GeneratorExit("no"),
    lambda: KeyboardInterrupt("no"),
    lambda: SystemExit("no"),
    lambda: BaseExceptionGroup("no", [SystemExit("no"), Panic("no")]),
    lambda: ExceptionGroup("no", [OSError("no")]),
    lambda: RecursionError("no"),
]

Kind = Literal["plain", "async", "module"]


def failing(make: Callable[[], BaseException], kind: Kind) -> apass.Pass[Module]:
    """Return a pass that raises an error."""

    @apass.function_pass(opt_level=0, name="Fail")
    def plain(func: int, mod: Module, ctx: apass.PassContext) -> int:
        raise make()

    @apass.function_pass(opt_level=0, name="Fail")
    async def suspending(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await checkpoint()
        raise make()

    @apass.module_pass(opt_level=0, name="Fail")
    async def module(mod: Module, ctx: apass.PassContext) -> Module:
        await checkpoint()
        raise make()

    return {"plain": plain, "async": suspending, "module": module}[kind]


@pytest.mark.anyio
@pytest.mark.usefixtures("server_signals")
async def test_error_of_any_class_fails_its_job() -> None:
    gate = Gate()
    kinds: tuple[Kind, ...] = ("plain", "async", "module")
    rows = {f"{make()!r} {kind}": (kind, apass.Sequential([failing(make, kind)])) for make in ERRORS for kind in kinds}
    pipelines = {name: pipeline for name, (_, pipeline) in rows.items()}
    async with Optimizer({**pipelines, "gate": gate.wait, "add": add(1)}) as optimizer:
        waiting = await optimizer.submit({"f": 1}, pipeline="gate", options=PLAIN)
        await reached(waiting, "started")
        for number, (name, (kind, _)) in enumerate(rows.items()):
            with row(name):
                record = await (await optimizer.submit({"f": 1}, pipeline=name)).wait()
                assert record.state is JobState.FAILED
                assert record.failure is not None
                assert record.failure.pass_name == "Fail"
                assert record.failure.function == (None if kind == "module" else "f")
                assert "no" in record.failure.message
                added = await optimizer.submit({"f": number}, pipeline="add")
                assert await added.result() == {"f": number + 1}
        gate.opened.set()
        assert (await waiting.wait()).state is JobState.DONE


@pytest.mark.anyio
async def test_error_in_cancelled_pass_ends_no_other_job() -> None:
    @apass.module_pass(opt_level=0, name="Fail")
    async def panic(mod: Module, ctx: apass.PassContext) -> Module:
        try:
            await anyio.sleep_forever()
        finally:
            raise Panic("no")

    async with Optimizer({"fail": panic, "add": add(1)}) as optimizer:
        job = await optimizer.submit({"f": 1}, pipeline="fail", options=PLAIN)
        await reached(job, "started")
        assert (await job.cancel()).state is JobState.CANCELLED
        assert await (await optimizer.submit({"f": 1}, pipeline="add")).result() == {"f": 2}


async def run_job(store: Path, pipeline: apass.Pass[Any], *, submits: bool) -> JobRecord:
    """Submit a job to a store, or find it there, and return its final record."""
    async with Optimizer({"default": pipeline}, store=store, limits=Limits(attempts=2, drain=0.1)) as optimizer:
        if submits:
            job = await optimizer.submit({"f": 1}, options=PLAIN)
        else:
            (record,) = (await optimizer.list(JobQuery(tenant=None))).jobs
            job = await optimizer.find(record.id)
        return await job.wait()


async def attempts_in(path: Path) -> tuple[int, int]:
    """Return the attempts and the starts of the only job of a store, which is queued."""
    store = SqlJobStore(path)
    (record,) = await store.open()
    await store.close()
    assert record.state is JobState.QUEUED
    return record.attempts, record.starts


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_job_that_ends_event_loop_is_started_twice(error: type[BaseException], tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0, name="Exit")
    async def end_loop(mod: Module, ctx: apass.PassContext) -> Module:
        async def fail() -> None:
            raise error

        # asyncio itself ends the event loop when a task raises one of these.
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
        return mod

    path = tmp_path / "jobs.db"
    for number in (1, 2):
        with pytest.raises(error):
            anyio.run(partial(run_job, path, end_loop, submits=number == 1), backend="asyncio")
        assert anyio.run(attempts_in, path) == (number, number)
    record = anyio.run(partial(run_job, path, end_loop, submits=False), backend="asyncio")
    assert record.state is JobState.FAILED
    assert record.failure is not None
    assert "in each of 2 attempts" in record.failure.message


@pytest.mark.parametrize(("backend", "attempts"), [("asyncio", 0), ("trio", 1)])
def test_ctrl_c_within_pass_ends_program(backend: str, attempts: int, tmp_path: Path) -> None:
    @apass.module_pass(opt_level=0, name="Signal")
    async def interrupt(mod: Module, ctx: apass.PassContext) -> Module:
        # The handler of asyncio cancels the main task. That of trio raises here.
        signal.raise_signal(signal.SIGINT)
        await anyio.sleep_forever()
        return mod

    path = tmp_path / "jobs.db"
    with pytest.raises((KeyboardInterrupt, BaseExceptionGroup)) as caught:
        anyio.run(partial(run_job, path, interrupt, submits=True), backend=backend)
    assert is_interruption(caught.value)
    assert anyio.run(attempts_in, path) == (attempts, 1)
    # The job is not lost.
    assert anyio.run(partial(run_job, path, add(1), submits=False), backend=backend).state is JobState.DONE
