"""The HTTP server of `apass serve`, and its sockets."""

import socket
import subprocess
import sys
from collections.abc import MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from apass.errors import InputError
from apass.service import Client, Optimizer, ServiceError, create_app
from apass.service.server import listen, listen_unix, notify_systemd, serve, url_of
from tests.helpers.command_line import write_model
from tests.helpers.folders import files
from tests.helpers.rows import row
from tests.helpers.servers import http_server

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]


class HoldingApp:
    """An application whose requests wait."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.may_end = anyio.Event()
        self.ends: list[str] = []

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        self.begun.set()
        try:
            await self.may_end.wait()
        except BaseException:
            self.ends.append("cancelled")
            raise
        self.ends.append("done")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})


async def get(url: str, answers: list[str]) -> None:
    """Send a request, and record its answer."""
    async with httpx.AsyncClient(timeout=60) as client:
        try:
            answers.append((await client.get(url)).text)
        except httpx.TransportError as error:
            answers.append(type(error).__name__)


async def test_requests_end_after_the_stop() -> None:
    app, answers, stop = HoldingApp(), list[str](), anyio.Event()
    with listen("127.0.0.1", 0) as sock:
        url = url_of(sock)
        async with anyio.create_task_group() as group:
            await group.start(partial(serve_with, app, sock, stop, 30.0))
            group.start_soon(get, url, answers)
            await app.begun.wait()
            stop.set()
            # Further connections are refused while the request runs.
            with anyio.fail_after(30):
                while not await is_refused(url):
                    pass
            app.may_end.set()
    assert (answers, app.ends) == (["done"], ["done"])


async def is_refused(url: str) -> bool:
    try:
        async with await anyio.connect_tcp("127.0.0.1", int(url.rpartition(":")[2])):
            return False
    except OSError:
        return True


async def serve_with(app: Any, sock: socket.socket, stop: anyio.Event, grace: float, *, task_status: Any) -> None:
    await serve(app, sock, stop=stop, grace=grace, task_status=task_status)


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.1\r\nHost: loc"], ids=["nothing", "half"])
async def test_connection_without_a_whole_head_is_closed(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apass.service.server.KEEP_ALIVE_SECONDS", 0.2)
    app, answers, stop = HoldingApp(), list[str](), anyio.Event()
    with listen("127.0.0.1", 0) as sock:
        url = url_of(sock)
        async with anyio.create_task_group() as group:
            await group.start(partial(serve_with, app, sock, stop, 30.0))
            async with anyio.create_task_group() as requests:
                requests.start_soon(get, url, answers)
                await app.begun.wait()
                # The request lasts longer than the time for a head.
                async with await anyio.connect_tcp("127.0.0.1", httpx.URL(url).port or 0) as connection:
                    if data:
                        await connection.send(data)
                    with anyio.fail_after(30), pytest.raises(anyio.EndOfStream):
                        await connection.receive()
                app.may_end.set()
            stop.set()
    assert answers == ["done"]


@pytest.mark.slow  # uvicorn gives requests a second at least
async def test_endless_requests_are_cancelled_after_the_grace() -> None:
    app, answers = HoldingApp(), list[str]()
    async with anyio.create_task_group() as group, http_server(app, grace=0.1) as url:
        group.start_soon(get, url, answers)
        await app.begun.wait()
    assert (len(answers), app.ends) == (1, ["cancelled"])
    assert answers != ["done"]


@pytest.mark.slow  # uvicorn gives requests a second at least
async def test_cancellation_ends_the_server() -> None:
    app, answers, stop = HoldingApp(), list[str](), anyio.Event()
    with listen("127.0.0.1", 0) as sock:
        url = url_of(sock)
        async with anyio.create_task_group() as clients, anyio.create_task_group() as group:
            await group.start(partial(serve_with, app, sock, stop, 0.1))
            clients.start_soon(get, url, answers)
            await app.begun.wait()
            group.cancel_scope.cancel()
    assert (len(answers), app.ends) == (1, ["cancelled"])
    # The port is free again.
    with listen("127.0.0.1", int(url.rpartition(":")[2])):
        pass


async def test_application_that_does_not_start_is_an_error() -> None:
    async def app(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})

    with listen("127.0.0.1", 0) as sock, pytest.raises(ServiceError):
        await serve(app, sock, stop=anyio.Event())


def test_server_on_trio_names_another_one() -> None:
    with (
        listen("127.0.0.1", 0) as sock,
        pytest.raises(ServiceError, match="needs asyncio; on trio, serve the application with hypercorn"),
    ):
        anyio.run(partial(serve_with, HoldingApp(), sock, anyio.Event(), 1.0, task_status=None), backend="trio")


async def test_unix_socket_serves_jobs_and_is_removed(tmp_path: Path) -> None:
    path, model = tmp_path / "s", write_model(tmp_path / "m.onnx")
    stop = anyio.Event()
    with listen_unix(path) as sock:
        assert url_of(sock) == f"unix:{path}"
        async with Optimizer() as optimizer, anyio.create_task_group() as group:
            await group.start(partial(serve_with, create_app(optimizer), sock, stop, 1.0))
            async with Client(f"unix:{path}") as client:
                await (await client.submit(model)).result()
            stop.set()
    assert files(tmp_path) == ["m.onnx"]


def test_unix_socket_replaces_stale_ones_only(tmp_path: Path) -> None:
    path, other = tmp_path / "s", tmp_path / "data"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    with listen_unix(path) as sock:
        assert url_of(sock) == f"unix:{path}"
        with pytest.raises(InputError, match=f"cannot listen on {path}: another server uses it"), listen_unix(path):
            pass
        assert path.exists()
    assert not path.exists()
    other.write_text("data")
    with pytest.raises(InputError, match="another file has this name"), listen_unix(other):
        pass
    assert other.read_text() == "data"


def test_unusable_address_is_reported() -> None:
    with listen("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        rows = [
            ("127.0.0.1", port, ": Address already in use; end the other program, choose another port, or 0 for any"),
            ("no.such.host.invalid", 0, ": "),
            ("a" * 300, 0, ": "),
            ("192.0.2.1", 1, "does not have the address"),
        ]
        for host, number, message in rows:
            with row(host), pytest.raises(InputError) as caught, listen(host, number):
                pass
            assert str(caught.value).startswith(f"cannot listen on {host}")
            assert message in str(caught.value)


def test_url_has_the_host_and_the_port() -> None:
    for host, name, expected in (("::1", "", "[::1]"), ("localhost", "localhost", "localhost")):
        with row(host), listen(host, 0) as sock:
            assert url_of(sock, name) == f"http://{expected}:{sock.getsockname()[1]}"


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_notified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool) -> None:
    path = f"{tmp_path}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{path}" if is_abstract else path)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{path}" if is_abstract else path)
        notify_systemd("READY=1")
        assert sock.recv(100) == b"READY=1"
    # systemd has gone, or was never there.
    notify_systemd("STOPPING=1")
    monkeypatch.delenv("NOTIFY_SOCKET")
    notify_systemd("STOPPING=1")


@pytest.mark.process
def test_missing_server_library_names_the_extra() -> None:
    code = "import sys\nsys.modules['uvicorn'] = None\nimport apass.service.server"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith("pip install 'apass[serve]'")
