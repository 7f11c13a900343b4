"""Server-sent events: order, resumption, heartbeats, lost and slow clients."""

import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import httpx
import pytest
from anyio.abc import SocketAttribute
from httpx_sse import ServerSentEvent

import apass
from apass.service import Limits, Optimizer
from apass.service.connection import Connection, Parts
from apass.service.http import events as events_module
from tests.helpers.http_servers import raw_client, served, until, validate_event
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY, RELU, Gate, Params, named

pytestmark = [pytest.mark.anyio, pytest.mark.network]

SUBMIT: Params = {"suffix": "onnx"}


class ServerEvent(NamedTuple):
    """A server-sent event."""

    id: str
    kind: str
    data: dict[str, Any]


EventParts = Parts[ServerSentEvent]


@asynccontextmanager
async def event_stream(client: httpx.AsyncClient, path: str, **headers: str) -> AsyncGenerator[EventParts]:
    """Open a stream of events, and leave it at the end of the block."""
    async with client.stream(
        "GET", path, headers={name.replace("_", "-"): headers[name] for name in headers}
    ) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        async with Connection("http://localhost", None, 1.0, 1.0, None).events_in(answer) as parts:
            yield parts


async def next_event(parts: EventParts) -> ServerEvent | None:
    """Return the next event; None at the end."""
    async for event in parts:
        if event.data:
            data = event.json()
            validate_event(data)
            assert data["kind"] == event.event
            return ServerEvent(event.id, event.event, data)
        assert event.retry in (None, 2000)
    return None


async def rest(parts: EventParts) -> list[ServerEvent]:
    events: list[ServerEvent] = []
    while (event := await next_event(parts)) is not None:
        events.append(event)
    return events


async def read_events(client: httpx.AsyncClient, path: str, **headers: str) -> list[ServerEvent]:
    async with event_stream(client, path, **headers) as stream:
        return await rest(stream)


def states(events: Sequence[ServerEvent]) -> list[str]:
    return [event.data["state"] for event in events if event.kind == "state"]


@asynccontextmanager
async def finished_job() -> AsyncGenerator[tuple[httpx.AsyncClient, str]]:
    """Serve a finished job; yield a client and the path of the events."""
    async with served(Optimizer({"default": "onnx.IdentityElimination"})) as client:
        job = (await client.post("/v1/jobs", params={**SUBMIT, "wait": 30}, content=IDENTITY)).json()
        yield client, job["links"]["events"]


async def test_stream_has_all_events_and_ends() -> None:
    async with finished_job() as (client, path):
        events = await read_events(client, path)
        assert states(events) == ["queued", "running", "done"]
        kinds = [event.kind for event in events]
        assert (kinds[2], kinds[-2], set(kinds)) == ("started", "finished", {"state", "started", "remark", "finished"})
        ids = [int(event.id) for event in events]
        assert ids == sorted(set(ids)) == [event.data["id"] for event in events]
        head = await client.head(path)
        assert (head.status_code, head.headers["cache-control"]) == (200, "no-store")


async def test_stream_is_resumed_after_an_event() -> None:
    async with finished_job() as (client, path):
        events = await read_events(client, path)
        for index in (0, 2, len(events) - 2):
            last = events[index].id
            assert await read_events(client, f"{path}?after={last}") == events[index + 1 :]
            # A browser repeats the first query, and adds the header.
            assert await read_events(client, f"{path}?after=0", last_event_id=last) == events[index + 1 :]
        # It is not resumed forever.
        answer = await client.get(path, headers={"last-event-id": str(events[-1].id)})
        assert (answer.status_code, answer.content) == (204, b"")
        for last in ("x", "-1", "1.5", "9" * 30):
            with row(last):
                assert (await client.get(path, headers={"last-event-id": last})).status_code == 422
                assert (await client.get(path, params={"after": last})).status_code == 422
        # A job that did not run has its final event.
        job = (await client.post("/v1/jobs", params={**SUBMIT, "wait": 30}, content=IDENTITY)).json()
        assert job["reused"]
        events = await read_events(client, job["links"]["events"])
        assert states(events) == ["done"]
        headers = {"last-event-id": str(events[-1].id)}
        assert (await client.get(job["links"]["events"], headers=headers)).status_code == 204


async def test_events_arrive_while_the_job_runs() -> None:
    gate = Gate()
    optimizer = Optimizer({"gate": gate.pass_})
    async with served(optimizer, heartbeat=0.02) as client:
        job = (await client.post("/v1/jobs", params={**SUBMIT, "pipeline": "gate"}, content=RELU)).json()
        async with event_stream(client, job["links"]["events"]) as stream:
            begin = [await next_event(stream) for _ in range(3)]
            assert [event.kind for event in begin if event] == ["state", "state", "started"]
            # The job waits in its pass, and the connection shows that it works.
            sign = await anext(stream)
            assert (sign.data, sign.retry) == ("", None)
            gate.opened.set()
            assert states(await rest(stream)) == ["done"]


def noisy(count: int) -> apass.Pass[Any]:
    """Return a pass that emits many remarks."""

    @apass.module_pass(opt_level=0, name="Noisy")
    async def emit(mod: Any, ctx: apass.PassContext) -> Any:
        for index in range(count):
            ctx.remark(apass.Remark.analysis("Count", f"number {index}"))
        return mod

    return emit


