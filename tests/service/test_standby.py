"""An optimizer that waits for the store of another one, and one that loses it."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from apass.service import Job, JobState, Limits, Optimizer, OptimizerClosedError, StoreTakenError, store_health
from apass.service.job_store import JobQuery
from tests.service.loop_passes import PLAIN, Gate, reached

pytestmark = pytest.mark.anyio

SHORT = Limits(running=1, drain=0.05)


@asynccontextmanager
async def standby(path: Path, gate: Gate) -> AsyncGenerator[Optimizer]:
    """Open an optimizer whose store another one uses."""
    async with Optimizer({"gate": gate.wait}, store=path, standby=True) as optimizer:
        assert optimizer.is_standby
        yield optimizer


def lose_lock(path: Path) -> None:
    """Let another process have the lock of a store that is open."""
    Path(f"{path}.lock").unlink()


async def test_standby_runs_jobs_of_drained_optimizer(tmp_path: Path) -> None:
    gate, path = Gate(), tmp_path / "jobs.db"
    async with Optimizer({"gate": gate.wait}, store=path, limits=SHORT) as first:
        jobs = [await first.submit({"f": number}, pipeline="gate", options=PLAIN) for number in range(2)]
        await reached(jobs[0], "started")
        async with standby(path, gate) as second:
            with pytest.raises(OptimizerClosedError, match="is a standby: another process uses the store"):
                await second.submit({"f": 1}, pipeline="gate")
            with pytest.raises(OptimizerClosedError, match="is a standby"):
                await second.list(JobQuery(tenant=None))
            assert (second.is_open, second.status().accepts) == (True, False)
            await first.drain()
            await first.store.close()
            await second.wait_active()
            gate.opened.set()
            results = [await (await second.find(job.id)).result() for job in jobs]
            assert results == [{"f": number, "passed": 1} for number in range(2)]
            assert (second.is_standby, second.status().accepts) == (False, True)
            # An attempt that the drain has interrupted does not count.
            assert [(await second.find(job.id)).record.attempts for job in jobs] == [1, 1]


async def test_standby_ends_while_it_waits(tmp_path: Path) -> None:
    gate, path = Gate(), tmp_path / "jobs.db"
    async with Optimizer({"gate": gate.wait}, store=path) as first:
        async with standby(path, gate) as second:
            await second.drain()
            with pytest.raises(OptimizerClosedError, match="the optimizer ends"):
                await second.submit({"f": 1}, pipeline="gate")
        async with standby(path, gate):
            pass
        assert first.status().accepts


async def test_standby_without_other_server_is_active(tmp_path: Path) -> None:
    for store in (str(tmp_path / "jobs.db"), None):
        async with Optimizer(store=store, standby=True) as optimizer:
            assert not optimizer.is_standby
            await optimizer.wait_active()
            assert await (await optimizer.submit({"f": 1})).result() == {"f": 1}


async def test_standby_ends_if_store_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    async with Optimizer(store=path) as first, Optimizer(store=path, standby=True) as second:
        await first.drain()
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE apass_schema SET version = 99")
        await first.store.close()
        await second.wait_drained()
        assert "has tables of the version 99, and this apass uses 3" in str(second.failure)
        with pytest.raises(OptimizerClosedError, match="the version 99"):
            await second.submit({"f": 1})


async def test_optimizer_ends_when_store_is_taken(tmp_path: Path) -> None:
    gate, other, path = Gate(), Gate(), tmp_path / "jobs.db"
    errors: list[str] = []

    async def wait(job: Job[Any]) -> None:
        with pytest.raises(OptimizerClosedError) as caught:
            await job.wait()
        errors.append(str(caught.value))

    async with Optimizer({"gate": gate.wait}, store=path, limits=Limits(running=1)) as first:
        jobs = [await first.submit({"f": number}, pipeline="gate", options=PLAIN) for number in range(2)]
        await reached(jobs[0], "started")
        lose_lock(path)
        async with Optimizer({"gate": other.wait}, store=path) as second:
            async with anyio.create_task_group() as group:
                for job in jobs:
                    group.start_soon(wait, job)
                gate.opened.set()
                await first.wait_drained()
            assert isinstance(first.failure, StoreTakenError)
            assert [error.partition(" before job")[0] for error in errors] == ["the optimizer has ended"] * 2
            with pytest.raises(OptimizerClosedError, match=r"the optimizer ends.*: another server has taken over"):
                await first.submit({"f": 3})
            await first.drain()
            assert [len(gate.started), gate.cancelled] == [1, 0]
            other.opened.set()
            for job in jobs:
                assert (await (await second.find(job.id)).wait()).state is JobState.DONE
    # It starts again.
    async with Optimizer({"gate": gate.wait}, store=path) as first:
        assert first.failure is None


async def test_idle_optimizer_ends_when_store_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_health, "PROBE_SECONDS", 0.01)
    path = tmp_path / "jobs.db"
    async with Optimizer(store=path) as first:
        lose_lock(path)
        async with Optimizer(store=path):
            await first.wait_drained()
    assert "another server has taken over" in str(first.failure)
