"""Real HTTP servers in the event loop of a test, and clients that misbehave."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import anyio
import httpx
from anyio.abc import SocketStream

from apass.service import Optimizer, create_app
from apass.service.http.openapi import describe_api
from tests.helpers.servers import http_server

__all__ = ["RawClient", "check_answer", "client_of", "raw_client", "served", "until", "validate_event"]

ASGIApp = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]

TIMEOUT = 30.0
"""Seconds after which a request of a test fails."""


@asynccontextmanager
async def client_of(address: str, **options: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """Connect to a server.

    Every answer in JSON must agree with the OpenAPI description.
    """
    hooks = {"response": [check_answer]}
    # There is no certificate to check, and httpx would read those of all authorities.
    options["verify"] = False
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT, event_hooks=hooks, **options) as client:
        yield client


@asynccontextmanager
async def served(
    optimizer: Optimizer, *, server: str | None = None, **options: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve an optimizer in the block; yield a client of it.

    Parameters:
        optimizer: the optimizer, which the application opens.
        server: see `http_server`.
        **options: those of `create_app`.

    """
    async with http_server(create_app(optimizer, **options), server=server) as address, client_of(address) as client:
        yield client


async def check_answer(response: httpx.Response) -> None:
    """Check that an answer in JSON agrees with the OpenAPI description."""
    content_type = response.headers.get("content-type", "").partition(";")[0]
    assert response.headers["x-content-type-options"] == "nosniff"
    if "json" not in content_type or response.request.method == "HEAD":
        return
    await response.aread()
    api = describe_api()
    operation = _operation(api, response.request)
    if operation is None:
        assert response.status_code in (403, 404, 405)
        return
    answers, status = operation["responses"], str(response.status_code)
    schema = answers.get(status, answers["default"])["content"][content_type]["schema"]
    validate(response.json(), schema, api)


def validate(value: object, schema: Mapping[str, Any], api: Mapping[str, Any]) -> None:
    """Raise an error if a value does not agree with a schema of the description."""
    jsonschema: Any = import_module("jsonschema")
    validator = jsonschema.Draft202012Validator({**schema, "components": api["components"]})
    validator.validate(value)


def validate_event(data: object) -> None:
    """Raise an error if the data of an event does not agree with the description."""
    validate(data, {"$ref": "#/components/schemas/Event"}, describe_api())


def _operation(api: Mapping[str, Any], request: httpx.Request) -> Mapping[str, Any] | None:
    """Return the description of a request; None if there is none."""
    # The application may be mounted.
    path_below = request.url.path.removeprefix("/apass")
    parts = path_below.strip("/").split("/")
    for path, methods in api["paths"].items():
        pattern = path.strip("/").split("/")
        if len(pattern) == len(parts) and all(one in (two, "{id}") for one, two in zip(pattern, parts, strict=True)):
            operation: Mapping[str, Any] | None = methods.get(request.method.lower())
            return operation
    return None


class RawClient:
    """A connection on which a test sends any bytes.

    Parameters:
        stream: the connection.

    """

    def __init__(self, stream: SocketStream) -> None:
        self.stream = stream
        """The connection."""
        self._data = b""

    async def send(self, head: str, body: bytes = b"") -> None:
        """Send a request line and headers, and the beginning of a body."""
        lines = "\r\n".join(line.strip() for line in head.strip().splitlines())
        await self.stream.send(lines.encode("latin-1") + b"\r\n\r\n" + body)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return the status, the headers and the body of the next answer."""
        head = await self._until(b"\r\n\r\n")
        status_line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        status = int(status_line.split()[1])
        if status == 100:
            return await self.answer()
        size = int(headers.get("content-length", "0"))
        while len(self._data) < size:
            self._data += await self.stream.receive()
        body, self._data = self._data[:size], self._data[size:]
        return status, headers, body

    async def problem(self) -> dict[str, Any]:
        """Return the members of the next answer, which must be a problem."""
        status, headers, body = await self.answer()
        values: dict[str, Any] = json.loads(body)
        assert (headers["content-type"], values["status"]) == ("application/problem+json", status)
        return values

    async def line(self) -> str | None:
        """Return the next line without its end; None at the end of the connection."""
        try:
            return (await self._until(b"\n")).decode()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None

    async def is_closed(self) -> bool:
        """Read until the server closes the connection."""
        try:
            while True:
                await self.stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return True

    async def _until(self, end: bytes) -> bytes:
        while end not in self._data:
            self._data += await self.stream.receive()
        head, _, self._data = self._data.partition(end)
        return head


@asynccontextmanager
async def raw_client(client: httpx.AsyncClient) -> AsyncGenerator[RawClient]:
    """Connect to the server of another client."""
    url = client.base_url
    with anyio.fail_after(TIMEOUT):
        async with await anyio.connect_tcp(url.host, url.port or 80) as stream:
            yield RawClient(stream)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds that has no event.

    Raises:
        TimeoutError: if it never holds.

    """
    with anyio.fail_after(TIMEOUT):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)
