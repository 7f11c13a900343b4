"""A server, its standbys, PostgreSQL and a Dask cluster: one of each is killed.

All jobs end exactly once, with the right result.
"""

from collections import Counter
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, Final

import anyio
import httpx
import pytest

from apass.service.connection import Body
from tests.executors.dask_cluster import dask_cluster
from tests.helpers.amounts import amount
from tests.helpers.servers import server_process
from tests.service.models import model_of, number_of
from tests.service.postgres import PostgresServer, needs_postgres

pytestmark = [
    needs_postgres,
    pytest.mark.anyio,
    pytest.mark.network,
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),  # the servers run on it
]

JOBS: Final = amount(2_000, share=0.1)
CLIENTS: Final = 20


class Clients:
    """Clients that submit jobs to the servers that live.

    Parameters:
        urls: the addresses of the servers.

    """

    def __init__(self, urls: list[str]) -> None:
        self.urls = urls
        self.ids: dict[int, str] = {}
        """The ids of accepted jobs by their number."""
        self._turns = count()

    async def request(self, http: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request to one server after the other until one answers."""
        while True:
            url = self.urls[next(self._turns) % len(self.urls)]
            request = http.build_request(method, url + path, **options)
            request.stream = Body([request.content], len(request.content))
            try:
                answer = await http.send(request)
            except httpx.TransportError:
                answer = None
            if answer is not None and answer.status_code not in (429, 503):
                return answer
            await anyio.sleep(0.1)

    async def submit_all(self, http: httpx.AsyncClient) -> None:
        """Submit all jobs."""
        numbers = iter(range(JOBS))

        async def submit() -> None:
            for number in numbers:
                params = {"name": f"{number}.onnx", "report": "false"}
                headers = {"Idempotency-Key": str(number)}
                answer = await self.request(
                    http, "POST", "/v1/jobs", params=params, headers=headers, content=model_of(number)
                )
                assert answer.status_code == 202, answer.text
                self.ids[number] = answer.json()["id"]

        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(submit)

    async def accepted(self, number: int) -> None:
        """Wait until a number of jobs is accepted."""
        while len(self.ids) < number:  # noqa: ASYNC110  the clients have no event for each job
            await anyio.sleep(0.01)


async def test_killed_parts_lose_no_job(postgres: PostgresServer) -> None:
    failures = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "5"}
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(dask_cluster(scheduler=failures))
        options = ("--store", postgres.create(), "--executor", cluster.address, "--attempts", 50, "--standby")
        # The first server is killed, and the others are standbys.
        servers = [stack.enter_context(server_process(*options)) for _ in range(3)]
        clients = Clients([server.url for server in servers])
        http = await stack.enter_async_context(
            httpx.AsyncClient(timeout=120, limits=httpx.Limits(max_connections=CLIENTS))
        )
        async with anyio.create_task_group() as group:
            group.start_soon(clients.submit_all, http)
            await clients.accepted(JOBS // 4)
            servers[0].process.kill()
            await clients.accepted(JOBS // 2)
            await anyio.to_thread.run_sync(postgres.restart, "immediate")
            await clients.accepted(3 * JOBS // 4)
            cluster.workers[0].kill()
        clients.urls = clients.urls[1:]
        await check_jobs(clients, http)


async def check_jobs(clients: Clients, http: httpx.AsyncClient) -> None:
    """Wait for all jobs, and check their results, several at once."""
    assert len(set(clients.ids.values())) == JOBS
    states: Counter[str] = Counter()
    jobs = iter(clients.ids.items())

    async def check() -> None:
        for number, job_id in jobs:
            job: dict[str, Any] = {"state": "queued"}
            while job["state"] in ("queued", "running"):
                job = (await clients.request(http, "GET", f"/v1/jobs/{job_id}", params={"wait": "20"})).json()
            states[job["state"]] += 1
            result = await clients.request(http, "GET", f"/v1/jobs/{job_id}/result")
            assert (result.status_code, number_of(result.content)) == (200, number)
            events = (await clients.request(http, "GET", f"/v1/jobs/{job_id}/events")).text
            assert events.count('"state":"done"') == 1

    with anyio.fail_after(600):
        async with anyio.create_task_group() as group:
            for _ in range(CLIENTS):
                group.start_soon(check)
    assert states == {"done": JOBS}
