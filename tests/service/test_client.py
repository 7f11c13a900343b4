"""`Client` with real servers, whose connections break."""

import gc
from collections.abc import AsyncGenerator, AsyncIterable, Generator, MutableMapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import stamina

import apass
from apass.errors import InputError
from apass.service import (
    AccessError,
    Client,
    IdempotencyError,
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    JobOptions,
    JobState,
    Limits,
    ModelTooLargeError,
    NoResultError,
    Optimizer,
    QueueFullError,
    ServerUnavailableError,
    ServiceError,
    Tokens,
    UnknownJobError,
    create_app,
    new_token,
)
from apass.service.server import AsgiApp
from tests.helpers.command_line import nodes_of, write_model
from tests.helpers.folders import files
from tests.helpers.http_servers import until
from tests.helpers.rows import row
from tests.helpers.servers import FaultyProxy, http_server
from tests.service.loop_passes import PLAIN, Gate, fail

pytestmark = pytest.mark.anyio

MODEL = b'{"f": 1}'
"""The file of a model."""


@asynccontextmanager
async def served(
    gate: Gate | None = None, *, limits: Limits | None = None, tokens: Tokens | None = None
) -> AsyncGenerator[str]:
    """Yield the URL of a server."""
    pipelines: dict[str, apass.Pass[Any] | str] = {"default": "", "fail": fail(), "hold": (gate or Gate()).wait}
    optimizer = Optimizer(pipelines, allow=["onnx.*"], limits=limits)
    async with optimizer, http_server(create_app(optimizer, auth=tokens)) as url:
        yield url


