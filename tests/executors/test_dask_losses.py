"""A scheduler that is killed, gone for long, or connected by TLS."""

from pathlib import Path
from typing import Any

import anyio
import dask.config as dask_config
import pytest
import trustme
from anyio.to_thread import run_sync

from apass import PassContext, optimize_all
from apass.errors import ClusterLostError, ExecutorError
from apass.executors import dask as dask_executor
from apass.executors.dask import DaskExecutor
from tests.executors import work
from tests.executors.dask_cluster import dask, dask_cluster
from tests.executors.files import pid_in

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, pytest.mark.slow]

settings: Any = dask_config


async def test_killed_scheduler_loses_no_function_or_module(tmp_path: Path) -> None:
    mod: dict[str, Any] = {f"f{i}": "x" * 1000 for i in range(20)} | {"wait": str(tmp_path / "pid")}
    results: list[Any] = []
    async with dask_cluster() as cluster:

        async def run() -> None:
            async with PassContext(executor=cluster.address):
                results.append(await work.WaitOnce(mod))

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await pid_in(tmp_path / "pid")
            cluster.scheduler.kill()
            results.append(await optimize_all([{"a": i} for i in range(8)], work.AddSum, executor=cluster.address))
    modules, done = sorted(results, key=lambda result: isinstance(result, dict))
    assert modules == [{"a": i, "sum": i} for i in range(8)]
    assert done == dict.fromkeys(mod, "done")


async def test_reply_lost_with_the_scheduler_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the scheduler when the reply is there, and the client has not fetched it."""
    async with dask_cluster({}) as cluster, DaskExecutor(cluster.address) as executor:
        fetch, kill = dask.Future.result, iter([cluster.scheduler.kill])

        def result(future: Any) -> Any:
            next(kill, bool)()
            return fetch(future)

        monkeypatch.setattr(dask.Future, "result", result)
        assert await executor.call(work.double, 2) == 4


async def test_client_that_has_given_up_is_replaced() -> None:
    async with dask_cluster({}) as cluster:
        with settings.set({"distributed.comm.timeouts.connect": "1 s"}):
            async with DaskExecutor(cluster.address) as executor, anyio.create_task_group() as group:
                client = next(one for one in dask.Client._instances if one.status == "running")
                cluster.stop_scheduler()
                group.start_soon(executor.map, work.double, range(4))
                while client.status != "closed":  # noqa: ASYNC110  a thread of the client does it
                    await anyio.sleep(0.01)
                cluster.start_scheduler()
                assert await executor.map(work.double, range(4)) == [0, 2, 4, 6]


async def test_missing_scheduler_raises_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_executor, "LOST_SECONDS", 1.0)
    async with dask_cluster({}) as cluster, DaskExecutor(cluster.address) as executor:
        assert await executor.call(work.double, 2) == 4
        cluster.stop_scheduler()
        with pytest.raises(ClusterLostError, match="'double' cannot run: the cluster has had no scheduler for 1 s"):
            await executor.map(work.double, range(20))


async def test_closed_client_of_the_caller_is_reported() -> None:
    async with dask_cluster({}) as cluster:
        client: Any = await run_sync(lambda: dask.Client(cluster.address.removeprefix("dask://"), set_as_default=False))
        async with DaskExecutor(client) as executor:
            await run_sync(client.close)
            with pytest.raises(ExecutorError, match="the Dask client of the DaskExecutor is closed; keep it open"):
                await executor.call(work.double, 2)


async def test_configuration_of_dask_decides_on_tls(tmp_path: Path) -> None:
    authority, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    ca = trustme.CA()
    ca.cert_pem.write_to_path(authority)
    ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(own)
    config = {"ca-file": str(authority)} | {f"{role}.cert": str(own) for role in ("scheduler", "worker", "client")}
    names = {f"distributed.comm.tls.{name}": value for name, value in config.items()}
    env = {f"DASK_{name.upper().replace('.', '__').replace('-', '_')}": value for name, value in names.items()}
    async with dask_cluster(env, scheduler=env, scheme="tls", config=names) as cluster:
        with settings.set(names | {"distributed.comm.default-scheme": "tls"}):
            async with DaskExecutor(cluster.address) as executor:
                assert await executor.map(work.double, range(4)) == [0, 2, 4, 6]
        with pytest.raises(ExecutorError, match="no Dask scheduler replied"):
            async with DaskExecutor(cluster.address):
                pytest.fail("DaskExecutor connected without TLS")
