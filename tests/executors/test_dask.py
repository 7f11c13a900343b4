"""Bodies and modules on a real Dask cluster of worker processes on this machine."""

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

from apass import PassContext, optimize_all
from apass.errors import ExecutorError, RemoteError, WorkerLostError
from apass.executors import dask as dask_executor
from apass.executors.dask import DaskExecutor
from tests.executors import contexts, work
from tests.executors.files import pid_in, written

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process]

dask: Any = distributed
settings: Any = dask_config


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of a cluster of two workers, for all tests of the file."""
    # Use a free port: another cluster may use the default port.
    scheduler = {"dashboard": False, "dashboard_address": "127.0.0.1:0"}
    # Killed workers restart slowly on a busy machine.
    late = settings.set({"distributed.deploy.lost-worker-timeout": "10 minutes"})
    with late, pytest.MonkeyPatch.context() as patch:
        patch.setattr(dask_executor, "LOST_SECONDS", 300.0)
        cluster: Any = dask.LocalCluster(n_workers=2, threads_per_worker=1, scheduler_kwargs=scheduler)
        with cluster:
            yield str(cluster.scheduler_address).replace("tcp://", "dask://")


def wait_for_workers(address: str) -> None:
    """Wait until both workers run; earlier tests may have killed them."""
    with dask.Client(address.removeprefix("dask://"), set_as_default=False) as client:
        client.wait_for_workers(2, timeout=300)


@pytest.fixture(scope="module")
async def executor(address: str, anyio_backend: str) -> AsyncIterator[DaskExecutor]:
    """Open an executor over the cluster, in the event loop of the tests."""
    await anyio.to_thread.run_sync(wait_for_workers, address)
    async with DaskExecutor(address) as connected:
        yield connected


@pytest.mark.slow
async def test_bodies_run_on_the_cluster(executor: DaskExecutor) -> None:
    names = [f"f{i}" for i in range(300)]
    async with PassContext(executor=executor, config={"tests.executors.step": 3}) as ctx:
        assert await work.Increment(dict.fromkeys(names, 1)) == dict.fromkeys(names, 4)
        locations: Any = await work.Location({"a": 1, "b": 2})
        assert (locations["a"][0] != os.getpid(), locations["a"][2:]) == (
            True,
            ["a", None, ["Location"], ["a", "b"], 2],
        )
        with pytest.raises(RemoteError, match="OddError: odd: no") as caught:
            await work.Fail({"b": "odd"})
        assert "raised in process" in caught.value.__notes__[1]
        await work.Report({"a": "x"})
        assert [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics] == ["saw x"]


@pytest.mark.slow
async def test_work_on_the_cluster_sees_the_context(executor: DaskExecutor) -> None:
    async with PassContext(3, executor=executor, config={"tests.executors.step": 50}, deadline=600) as ctx:
        body: Any = await contexts.Describe({"f": 1})
        module: Any = (await optimize_all([{"f": 1}], contexts.DescribeModule, executor=executor))[0]
        assert body == {"f": [True, False, 3, 50, True, ["Describe", "f", None]]}
        assert module == {"f": [True, 3, 50, True, ["DescribeModule", None, "0"]]}
        assert await executor.call(contexts.describe) == [3, 50, True, None]
    assert [diagnostic.message for diagnostic in ctx.diag_ctx.diagnostics] == ["described"] * 3


async def test_address_of_the_cluster_is_an_executor(address: str) -> None:
    async with PassContext(executor=address, config={"tests.executors.step": 3}):
        assert await work.Increment({"f": 1}) == {"f": 4}
    assert await optimize_all([{"f": 1}], work.AddSum, executor=address) == [{"f": 1, "sum": 1}]


async def test_short_calls_use_all_workers(address: str) -> None:
    executor = DaskExecutor(address, workers=1)
    await executor.map(work.double, range(2))
    assert executor.slots().total_tokens == 2


async def test_modules_and_functions_run_on_the_cluster(executor: DaskExecutor) -> None:
    big = {f"m{i}": {"f": i, "text": 10_000} for i in range(6)}
    assert await optimize_all(big, work.AddSum, executor=executor) == {
        f"m{i}": {"f": i, "text": 10_000, "sum": 10_000 + i} for i in range(6)
    }
    assert await executor.map(work.double, range(50)) == [2 * i for i in range(50)]
    with pytest.raises(LookupError, match="three"):
        await executor.call(work.fail_at_three, 3)


async def test_killed_worker_loses_no_function_or_module(executor: DaskExecutor, tmp_path: Path) -> None:
    # The message exceeds `SMALL`, so it is scattered and has to be sent again.
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
    done, modules = sorted(results, key=lambda result: isinstance(result, list))
    assert done == dict.fromkeys(mod, "done")
    assert modules == [{"a": i, "sum": i} for i in range(8)]


@pytest.mark.slow
async def test_cancelled_run_stops_bodies_and_withdraws_queued_ones(executor: DaskExecutor, tmp_path: Path) -> None:
    paths = [tmp_path / str(i) for i in range(6)]
    # A worker that an earlier test killed may restart slowly.
    with anyio.fail_after(300):
        async with PassContext(executor=executor), anyio.create_task_group() as group:
            group.start_soon(work.RecordAndWait, {path.name: str(path) for path in paths})
            while len(written(paths)) < 2:  # noqa: ASYNC110  another process writes
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        # The running bodies would never end by themselves. Both workers are free again.
        assert await executor.map(work.double, range(4)) == [0, 2, 4, 6]
    assert len(written(paths)) == 2


async def test_cancelled_run_ends_whole_passes(executor: DaskExecutor) -> None:
    with anyio.fail_after(300):
        with anyio.move_on_after(0.5) as scope:
            await optimize_all([{"a": 1}] * 3, work.WaitForever, executor=executor)
        assert scope.cancelled_caught
        assert await executor.map(work.double, range(4)) == [0, 2, 4, 6]


async def test_client_of_the_caller_stays_open(address: str) -> None:
    client: Any = await anyio.to_thread.run_sync(
        lambda: dask.Client(address.removeprefix("dask://"), set_as_default=False)
    )
    try:
        async with DaskExecutor(client) as other:
            assert await other.call(work.double, 4) == 8
        assert client.status == "running"
    finally:
        await anyio.to_thread.run_sync(client.close)


@pytest.fixture
def default_port_taken() -> Iterator[None]:
    """Occupy the default port of Dask's dashboard."""
    with socket.socket() as taken:
        with suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("default_port_taken")
async def test_local_cluster_starts_when_default_port_is_taken() -> None:
    async with DaskExecutor(workers=1) as local:
        assert await local.call(work.double, 4) == 8


async def test_invalid_clusters_are_rejected() -> None:
    with pytest.raises(TypeError, match=r"cluster must be a distributed.Client, an address or None, got 3"):
        DaskExecutor(3)
    with pytest.raises(ExecutorError, match="'tcp://a:1' is no address of a Dask cluster; write dask://a:1"):
        DaskExecutor("tcp://a:1")
    with pytest.raises(ValueError, match="names the executor 'dask://' without an address; write dask://HOST:PORT"):
        PassContext(executor="dask://")
    with pytest.raises(ExecutorError, match="no Dask scheduler replied at dask://nonsense"):
        await DaskExecutor("dask://nonsense").call(work.double, 1)


@pytest.mark.slow
async def test_work_that_kills_all_workers_raises(executor: DaskExecutor) -> None:
    async with PassContext(executor=executor):
        with (
            anyio.fail_after(300),
            pytest.raises(WorkerLostError, match=r"lost two workers in succession: the worker tcp://\S+ died"),
        ):
            await work.DieAlways({"a": "deadly"})