def scripted(answers: list[tuple[int, bytes]]) -> AsgiApp:
    """Return an application that gives these answers."""

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        status, body = answers.pop(0)
        headers = [(b"retry-after", b"0"), (b"location", b"https://elsewhere.example/")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


@pytest.fixture(autouse=True)
def quick_retries() -> Generator[None]:
    """Let failed requests be repeated at once."""
    with stamina.set_testing(True, attempts=10**9):
        yield


async def test_submitted_file_is_optimized(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    async with served() as url, Client(url) as client:
        job = await client.submit(model, priority=3)
        kinds = [event.kind async for event in job.events()]
        data = await job.result()
        size = await job.save(tmp_path / "result.onnx")
        with pytest.raises(OSError, match=r"m\.onnx"):
            await job.save(model / "result.onnx")
        assert files(tmp_path) == ["m.onnx", "result.onnx"]
        assert await job.model() == model.read_bytes()
        assert "onnx.IdentityElimination" in await job.report()
    assert (kinds[0], kinds[-1], "finished" in kinds) == ("state", "state", True)
    assert ((tmp_path / "result.onnx").read_bytes(), size) == (data, len(data))
    assert nodes_of(tmp_path / "result.onnx") == ["Relu", "Neg"]
    record = job.record
    assert (record.name, record.kind, record.priority, record.state) == ("m.onnx", ".onnx", 3, JobState.DONE)
    assert record.summary is not None
    assert (record.summary.before, record.summary.after) == (4, 2)
    assert record.summary.changed_by == {"onnx.IdentityElimination": 1}


async def test_options_and_long_pipeline_reach_the_server(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx").read_bytes()
    pipeline = ",".join(["onnx.IdentityElimination"] * 300)
    options = JobOptions(
        opt_level=1, disabled_pass=("onnx.IdentityElimination",), report=False, functions=True, texts=True
    )
    async with served() as url, Client(url) as client:
        job = await client.submit(
            model, kind=".onnx", pipeline=pipeline, name='a "b" ü & c', deadline=60, options=options
        )
        assert await job.result() == model
    record = job.record
    assert (record.pipeline, record.name) == (pipeline, 'a "b" ü & c')
    assert record.options == options
    assert record.deadline is not None
    assert record.deadline - record.created == pytest.approx(60)


async def test_errors_are_those_of_the_optimizer() -> None:
    async with served(limits=Limits(model_bytes=1000)) as url, Client(url) as client:
        with pytest.raises(InvalidJobError, match="PrintIR"):
            await client.submit(MODEL, kind=".json", pipeline="PrintIR")
        with pytest.raises(InvalidJobError, match=r"no format of models for the suffix '\.onx'"):
            await client.submit(MODEL, kind=".onx")
        with pytest.raises(InvalidJobError, match="cannot read"):
            await client.submit(Path("missing.onnx"))
        # The size of this file is reported as 0.
        with pytest.raises(InvalidJobError, match="the file of the model changed while it was sent"):
            await client.submit(Path("/proc/self/status"), kind=".onnx")
        with pytest.raises(InvalidJobError, match="priority"):
            await client.submit(MODEL, kind=".json", priority=10_000)
        with pytest.raises(ModelTooLargeError):
            await client.submit(bytes(2000), kind=".onnx")
        with pytest.raises(UnknownJobError, match=r"there is no job '0{32}'"):
            await client.find("0" * 32)
        failed = await client.submit(MODEL, kind=".json", pipeline="fail", idempotency_key="k")
        assert (await client.submit(MODEL, kind=".json", pipeline="fail", idempotency_key="k")).id == failed.id
        with pytest.raises(IdempotencyError):
            await client.submit(MODEL, kind=".json", idempotency_key="k")
        with pytest.raises(JobFailedError, match="ValueError: no") as caught:
            await failed.result()
        assert (caught.value.failure.kind, caught.value.failure.pass_name) == ("ValueError", "Fail")
        held = await client.submit(MODEL, kind=".json", pipeline="hold", options=PLAIN)
        with pytest.raises(NoResultError):
            await held.remove()
        assert (await held.cancel()).state is JobState.CANCELLED
        with pytest.raises(JobCancelledError):
            await held.result()
        with pytest.raises(NoResultError):
            await held.report()
        await held.remove()
        with pytest.raises(UnknownJobError):
            await held.refresh()


async def test_jobs_are_listed_in_pages_and_repeated() -> None:
    async with served() as url, Client(url) as client:
        ids = [(await client.submit(MODEL, kind=".json", name=f"job {index}")).id for index in range(5)]
        for job_id in ids:
            await (await client.find(job_id)).wait()
        assert [job.id async for job in client.jobs(page=2)] == ids[::-1]
        assert [job.id async for job in client.jobs(page=2, before=ids[2])] == ids[1::-1]
        assert [job.id async for job in client.jobs(text="job 3")] == [ids[3]]
        assert [job.id async for job in client.jobs(states=[JobState.FAILED])] == []
        again = await (await client.find(ids[3])).retry()
        assert again.id not in ids
        assert (await again.wait()).name == "job 3"


async def test_catalogue_and_status_are_readable() -> None:
    async with served() as url, Client(url) as client:
        assert "onnx.Simplify" in [item["name"] for item in await client.passes()]
        assert [item["name"] for item in await client.pipelines()] == ["default", "fail", "hold"]
        plan = await client.plan("onnx.Simplify", options=JobOptions(opt_level=0))
        assert "onnx.Simplify" in str(plan["pipeline"])
        assert (await client.status())["accepts"] is True


async def test_token_is_sent_and_checked() -> None:
    secret, token = new_token("alice", ["submit"])
    reader, read_token = new_token("alice", ["read"])
    async with served(tokens=Tokens([token, read_token])) as url:
        async with Client(url, token=secret) as client:
            job = await client.submit(MODEL, kind=".json")
            assert job.record.tenant == "alice"
            with pytest.raises(AccessError, match="needs read") as caught:
                await job.refresh()
            assert not caught.value.needs_token
        async with Client(url, token=reader) as client:
            with pytest.raises(AccessError, match="need a token with the scope admin"):
                await anext(client.jobs(tenant="bob"))
        for wrong in (None, "x" * 40):
            async with Client(url, token=wrong) as client:
                with pytest.raises(AccessError, match="token") as caught:
                    await client.status()
                assert caught.value.needs_token


async def test_submission_is_repeated_until_the_answer_arrives() -> None:
    async with served() as url:
        proxy = FaultyProxy(url)
        # Never sent, accepted without an answer, and an answer that ends in its headers.
        proxy.faults = [-1, 0, 30]
        async with proxy.run() as faulty, Client(faulty) as client:
            job = await client.submit(MODEL, kind=".json")
            assert [other.id async for other in client.jobs()] == [job.id]
        keys = {
            line for data in proxy.requests for line in data.splitlines() if line.lower().startswith(b"idempotency")
        }
        assert (len(keys), len([data for data in proxy.requests if data.startswith(b"POST")])) == (1, 3)


async def test_large_model_survives_broken_connections(tmp_path: Path) -> None:
    model = tmp_path / "large.onnx"
    model.write_bytes(bytes(range(256)) * 20_000)
    async with served() as url:
        proxy = FaultyProxy(url)
        async with proxy.run() as faulty:
            # It is sent again from its start.
            proxy.faults = [0]
            async with Client(faulty) as client:
                job_id = (await client.submit(model)).id
            # The first one carries the record of the job, and the headers of the model.
            proxy.faults = [3_000, 1_000_000, 2_000_000]
            async with Client(faulty) as client:
                assert await (await client.find(job_id)).model() == model.read_bytes()
        # A download continues where it ended.
        ranges = [line for data in proxy.requests for line in data.splitlines() if line.lower().startswith(b"range:")]
        assert (len(ranges), proxy.faults) == (3, [])


async def test_damaged_download_is_an_error(tmp_path: Path) -> None:
    def damaging(app: Any) -> Any:
        async def damaged(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            async def send_damaged(message: MutableMapping[str, Any]) -> None:
                if scope["path"].endswith("/result") and message.get("body"):
                    message = {**message, "body": b"\0" * len(message["body"])}
                await send(message)

            await app(scope, receive, send_damaged)

        return damaged

    async with Optimizer() as optimizer, http_server(damaging(create_app(optimizer))) as url, Client(url) as client:
        job = await client.submit(MODEL, kind=".json")
        with pytest.raises(ServiceError, match="was damaged on its way"):
            await job.save(tmp_path / "result.json")
        assert await job.model() == MODEL
    assert files(tmp_path) == []


async def test_events_continue_after_a_lost_connection(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    async with served() as url:
        async with Client(url) as client:
            job = await client.submit(model)
            await job.wait()
            expected = [event.id async for event in job.events()]
        proxy = FaultyProxy(url)
        # The first one carries the record of the job.
        proxy.faults = [2_500, 0, 1_000, 1_500, -1]
        async with proxy.run() as faulty, Client(faulty) as client:
            ids = [event.id async for event in (await client.find(job.id)).events()]
        assert proxy.faults == []
        assert ids == expected
        assert len(ids) == len(set(ids)) > 10


@pytest.mark.slow  # uvicorn gives the stream of events a second
async def test_wait_survives_a_restart_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.service.remote_job.PAUSE_SECONDS", 0.05)
    gate = Gate()
    async with Optimizer({"hold": gate.wait}) as optimizer:
        app = create_app(optimizer)
        async with http_server(app) as url:
            proxy = FaultyProxy(url)
        async with proxy.run() as stable, Client(stable) as client:
            async with http_server(app, grace=0.1) as url:
                proxy.port = int(url.rpartition(":")[2])
                job = await client.submit(MODEL, kind=".json", pipeline="hold")
                events = job.events()
                assert (await anext(events)).data["state"] == "queued"
            # Nothing answers at the port now.
            async with anyio.create_task_group() as group:
                group.start_soon(job.wait)
                async with http_server(app) as url:
                    proxy.port = int(url.rpartition(":")[2])
                    gate.opened.set()
                    assert [event async for event in events][-1].data["state"] == "done"
                    await job.wait()
    assert (len(gate.started), job.record.state) == (1, JobState.DONE)


async def test_stream_without_events_for_long_is_continued() -> None:
    gate, broken = Gate(), anyio.Event()

    async def leave() -> Any:
        await broken.wait()
        return {"type": "http.disconnect"}

    async with Optimizer({"hold": gate.wait}) as optimizer, anyio.create_task_group() as group:
        app = create_app(optimizer)

        async def breaking(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            is_first = str(scope.get("path", "")).endswith("/events") and not broken.is_set()
            await app(scope, leave if is_first else receive, send)

        async def break_late() -> None:
            await anyio.sleep(0.1)
            broken.set()
            gate.opened.set()

        async with http_server(breaking) as url, Client(url, retry_seconds=0.05) as client:
            job = await client.submit(MODEL, kind=".json", pipeline="hold")
            kinds: list[str] = []
            async for event in job.events():
                kinds.append(event.kind)
                if kinds == ["state", "state", "started"]:
                    group.start_soon(break_late)
            assert kinds[-1] == "state"


async def test_early_end_of_events_closes_the_connection() -> None:
    gate, paths = Gate(), list[str]()

    def streams() -> int:
        return sum(path.endswith("/events") for path in paths)

    async with Optimizer({"hold": gate.wait}) as optimizer:
        app = create_app(optimizer)

        async def recording(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            path = str(scope.get("path"))
            paths.append(path)
            try:
                await app(scope, receive, send)
            finally:
                paths.remove(path)

        async with http_server(recording) as url:
            async with Client(url) as client:
                job = await client.submit(MODEL, kind=".json", pipeline="hold")
                async with job.events() as events:
                    assert (await anext(events)).kind == "state"
                    assert streams() == 1
                await until(lambda: not streams())
                with anyio.CancelScope() as scope:
                    async for event in job.events():
                        if event.kind == "started":
                            scope.cancel()
                assert scope.cancelled_caught
                await until(lambda: not streams())
                # Without a block, the end of the client closes it.
                async for _ in job.events():
                    break
                assert streams() == 1
            await until(lambda: not streams())
        gate.opened.set()


async def test_busy_server_is_asked_again() -> None:
    answers: list[tuple[int, bytes]] = []
    async with http_server(scripted(answers)) as url, Client(url) as client:
        for status in (429, 502, 503, 504):
            with row(status):
                answers += [(status, b""), (status, b""), (200, b'{"accepts": true}')]
                assert await client.status() == {"accepts": True}
                assert answers == []


async def test_full_queue_is_an_error_without_waiting() -> None:
    gate, models = Gate(), [b'{"f": %d}' % number for number in range(4)]
    async with served(gate, limits=Limits(running=1, queued=1)) as url, Client(url) as client:
        first = await client.submit(models[0], kind=".json", pipeline="hold")
        async for event in first.events():
            if event.kind == "started":
                break
        await client.submit(models[1], kind=".json", pipeline="hold")
        with pytest.raises(QueueFullError, match="1 jobs wait, which is the limit"):
            await client.submit(models[2], kind=".json", pipeline="hold", wait=False)
        await first.cancel()
        last = await client.submit(models[3], kind=".json", pipeline="hold")
        gate.opened.set()
        assert (await last.wait()).state is JobState.DONE


async def test_retries_end_after_their_time() -> None:
    async with served() as url:
        proxy = FaultyProxy(url)
        proxy.faults = [-1] * 10_000
        async with proxy.run() as faulty, Client(faulty, retry_seconds=0.2) as client:
            with pytest.raises(ServerUnavailableError, match=f"the server {faulty} cannot be reached"):
                await client.status()
        assert len(proxy.faults) < 9_999


async def test_failed_request_leaves_no_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_transport: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, AsyncIterable)
        async for _ in request.stream:
            break
        raise httpx.WriteError("the connection was closed")

    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", fail)
    async with Client("http://127.0.0.1:9", retry_seconds=0.001) as client:
        with pytest.raises(ServerUnavailableError):
            await client.status()
    gc.collect()  # trio warns of each async generator that was not closed


async def test_silent_server_exceeds_the_timeout() -> None:
    may_end = anyio.Event()

    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await may_end.wait()

    async with http_server(app) as url, Client(url, timeout=0.1, retry_seconds=0.01) as client:
        with pytest.raises(ServerUnavailableError, match="does not answer"):
            await client.status()
        # Otherwise the server would wait for the end of the request.
        may_end.set()


async def test_other_servers_are_recognized() -> None:
    rows = [
        (200, b"<html>hello", "is no server of apass, or a newer one: it answered '<html>hello'"),
        (404, b"<html>nothing", "answered 404 in place of an answer of apass: '<html>nothing' to GET /v1/status; if"),
        (404, b'{"detail":"Not Found"}', "if the service is mounted below a path, add that to the URL of the server"),
        (302, b"", "is another URL now: https://elsewhere.example/"),
        (500, b"oops", "answered 500 in place of an answer of apass: 'oops'"),
    ]
    answers: list[tuple[int, bytes]] = []
    async with http_server(scripted(answers)) as url, Client(url) as client:
        for status, body, message in rows:
            with row(f"{status} {body!r}"):
                answers.append((status, body))
                with pytest.raises(ServiceError) as caught:
                    await client.status()
                assert message in str(caught.value)


async def test_closed_client_is_an_error() -> None:
    # Other URLs may contain an at sign.
    for url in ("unix:/tmp/a@b.sock", "http://127.0.0.1:8000/a%40b"):
        client = Client(url)
        assert client.url == url
        with pytest.raises(RuntimeError, match="is not open"):
            await client.status()


def test_invalid_client_is_rejected() -> None:
    rows: list[tuple[dict[str, Any], type[Exception], str]] = [
        *(
            ({"url": url}, InputError, "is not the URL of a server")
            for url in ("", "127.0.0.1:8", "ftp://h/", "http://")
        ),
        *(
            ({"url": f"{url}@host"}, InputError, "must not contain a user or a password, got one before @host")
            for url in ("http://user:secret", "http://user:sec/secret", "ftp://user:secret", "user:secret")
        ),
        *(({"token": token}, InputError, "the token must consist of printable") for token in ("", "a b", "a\nb", "ü")),
        ({"url": 5}, TypeError, "the url of a client must be a str, got int"),
        ({"url": b"http://user:secret@host"}, TypeError, "the url of a client must be a str, got bytes"),
        ({"token": b"secret"}, TypeError, "the token of a client must be a str, got bytes"),
        ({"ssl_context": True}, TypeError, "the ssl_context must be of type SSLContext | None, got True"),
    ]
    for options, kind, message in rows:
        values: dict[str, Any] = {"url": "http://127.0.0.1:1", **options}
        with row(options):
            with pytest.raises(kind) as caught:
                Client(**values)
            assert (message in str(caught.value), "sec" in str(caught.value)) == (True, False)


async def test_invalid_calls_are_rejected_before_a_request() -> None:
    submissions: list[tuple[dict[str, Any], str]] = [
        ({"model": "m.onnx"}, "got the str 'm.onnx'; write Path(...) for a file"),
        ({"model": bytearray(b"x")}, "got a bytearray; write bytes(...)"),
        ({"model": memoryview(b"x")}, "got a memoryview; write bytes(...)"),
        ({"model": {"f": 1}}, "got an object of dict; write it to a file, and pass the path"),
        ({"options": {}}, "the options must be of type JobOptions | None, got {}"),
        ({"kind": 3}, "the kind must be of type str | None, got 3"),
        ({"pipeline": None}, "the pipeline must be of type str, got None"),
        ({"priority": "1"}, "the priority must be of type int, got '1'"),
        ({"deadline": "1"}, "the deadline must be of type int | float | None, got '1'"),
        *(
            ({name: value}, f"{name} must have printable ASCII characters only")
            for name, value in product(("idempotency_key", "trace"), ("ü", "a\r\nb"))
        ),
    ]
    other: Any = "failed"
    async with Client("http://127.0.0.1:1") as client:
        submit: Any = client.submit
        for values, message in submissions:
            with row(values):
                with pytest.raises((TypeError, InvalidJobError)) as caught:
                    await submit(**{"model": b"x", "kind": ".onnx", **values})
                assert message in str(caught.value)
        with pytest.raises(TypeError, match=r"^states must be a list of states, got 'failed'; write \['failed'\]$"):
            client.jobs(states=other)
        with pytest.raises(TypeError, match="the options must be of type JobOptions"):
            await client.plan(options=other)