async def test_streams_and_waits_end_with_optimizer_or_client() -> None:
    gate = Gate()
    optimizer = Optimizer({"gate": gate.pass_}, limits=Limits(drain=0.01))
    async with served(optimizer) as client:
        job = (await client.post("/v1/jobs", params={**SUBMIT, "pipeline": "gate"}, content=RELU)).json()
        for path in (job["links"]["events"], "/v1/events"):
            async with event_stream(client, path):
                await until(lambda: bool(open_streams()))
            await until(lambda: not open_streams())
        await gate.entered.wait()
        received: dict[str, list[ServerEvent]] = {}
        jobs: list[Any] = []

        async def read(path: str) -> None:
            received[path] = await read_events(client, path)

        async def wait() -> None:
            jobs.append((await client.get(job["links"]["self"], params={"wait": 30})).json())

        async with anyio.create_task_group() as group:
            group.start_soon(read, job["links"]["events"])
            group.start_soon(read, "/v1/events")
            group.start_soon(wait)
            await until(lambda: len(open_streams()) == 2 and bool(tasks_named("wait_for.<locals>.leave")))
            await optimizer.drain()
        assert jobs[0]["state"] == "cancelled"
        assert states(received[job["links"]["events"]])[-1] == "cancelled"
        assert states(received["/v1/events"])[-1] == "cancelled"


def tasks_named(part: str) -> list[str]:
    return [str(task.name) for task in anyio.get_running_tasks() if part in str(task.name)]


def open_streams() -> list[str]:
    """Return the names of the tasks that send events."""
    return tasks_named("_end_with_client")


@pytest.mark.asyncio_only  # Hypercorn's sends cannot be cancelled
async def test_client_that_never_reads_blocks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "SEND_SECONDS", 0.5)
    pipeline = apass.Sequential([noisy(1000)])
    async with served(Optimizer({"default": pipeline})) as client, raw_client(client) as raw:
        raw.stream.extra(SocketAttribute.raw_socket).setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await raw.send("GET /v1/events?kinds=state,remark HTTP/1.1\nHost: localhost")
        await until(lambda: bool(open_streams()))
        for index in range(10):
            params: Params = {**SUBMIT, "wait": 30, "report": "false"}
            job = (await client.post("/v1/jobs", params=params, content=named(f"g{index}"))).json()
            assert job["state"] == "done"
        # The server gives the client up.
        await until(lambda: not open_streams())


async def test_all_jobs_are_in_one_stream() -> None:
    optimizer = Optimizer({"default": "onnx.IdentityElimination"})
    async with served(optimizer) as client, event_stream(client, "/v1/events") as stream:
        first = (await client.post("/v1/jobs", params={"name": "a.onnx"}, content=IDENTITY)).json()
        seen = [event for _ in range(3) if (event := await next_event(stream)) is not None]
        assert states(seen) == ["queued", "running", "done"]
        assert {(event.data["job"]["id"], event.data["job"]["name"]) for event in seen} == {(first["id"], "a.onnx")}
        # The result of an equal job is there at once.
        again = (await client.post("/v1/jobs", params={"name": "b.onnx"}, content=IDENTITY)).json()
        seen = [event for _ in range(2) if (event := await next_event(stream)) is not None]
        assert (states(seen), seen[0].data["job"]["id"]) == (["queued", "done"], again["id"])
        async with event_stream(client, "/v1/events?kinds=finished") as finished:
            await client.post("/v1/jobs", params={**SUBMIT, "wait": 30}, content=named("c"))
            event = await next_event(finished)
            assert event is not None
            assert (event.kind, event.data["pass"]) == ("finished", "onnx.IdentityElimination")
        answer = await client.get("/v1/events", params={"kinds": "state,queued"})
        assert (answer.status_code, "kinds must be one of state, started" in answer.json()["detail"]) == (422, True)


async def test_listener_sees_stored_jobs_of_its_tenant() -> None:
    async with Optimizer({"default": "onnx.IdentityElimination"}) as optimizer:
        with optimizer.listen() as news, optimizer.listen(tenant="alice") as own:
            first = await optimizer.submit(IDENTITY, kind=".onnx", idempotency_key="k")
            again = await optimizer.submit(IDENTITY, kind=".onnx", idempotency_key="k")
            await first.wait()
            other = await optimizer.submit(RELU, kind=".onnx")
            await other.wait()
            seen = [(record.id, event.data["state"]) for record, event in news.read_nowait(100)]
            assert again.id == first.id
            assert seen == [(job.id, state) for job in (first, other) for state in ("queued", "running", "done")]
            alice = await optimizer.submit(RELU, kind=".onnx", tenant="alice")
            await alice.wait()
            assert {record.id for record, _ in own.read_nowait(100)} == {alice.id}


async def test_slow_listener_loses_the_oldest_events() -> None:
    async with Optimizer({"default": apass.Sequential([noisy(1_500)])}) as optimizer:
        with optimizer.listen(["remark"]) as news:
            await (await optimizer.submit(RELU, kind=".onnx")).wait()
            kept = [event.data["remark"] for _, event in news.read_nowait(2_000)]
            assert (len(kept), news.dropped) == (1_000, 500)
            assert kept[-1] == "analysis Count: number 1499"
