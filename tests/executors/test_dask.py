"""Bodies and modules on a real cluster of worker processes on this machine."""

import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import dask.config as dask_config
import distributed
import pytest

from apass import ExecutorError, PassContext, RemoteError, WorkerLostError, optimize_all
from apass.executors import dask as dask_executor
from apass.executors.dask import DaskExecutor
from tests.executors import work
from tests.executors.files import pid_in, written

pytestmark = pytest.mark.anyio

dask: Any = distributed
settings: Any = dask_config


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a cluster of two workers for all tests of the file."""
    # On a free port, as the usual one may be another cluster's.
    scheduler = {"allowed_failures": 1, "dashboard": False, "dashboard_address": "127.0.0.1:0"}
    # Killed workers come back late on a busy machine.
    late = settings.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    with late, pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_executor, "LOST_SECONDS", 300.0)
        cluster: Any = dask.LocalCluster(n_workers=2, threads_per_worker=1, scheduler_kwargs=scheduler)
        with cluster:
            yield str(cluster.scheduler_address)


def wait_for_workers(address: str) -> None:
    """Return when all workers are there, who may have been killed by the tests before."""
    with dask.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=300)


@pytest.fixture(scope="module")
async def executor(address: str, anyio_backend: str) -> AsyncIterator[DaskExecutor]:
    """The executor over it, in the event loop of the tests."""
    await anyio.to_thread.run_sync(wait_for_workers, address)
    async with DaskExecutor(address) as over_it:
        yield over_it


async def test_bodies_run_on_the_cluster(executor: DaskExecutor) -> None:
    names = [f"f{i}" for i in range(300)]
    async with PassContext(executor=executor, config={"tests.executors.step": 3}) as ctx:
        assert await work.Increment(dict.fromkeys(names, 1)) == dict.fromkeys(names, 4)
        where: Any = await work.WhereItRan({"a": 1, "b": 2})
        assert (where["a"][0] != os.getpid(), where["a"][2:]) == (True, ["a", None, ["WhereItRan"], ["a", "b"], 2])
        with pytest.raises(RemoteError, match="OddError: odd: no") as caught:
            await work.Fail({"b": "odd"})
        assert "raised in process" in caught.value.__notes__[1]
        await work.Report({"a": "x"})
        assert [one.message for one in ctx.diag_ctx.diagnostics] == ["saw x"]


async def test_modules_and_functions_run_on_the_cluster(executor: DaskExecutor) -> None:
    big = {f"m{i}": {"f": i, "text": 10_000} for i in range(6)}
    assert await optimize_all(big, work.AddSum, executor=executor) == {
        f"m{i}": {"f": i, "text": 10_000, "sum": 10_000 + i} for i in range(6)
    }
    assert await executor.map(work.double, range(50)) == [2 * i for i in range(50)]
    with pytest.raises(LookupError, match="three"):
        await executor.call(work.fail_at_three, 3)


async def test_a_killed_worker_loses_no_function_and_no_module(executor: DaskExecutor, tmp_path: Path) -> None:
    # More than is sent along with each batch, so the workers have to be given it again.
    mod: dict[str, Any] = {f"f{i}": "x" * 1000 for i in range(20)} | {"wait": str(tmp_path / "pid")}
    results: list[Any] = []

    async def run() -> None:
        async with PassContext(executor=executor):
            results.append(await work.WaitOnce(mod))

    async def run_modules() -> None:
        results.append(await optimize_all([{"a": i} for i in range(8)], work.AddSum, executor=executor))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        os.kill(await pid_in(tmp_path / "pid"), signal.SIGKILL)
        group.start_soon(run_modules)
    done, modules = sorted(results, key=lambda one: isinstance(one, list))
    assert done == dict.fromkeys(mod, "done")
    assert modules == [{"a": i, "sum": i} for i in range(8)]


async def test_a_cancelled_run_tells_the_bodies_at_work_and_takes_the_others_back(
    executor: DaskExecutor, tmp_path: Path
) -> None:
    paths = [tmp_path / str(i) for i in range(6)]
    # A worker that was killed before this may take a while to come back.
    with anyio.fail_after(300):
        async with PassContext(executor=executor), anyio.create_task_group() as group:
            group.start_soon(work.SayAndWait, {path.name: str(path) for path in paths})
            while len(written(paths)) < 2:  # noqa: ASYNC110  it is another process that writes
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        # The bodies at work would wait for ever; both workers are free again.
        assert await executor.map(work.double, range(4)) == [0, 2, 4, 6]
    assert len(written(paths)) == 2


async def test_a_cancelled_run_ends_whole_passes(executor: DaskExecutor) -> None:
    with anyio.fail_after(300):
        with anyio.move_on_after(0.5) as scope:
            await optimize_all([{"a": 1}] * 3, work.WaitForEver, executor=executor)
        assert scope.cancelled_caught
        assert await executor.map(work.double, range(4)) == [0, 2, 4, 6]


async def test_a_client_of_ones_own_stays_open(address: str) -> None:
    client: Any = await anyio.to_thread.run_sync(lambda: dask.Client(address, set_as_default=False))
    try:
        async with DaskExecutor(client) as other:
            assert await other.call(work.double, 4) == 8
        assert client.status == "running"
    finally:
        await anyio.to_thread.run_sync(client.close)


@pytest.fixture
def usual_port() -> Iterator[None]:
    """Has the port of Dask's dashboards taken, by whomever."""
    with socket.socket() as taken:
        with suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        yield


@pytest.mark.usefixtures("usual_port")
async def test_a_cluster_of_its_own_needs_no_port_that_another_may_have() -> None:
    async with DaskExecutor(workers=1) as own:
        assert await own.call(work.double, 4) == 8


async def test_what_is_no_cluster_is_told() -> None:
    with pytest.raises(TypeError, match=r"DaskExecutor takes a distributed.Client, an address or None, not 3"):
        DaskExecutor(3)
    with pytest.raises(ExecutorError, match="works within `async with DaskExecutor"):
        await DaskExecutor().call(work.double, 1)
    with pytest.raises(ExecutorError, match="no Dask scheduler answers at nonsense://"):
        async with DaskExecutor("nonsense://"):
            pass


async def test_work_that_kills_worker_after_worker_is_an_error(executor: DaskExecutor) -> None:
    async with PassContext(executor=executor):
        with (
            anyio.fail_after(300),
            pytest.raises(WorkerLostError, match=r"lost workers, one after the other: its workers died"),
        ):
            await work.DieAlways({"a": "deadly"})
