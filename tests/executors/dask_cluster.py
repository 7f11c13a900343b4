"""A real Dask cluster, whose processes are started again when they end."""

import os
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from subprocess import DEVNULL
from typing import Any, Final

import anyio
import dask.config as dask_config
import distributed
from anyio.abc import Process
from anyio.to_thread import run_sync

dask: Any = distributed
settings: Any = dask_config

_DASK: Final = (sys.executable, "-m", "dask")


def free_port() -> int:
    """Return a port that no program uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class DaskCluster:
    """A scheduler on a port of this machine, and its workers.

    Parameters:
        port: the port.
        scheme: `tcp` or `tls`.

    """

    def __init__(self, port: int, scheme: str = "tcp") -> None:
        self.address: Final = f"dask://127.0.0.1:{port}"
        self.scheduler: Process
        self.workers: Final[dict[int, Process]] = {}
        self._may_run = anyio.Event()
        self._may_run.set()
        self._port = port
        self._url = f"{scheme}://127.0.0.1:{port}"

    async def keep_scheduler(self, env: Mapping[str, str]) -> None:
        """Run the scheduler, and start it again when it ends."""
        while True:
            await self._may_run.wait()
            options = ("--host", self._url.rpartition(":")[0], "--port", str(self._port), "--no-dashboard")
            self.scheduler = await _start((*_DASK, "scheduler", *options), env)
            await _end_with(self.scheduler)

    def stop_scheduler(self) -> None:
        """Kill the scheduler, which is not started again before `start_scheduler`."""
        self._may_run = anyio.Event()
        self.scheduler.kill()

    def start_scheduler(self) -> None:
        """Start the scheduler again."""
        self._may_run.set()

    async def keep_worker(self, number: int, env: Mapping[str, str]) -> None:
        """Run a worker of one thread, and start it again when it ends."""
        while True:
            options = (self._url, "--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "600")
            self.workers[number] = await _start((*_DASK, "worker", *options), env)
            await _end_with(self.workers[number])

    def wait_for_workers(self, count: int, config: Mapping[str, str]) -> None:
        """Wait until so many workers run; blocks."""
        with settings.set(config), dask.Client(self._url, set_as_default=False, timeout=300) as client:
            client.wait_for_workers(count, timeout=300)


async def _start(command: tuple[str, ...], env: Mapping[str, str]) -> Process:
    return await anyio.open_process(command, stdout=DEVNULL, stderr=DEVNULL, env={**os.environ, **env})


async def _end_with(process: Process) -> None:
    """Wait for the end of a process, and kill it if the caller is cancelled."""
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        with anyio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def dask_cluster(
    *workers: Mapping[str, str],
    scheduler: Mapping[str, str] | None = None,
    scheme: str = "tcp",
    config: Mapping[str, str] | None = None,
) -> AsyncGenerator[DaskCluster]:
    """Run a cluster for the block.

    Parameters:
        workers: variables of the environment for each worker; two workers without any by default.
        scheduler: those of the scheduler.
        scheme: `tcp` or `tls`.
        config: the configuration of Dask for a client.

    """
    cluster = DaskCluster(free_port(), scheme)
    async with anyio.create_task_group() as group:
        group.start_soon(cluster.keep_scheduler, scheduler or {})
        for number, env in enumerate(workers or ({}, {})):
            group.start_soon(cluster.keep_worker, number, env)
        try:
            await run_sync(cluster.wait_for_workers, len(workers) or 2, config or {})
            yield cluster
        finally:
            group.cancel_scope.cancel()
