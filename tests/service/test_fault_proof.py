"""Jobs of clients that misbehave, while workers die and the clock jumps.

Every accepted job ends in exactly one state, its result is right, and nothing is left behind.
"""

import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import time
from typing import Any, Final

import anyio
import httpx
import psutil
import pytest
from anyio.abc import SocketStream

from apass.executors import ProcessExecutor
from apass.service import JobQuery, JobRecord, JobState, Limits, Optimizer, create_app
from apass.service import acceptance as acceptance_module
from apass.service import dispatcher as dispatcher_module
from apass.service import job_request as job_request_module
from apass.service import live_job as live_job_module
from tests.helpers.amounts import amount
from tests.helpers.servers import http_server
from tests.service.models import model_of, number_of

pytestmark = [pytest.mark.anyio, pytest.mark.network, pytest.mark.process, pytest.mark.slow]

JOBS: Final = amount(2_000, share=0.1)
KILLS: Final = amount(9, least=4)
CLIENTS: Final = 40
SEED: Final = 2


class Proof:
    """The clients, and what they have seen.

    Parameters:
        url: the address of the server.
        random: decides what each client does.

    """

    def __init__(self, url: str, random: Random) -> None:
        self.url = httpx.URL(url)
        self.random = random
        self.accepted: dict[str, str] = {}
        """The names of accepted jobs by id."""
        self.done = 0
        self.streams: list[SocketStream] = []
        """Streams of events that are never read."""
        self.hostile = [
            b"",
            random.randbytes(500),
            model_of(7)[:-9],
            b"\x0a" + b"\xff" * 40,
            b"\x3a\x80\x80\x80\x80\x10" + bytes(100),
            b"(" * 100_000,
        ]

    async def run(self) -> None:
        """Let all clients send all jobs."""
        # The server closes idle connections after 5 s.
        limits = httpx.Limits(max_connections=CLIENTS, keepalive_expiry=1)
        async with httpx.AsyncClient(base_url=self.url, timeout=120, limits=limits) as http:
            numbers = iter(range(JOBS))
            async with anyio.create_task_group() as group:
                for _ in range(CLIENTS):
                    group.start_soon(self._client, http, numbers)

    async def _client(self, http: httpx.AsyncClient, numbers: Any) -> None:
        for number in numbers:
            kinds: list[Any] = [self.submit, self.leave, self.half, self.slow, self.ignore, self.attack, self.cancel]
            behave = self.random.choices(kinds, weights=[70, 5, 5, 5, 2, 8, 5])[0]
            await behave(http, number)
            self.done += 1

    async def submit(self, http: httpx.AsyncClient, number: int) -> str | None:
        """Submit a job; some clients wait for it."""
        params = {"name": f"{number}.onnx", "report": self.random.choice(["true", "false"])}
        if self.random.random() < 0.5:
            params["wait"] = "20"
        headers = {"Idempotency-Key": f"key {number}"}
        answer = await http.post("/v1/jobs", params=params, content=model_of(number), headers=headers)
        assert answer.status_code in (200, 202), answer.text
        self.accepted[answer.json()["id"]] = f"{number}.onnx"
        return str(answer.json()["id"])

    async def leave(self, http: httpx.AsyncClient, number: int) -> None:
        """Send a request, and close the connection at once."""
        async with await self.connect() as stream:
            await stream.send(self.request(number, model_of(number)))

    async def half(self, http: httpx.AsyncClient, number: int) -> None:
        """Send half a body, and close the connection."""
        request = self.request(number, model_of(number))
        async with await self.connect() as stream:
            await stream.send(request[: self.random.randrange(1, len(request))])

    async def slow(self, http: httpx.AsyncClient, number: int) -> None:
        """Send a body in many parts, and read the answer."""
        request = self.request(number, model_of(number))
        async with await self.connect() as stream:
            for start in range(0, len(request), 50):
                await stream.send(request[start : start + 50])
                await anyio.sleep(0.001)
            assert (await stream.receive()).startswith(b"HTTP/1.1 202")

    async def ignore(self, http: httpx.AsyncClient, number: int) -> None:
        """Open a stream of events, and never read it."""
        job_id = await self.submit(http, number)
        stream = await self.connect()
        await stream.send(f"GET /v1/jobs/{job_id}/events HTTP/1.1\r\nHost: {self.host}\r\n\r\n".encode())
        self.streams.append(stream)

    async def attack(self, http: httpx.AsyncClient, number: int) -> None:
        """Send a model that is none."""
        params, model = {"name": f"hostile {number}.onnx"}, self.random.choice(self.hostile)
        answer = await http.post("/v1/jobs", params=params, content=model)
        assert answer.status_code == (202 if model else 400), answer.text
        if model:
            self.accepted[answer.json()["id"]] = params["name"]

    async def cancel(self, http: httpx.AsyncClient, number: int) -> None:
        """Submit a job, and cancel it."""
        answer = await http.delete(f"/v1/jobs/{await self.submit(http, number)}")
        assert answer.status_code in (200, 202), answer.text

    @property
    def host(self) -> str:
        """The host and the port of the server."""
        return self.url.netloc.decode()

    def request(self, number: int, body: bytes) -> bytes:
        """Return the bytes of a submission."""
        head = f"POST /v1/jobs?name={number}.onnx HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    async def connect(self) -> SocketStream:
        """Connect to the server."""
        return await anyio.connect_tcp(self.url.host, self.url.port or 80)


