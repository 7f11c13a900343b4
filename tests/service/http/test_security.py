"""Which requests reach the service, and the headers of answers."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint
from starlette.types import Message, Receive, Scope, Send

from apass.service import Optimizer, Tokens, create_app, new_token
from apass.service.http.security import BEGINNING, Guard
from tests.helpers.http_servers import check_answer, raw_client, served
from tests.helpers.rows import row
from tests.service.http.models import IDENTITY

pytestmark = pytest.mark.anyio

LOCAL = ("127.0.0.1", 5000)
REMOTE = ("192.0.2.7", 5000)


@asynccontextmanager
async def asked_by(
    client: tuple[str, int], *, base_url: str = "http://localhost", **options: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    """Open an application without a server, whose requests come from an address."""
    optimizer = Optimizer({"default": "onnx.IdentityElimination"})
    transport = httpx.ASGITransport(create_app(optimizer, **options), client=client)
    hooks = {"response": [check_answer]}
    async with (
        optimizer,
        httpx.AsyncClient(transport=transport, base_url=base_url, event_hooks=hooks) as http,
    ):
        yield http


async def test_only_this_machine_needs_no_token() -> None:
    for address in ("127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "::1%lo"):
        async with asked_by((address, 1)) as client:
            with row(address):
                assert (await client.get("/v1/jobs")).status_code == 200
    for address in ("192.0.2.7", "2001:db8::1", "::ffff:192.0.2.7", "0.0.0.0", "localhost", ""):
        async with asked_by((address, 1)) as client:
            with row(address):
                answer = await client.get("/v1/jobs")
                assert (answer.status_code, answer.json()["type"]) == (403, "urn:apass:ForbiddenError")
                assert "start it with tokens" in answer.json()["detail"]
                for path in ("/healthz", "/readyz"):
                    assert (await client.get(path)).status_code == 200
    async with asked_by(REMOTE, base_url="http://build-server:8000", allow_remote=True) as client:
        assert (await client.get("/v1/jobs")).status_code == 200


async def test_unix_socket_is_local() -> None:
    optimizer = Optimizer()
    app = create_app(optimizer)
    statuses: list[int] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope: Scope = {"type": "http", "method": "GET", "path": "/v1/jobs", "query_string": b"", "client": None}
    async with optimizer:
        for server in (("/run/apass.sock", None), ("10.0.0.1", 8000), None):
            await app({**scope, "headers": [(b"host", b"localhost")], "server": server}, receive, send)
    assert statuses == [200, 403, 403]


async def test_only_names_of_the_server_are_accepted() -> None:
    async with asked_by(LOCAL) as client:
        for host in ("localhost", "LOCALHOST:8000", "apass.localhost:1", "127.0.0.1:8000", "[::1]:8000", "[::1]"):
            with row(host):
                assert (await client.get("/v1/jobs", headers={"host": host})).status_code == 200
        for host in ("evil.example", "localhost.evil.example", "192.0.2.7:8000", "", "[::1", "a@localhost"):
            with row(host):
                answer = await client.get("/v1/jobs", headers={"host": host})
                assert (answer.status_code, "is not a name of this server" in answer.json()["detail"]) == (403, True)
                assert (await client.get("/healthz", headers={"host": host})).status_code == 200
    # The names of the server can be listed.
    secret, token = new_token("alice")
    hosts = ["apass.example", "proxy:8443"]
    headers = {"authorization": f"Bearer {secret}"}
    async with asked_by(REMOTE, hosts=hosts, auth=Tokens([token])) as client:
        for host, status in (("apass.example:443", 200), ("PROXY:8443", 200), ("proxy:1", 403), ("localhost", 403)):
            assert (await client.get("/v1/jobs", headers={**headers, "host": host})).status_code == status


async def test_other_sites_cannot_change_anything() -> None:
    rows: list[dict[str, str]] = [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:1234"},
        {"origin": "null"},
        {"origin": "http://[::1"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://localhost", "sec-fetch-site": "cross-site"},
    ]
    requests = [("POST", "/v1/jobs?suffix=onnx"), ("DELETE", f"/v1/jobs/{'0' * 32}"), ("POST", "/v1/plan")]
    async with asked_by(LOCAL) as client:
        for headers in rows:
            with row(headers):
                for method, path in requests:
                    answer = await client.request(method, path, headers=headers, content=IDENTITY)
                    assert (answer.status_code, "another web site" in answer.json()["detail"]) == (403, True)
        assert (await client.get("/v1/jobs")).json()["jobs"] == []
        # The server's own page may, and so may a client with a token.
        for headers in ({"origin": "http://localhost", "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
            assert (await client.post(requests[0][1], headers=headers, content=IDENTITY)).status_code == 202
    secret, token = new_token("alice")
    async with asked_by(REMOTE, auth=Tokens([token])) as client:
        headers = {"authorization": f"Bearer {secret}", "origin": "https://tool.example"}
        assert (await client.post("/v1/jobs?suffix=onnx", headers=headers, content=IDENTITY)).status_code == 202


async def test_proxy_names_the_client() -> None:
    rows = [
        ("127.0.0.1", 200),
        ("192.0.2.7", 403),
        # A client can send the header itself; the proxy appends the address that it has seen.
        ("127.0.0.1, 192.0.2.7", 403),
        ("192.0.2.7, ::1", 200),
        ("", 403),
        (None, 403),
    ]
    async with asked_by(LOCAL, behind_proxy=True) as client:
        for forwarded, status in rows:
            with row(forwarded):
                headers = {} if forwarded is None else {"x-forwarded-for": forwarded}
                assert (await client.get("/v1/jobs", headers=headers)).status_code == status
    # Without a proxy, such headers are ignored.
    async with asked_by(REMOTE) as client:
        headers = {"x-forwarded-for": "127.0.0.1", "x-forwarded-host": "localhost"}
        assert (await client.get("/v1/jobs", headers=headers)).status_code == 403


async def test_proxy_prefix_is_in_links() -> None:
    rows = [
        ("/tools/apass", "/tools/apass/v1/jobs/"),
        ("/tools/", "/tools/v1/jobs/"),
        ("", "/v1/jobs/"),
        ("//evil.example", "/v1/jobs/"),
        ("https://evil.example", "/v1/jobs/"),
        ("/a/../b", "/v1/jobs/"),
        ('/"><script>', "/v1/jobs/"),
    ]
    async with asked_by(LOCAL, behind_proxy=True) as client:
        for prefix, expected in rows:
            with row(prefix):
                headers = {"x-forwarded-for": "127.0.0.1", "x-forwarded-prefix": prefix}
                answer = await client.post("/v1/jobs?suffix=onnx", headers=headers, content=IDENTITY)
                assert answer.headers["location"].startswith(expected)
                assert answer.json()["links"]["self"] == answer.headers["location"]


SECURE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cache-control": "no-store",
}


async def test_all_answers_have_security_headers() -> None:
    rows = ["GET /v1/jobs", "GET /nothing", "PUT /v1/jobs", "GET /healthz", "POST /v1/jobs?a=b"]
    async with asked_by(LOCAL) as local, asked_by(REMOTE) as remote:
        for name in rows:
            with row(name):
                method, path = name.split()
                for client in (local, remote):
                    answer = await client.request(method, path)
                    assert {name: answer.headers[name] for name in SECURE} == SECURE
        job = (await local.post("/v1/jobs?suffix=onnx&wait=30", content=IDENTITY)).json()
        # A report cannot use the service.
        report = await local.get(job["links"]["report"])
        policy = report.headers["content-security-policy"]
        assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'")
        assert "allow-same-origin" not in policy
        # The HTML standard makes a page with both a sandbox and this policy an error.
        assert "cross-origin-opener-policy" not in report.headers


async def test_many_requests_begin_few_at_once() -> None:
    iteration, begun, ended = 0, Counter[int](), anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun[iteration] += 1
        if begun.total() == 100:
            ended.set()

    async def unused(*_: object) -> Any:
        raise AssertionError("the application reads and sends nothing")

    guard = Guard(app, auth=None, allow_remote=True, hosts=(), behind_proxy=False)
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": ("127.0.0.1", 1)}
    async with anyio.create_task_group() as group:
        for _ in range(100):
            group.start_soon(guard, scope, unused, unused)
        while not ended.is_set():
            iteration += 1
            await checkpoint()
    # Trio runs the tasks of an iteration in random order.
    assert max(begun.values()) <= 2 * BEGINNING


async def test_bug_is_a_problem_without_details(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = Optimizer()

    async def fail(query: object) -> None:
        raise RuntimeError("the password is 1234")

    monkeypatch.setattr(optimizer, "list", fail)
    async with served(optimizer) as client:
        answer = await client.get("/v1/jobs")
        assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
        assert "1234" not in answer.text


@pytest.mark.network
async def test_hostile_request_gets_a_clean_answer() -> None:
    rows = [
        "GET /v1/jobs?q=%00 HTTP/1.1",
        "GET /v1/jobs?q=%ff%fe HTTP/1.1",
        "GET /v1/jobs/%2e%2e/%2e%2e HTTP/1.1",
        "GET //v1/jobs HTTP/1.1",
        "GET /v1/jobs?q=" + "a" * 8000 + " HTTP/1.1",
        "GET /v1/jobs/a%0d%0aSet-Cookie:%20x=1 HTTP/1.1",
        "OPTIONS /v1/jobs HTTP/1.1",
        "TRACE /v1/jobs HTTP/1.1",
    ]
    async with served(Optimizer()) as client:
        for request_line in rows:
            with row(request_line):
                async with raw_client(client) as raw:
                    await raw.send(f"{request_line}\nHost: localhost")
                    status, headers, _ = await raw.answer()
                assert (status < 500, "set-cookie" in headers) == (True, False)
                assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.both_loops
@pytest.mark.network
async def test_request_with_two_lengths_ends_the_connection() -> None:
    async with served(Optimizer()) as client:
        for path in ("/v1/jobs?suffix=onnx", "/healthz"):
            async with raw_client(client) as raw:
                head = f"POST {path} HTTP/1.1\nHost: localhost\nContent-Length: 5\nTransfer-Encoding: chunked"
                await raw.send(head, b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                status, headers, body = await raw.answer()
                assert (status, headers["connection"]) == (400, "close")
                assert b"BadRequestError" in body
                assert await raw.line() is None, "there is another answer"
