"""Servers of jobs: in this event loop, behind a faulty proxy, as processes."""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib import import_module
from socket import socket
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from hypercorn.config import Config
from sniffio import current_async_library

from apass.service.server import AsgiApp, listen, serve, url_of
from tests.helpers.repository import ROOT
from tests.helpers.warm_processes import WarmProcess

__all__ = ["FaultyProxy", "ServerProcess", "command", "http_server", "server_process"]


@asynccontextmanager
async def http_server(app: AsgiApp, *, grace: float = 1.0, server: str | None = None) -> AsyncGenerator[str]:
    """Serve an application in this event loop, and yield its URL.

    Parameters:
        app: the application.
        grace: the seconds for requests that run.
        server: `hypercorn`; by default the server of `apass serve`, which needs asyncio.

    """
    stop = anyio.Event()
    is_hypercorn = server is not None or current_async_library() == "trio"
    with listen("127.0.0.1", 0) as sock:
        url = url_of(sock)
        async with anyio.create_task_group() as group:
            if is_hypercorn:
                # The socket listens already: a client that is early waits.
                group.start_soon(_serve_with_hypercorn, app, sock, stop, grace)
            else:
                await group.start(partial(_serve, app, sock, stop, grace))
            try:
                yield url
            finally:
                stop.set()


async def _serve(app: AsgiApp, sock: socket, stop: anyio.Event, grace: float, *, task_status: Any) -> None:
    await serve(app, sock, stop=stop, grace=grace, task_status=task_status)


async def _serve_with_hypercorn(app: AsgiApp, sock: socket, stop: anyio.Event, grace: float) -> None:
    config = Config()
    config.bind = [f"fd://{sock.detach()}"]
    config.errorlog = None
    config.graceful_timeout = grace
    # It notices that a client has left by the time of an idle connection.
    config.keep_alive_timeout = 1
    # Each of its modules needs its event loop.
    module: Any = import_module(f"hypercorn.{current_async_library()}")
    await module.serve(app, config, shutdown_trigger=stop.wait)


class FaultyProxy:
    """A proxy that breaks connections.

    Parameters:
        url: the URL of the server.

    """

    def __init__(self, url: str) -> None:
        self.port = int(url.rpartition(":")[2])
        self.faults: list[int | None] = []
        """How many bytes of answers each new connection carries before it breaks; None for all.

        -1 breaks it before the request reaches the server. Connections after the last fault are not broken.
        """
        self.requests: list[bytes] = []
        """The beginning of each request."""

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[str]:
        """Run the proxy, and yield its URL."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._handle)
            yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
            group.cancel_scope.cancel()

    async def _handle(self, client: SocketStream) -> None:
        fault = self.faults.pop(0) if self.faults else None
        async with client:
            if fault == -1:
                return
            try:
                server = await anyio.connect_tcp("127.0.0.1", self.port)
            except OSError:
                return
            async with server, anyio.create_task_group() as group:
                group.start_soon(self._copy_requests, client, server, group.cancel_scope)
                await _copy_answers(server, client, fault)
                group.cancel_scope.cancel()

    async def _copy_requests(self, client: ByteStream, server: ByteStream, scope: anyio.CancelScope) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                data = await client.receive()
                if data[:4] in (b"GET ", b"POST", b"DELE"):
                    self.requests.append(data)
                await server.send(data)
        scope.cancel()


async def _copy_answers(server: ByteStream, client: ByteStream, most: int | None) -> None:
    """Copy the bytes of answers up to a number."""
    left = sys.maxsize if most is None else most
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            data = await server.receive()
            await client.send(data[:left])
            left -= len(data)
            if left <= 0:
                return


class ServerProcess:
    """A process of `apass serve`."""

    def __init__(self, process: WarmProcess, url: str, banner: str) -> None:
        self.process = process
        self.url = url
        self.banner = banner
        """The first line that it has printed."""

    def line(self) -> str:
        """Return the next line that it prints."""
        return self.process.stdout.readline()

    def end(self, number: int, timeout: float = 60) -> tuple[int, str, str]:
        """Send a signal; return the status, the rest of the output and the error output."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=timeout)
        return self.process.wait(), out, err


@contextmanager
def command(
    arguments: Sequence[object], body: str = "", *, stdin: int | None = None, stderr: int = subprocess.PIPE
) -> Generator[subprocess.Popen[str]]:
    """Run the command line in a new process, after running `body`; kill it at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", _code(body), *map(str, arguments)],
        env=_environ(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _code(body: str) -> str:
    return f"{body}\nfrom apass.cli import main\nmain()\n"


def _environ() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("APASS_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


@contextmanager
def server_process(*arguments: object, body: str = "") -> Generator[ServerProcess]:
    """Start `apass serve` on a free port, and kill it at the end."""
    with WarmProcess(_code(body), ["serve", "--port", 0, *arguments], environ=_environ()) as process:
        try:
            banner = process.stdout.readline()
            if not banner:
                _, err = process.communicate(timeout=60)
                raise AssertionError(f"the server did not start: {err}")
            yield ServerProcess(process, banner.split()[1], banner)
        finally:
            process.kill()
