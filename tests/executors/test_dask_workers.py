"""Clusters whose workers are lost: a local one restarts them, others raise."""

import sys
from pathlib import Path
from typing import Any

import anyio
import dask.config as dask_config
import distributed
import pytest

from apass import PassContext
from apass.errors import WorkerLostError
from apass.executors import dask as dask_executor
from apass.executors.dask import DaskExecutor
from tests.executors import work
from tests.executors.files import pid_in

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, pytest.mark.slow]

settings: Any = dask_config
dask: Any = distributed


async def test_worker_given_up_by_its_cluster_is_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Simulate a busy machine, where a killed worker restarts too late."""
    monkeypatch.setattr(dask_executor, "LOST_SECONDS", 300.0)
    mod = {"f": "x", "deadly": str(tmp_path / "died")}
    with anyio.fail_after(300), settings.set({"distributed.deploy.lost-worker-timeout": "0 s"}):
        async with DaskExecutor(workers=1) as local, PassContext(executor=local):
            assert await work.DieOnce(mod) == dict.fromkeys(mod, "done")
            assert await local.call(work.double, 4) == 8


def _has_profiler() -> bool:
    """Return whether the worker that calls it is profiled."""
    worker: Any = dask.get_worker()
    running: bool = worker.periodic_callbacks["profile"].is_running()
    return running


async def test_workers_have_no_profiler_that_deadlocks() -> None:
    async with DaskExecutor(workers=1) as local:
        # The first call stops it.
        await local.call(_has_profiler)
        assert await local.call(_has_profiler) == (sys.version_info >= (3, 11, 9))


async def test_cluster_without_workers_raises_after_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask_executor, "LOST_SECONDS", 2.0)
    scheduler = {"allowed_failures": 5, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    cluster: Any = await anyio.to_thread.run_sync(
        lambda: dask.LocalCluster(n_workers=1, threads_per_worker=1, scheduler_kwargs=scheduler)
    )
    lost: list[str] = []
    try:
        async with (
            DaskExecutor(str(cluster.scheduler_address).replace("tcp", "dask")) as executor,
            anyio.create_task_group() as group,
        ):

            async def run() -> None:
                async with PassContext(executor=executor):
                    with pytest.raises(WorkerLostError) as caught:
                        await work.WaitOnce({"wait": str(tmp_path / "pid")})
                    lost.append(str(caught.value))

            group.start_soon(run)
            await pid_in(tmp_path / "pid")
            await anyio.to_thread.run_sync(cluster.scale, 0)
    finally:
        await anyio.to_thread.run_sync(cluster.close)
    assert lost == ["the body of pass 'WaitOnce' cannot run: the cluster has had no worker for 2 s"]


async def test_stopped_worker_is_restarted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(dask_executor, "LOST_SECONDS", 300.0)
    mod = {"f": "x", "stopped": str(tmp_path / "was here")}
    async with DaskExecutor(workers=1, timeout=1.0) as local, PassContext(executor=local):
        assert await work.StopOnce(mod) == dict.fromkeys(mod, "done")


async def test_time_to_load_the_work_is_not_limited() -> None:
    async with DaskExecutor(workers=1, timeout=0.5) as local:
        assert await local.call(isinstance, work.SlowToLoad(), int)