def is_worker(process: psutil.Process) -> bool:
    """Return whether a process is a worker; libraries start other processes."""
    try:
        return any(argument.endswith("worker_main.py") for argument in process.cmdline())
    except psutil.Error:
        return False


async def kill_workers(proof: Proof, random: Random) -> None:
    """Kill workers at regular intervals."""
    for number in range(1, KILLS + 1):
        while proof.done < number * JOBS // (KILLS + 1):  # noqa: ASYNC110  the clients have no event for each job
            await anyio.sleep(0.01)
        workers = [child.pid for child in psutil.Process().children() if is_worker(child)]
        if workers:
            os.kill(random.choice(workers), signal.SIGKILL)


def jumping_clock(random: Random) -> Any:
    """Return a clock that sometimes jumps by up to a day, forwards or backwards."""
    offset = 0.0

    def now() -> float:
        nonlocal offset
        if random.random() < 0.001:
            offset = random.uniform(-86_400, 86_400)
        return time() + offset

    return now


def left_in(folder: Path) -> list[str]:
    """Return the names of the files in a folder, without those of the database."""
    return [path.name for path in folder.iterdir() if not path.name.startswith("jobs.db")]


async def test_every_accepted_job_ends_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(SEED)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for module in (acceptance_module, dispatcher_module, job_request_module, live_job_module):
        monkeypatch.setattr(module, "time", jumping_clock(Random(SEED)))
    optimizer = Optimizer(
        store=tmp_path / "jobs.db",
        executor=ProcessExecutor(2),
        limits=Limits(queued=None, attempts=20, max_age=None),
    )
    async with optimizer, http_server(create_app(optimizer, upload_folder=tmp_path)) as url:
        proof = Proof(url, random)
        async with anyio.create_task_group() as group:
            group.start_soon(proof.run)
            group.start_soon(kill_workers, proof, random)
        jobs = (await optimizer.list(JobQuery(tenant=None, limit=10_000))).jobs
        with anyio.fail_after(300):
            records = {job.id: await (await optimizer.find(job.id)).wait() for job in jobs}
        await check_results(optimizer, proof, records)
        for stream in proof.streams:
            await stream.aclose()
    # Only the database is left.
    assert left_in(tmp_path) == []
    assert optimizer.status().jobs == 0


async def check_results(optimizer: Optimizer, proof: Proof, records: dict[str, JobRecord]) -> None:
    """Check the state and the result of every job."""
    assert set(proof.accepted) <= set(records)
    assert {job_id: records[job_id].name for job_id in proof.accepted} == proof.accepted
    states = Counter(record.state for record in records.values())
    assert set(states) <= {JobState.DONE, JobState.FAILED, JobState.CANCELLED}
    assert states[JobState.DONE] > JOBS / 2
    for record in records.values():
        is_hostile = record.name.startswith("hostile")
        if record.state is JobState.FAILED:
            assert is_hostile, record
            assert record.failure is not None
            assert record.failure.kind == "AdapterError"
        elif record.state is JobState.DONE:
            assert not is_hostile
            job = await optimizer.find(record.id)
            assert f"{number_of(await job.result())}.onnx" == record.name
            states_seen = [event.data["state"] async for event in job.events() if event.kind == "state"]
            assert states_seen.count("done") == 1
