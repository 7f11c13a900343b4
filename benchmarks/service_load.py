"""A load generator: HTTP clients that submit ONNX models to a server here.

    python -m benchmarks.service_load OPTIONS

`OPTIONS` is a JSON object with the fields of `Load`. The command prints a `Report` as JSON. It is a process of its own,
so that it does not occupy the interpreter of the server. It writes requests and parses responses by hand: a client
library takes longer for a request than the servers that are measured.
"""

import asyncio
import json
import pickle
import statistics
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Final, Self

__all__ = ["SUBMIT", "Connection", "HTTPError", "Load", "Report", "distinct", "expect", "percentile"]

HOST: Final = "127.0.0.1"

WAIT: Final = 30
"""Seconds for which one request waits for the end of a job."""

SUBMIT: Final = "/v1/jobs?suffix=onnx&report=false"
"""The path for jobs without a report: the peer records none either."""

ACCEPT_RESULT: Final = "Accept: application/octet-stream\r\n"

Answer = tuple[int, Mapping[str, str], bytes]
"""The status, the headers with names in lower case, and the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What clients do."""

    port: int
    """The port of the server."""
    models: str
    """A pickled list with the bytes of models. They are submitted in turn."""
    flow: str
    """How clients get results.

    - `peer`: one request to the peer.
    - `call`: one request, which waits for the result.
    - `jobs`: a request that submits a job, one that waits for its end, and one for its result.
    - `submit`: a request that submits a job of the pipeline `gate`, which does not end.
    """
    clients: int
    """Clients, each with one connection and one model at a time."""
    count: int
    """Models that are submitted."""
    first: int = 0
    """The number of the first model. Models with different numbers are different."""
    keep: str | None = None
    """A file for the results of the first `kept` models, as a pickled list."""
    kept: int = 0
    """How many results are kept."""


@dataclass(slots=True)
class Report:
    """What the clients have seen."""

    seconds: float = 0.0
    """From the first request to the last response."""
    acceptance: list[float] = field(default_factory=list[float])
    """Seconds until each job was accepted."""
    completion: list[float] = field(default_factory=list[float])
    """Seconds from each request to the result."""
    errors: dict[str, int] = field(default_factory=dict[str, int])
    """How often each error occurred."""
    requests: int = 0
    """HTTP requests."""
    processor: float = 0.0
    """Processor seconds of the load generator."""

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the report that the command has printed."""
        return cls(**json.loads(text))


class HTTPError(Exception):
    """A response has an unexpected status, or the connection was closed."""


class Connection(asyncio.Protocol):
    """A connection that is kept open, with one request at a time."""

    def __init__(self) -> None:
        self.requests = 0
        """Requests that were sent."""
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to a port of this machine."""
        _, connection = await asyncio.get_running_loop().create_connection(cls, HOST, port)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep the data."""
        self._buffer += data
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is closed."""
        self._is_closed = True
        self._wake()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    async def request(self, method: str, path: str, body: bytes = b"", headers: str = "") -> Answer:
        """Send a request, and return the answer."""
        self.send(method, path, body, headers)
        status, fields = await self.head()
        if fields.get("transfer-encoding") == "chunked":
            return status, fields, b"".join([chunk async for chunk in self.chunks()])
        return status, fields, await self._take(int(fields.get("content-length", "0")))

    def send(self, method: str, path: str, body: bytes = b"", headers: str = "") -> None:
        """Send a request."""
        assert self._transport is not None, "the connection is open"
        self.requests += 1
        length = f"Content-Length: {len(body)}\r\n" if method == "POST" else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n{length}{headers}\r\n"
        self._transport.write(head.encode() + body)

    async def head(self) -> tuple[int, Mapping[str, str]]:
        """Receive the status and the headers of an answer."""
        first, *lines = (await self._take_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        return int(first.split(" ", 2)[1]), fields

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Receive the chunks of a body."""
        while size := int((await self._take_until(b"\r\n")).split(b";")[0], 16):
            yield await self._take(size)
            await self._take(2)
        await self._take(2)

    async def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _take_until(self, end: bytes) -> bytes:
        while (index := self._buffer.find(end)) < 0:
            await self._more()
        data = bytes(self._buffer[:index])
        del self._buffer[: index + len(end)]
        return data

    async def _more(self) -> None:
        if self._is_closed:
            raise HTTPError("the server closed the connection")
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def expect(status: int, answer: Answer) -> bytes:
    """Return the body of an answer with this status.

    Raises:
        HTTPError: if the status is another one.

    """
    actual, _, body = answer
    if actual != status:
        raise HTTPError(f"expected the status {status}, got {actual}: {body[:300].decode(errors='replace')}")
    return body


def distinct(model: bytes, number: int) -> bytes:
    """Return a model with another documentation string, so that no result is reused.

    In the serialized form, a field that is appended replaces an earlier value. It is field 6 of `ModelProto`.
    """
    text = f"model {number}".encode()
    return model + bytes((0x32, len(text))) + text


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile of two or more values."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


class _Clients:
    """The clients of a load."""

    def __init__(self, load: Load, models: Sequence[bytes]) -> None:
        self.report = Report()
        self.kept: dict[int, bytes] = {}
        self._load = load
        self._models = models
        self._numbers = iter(range(load.first, load.first + load.count))
        self._errors: Counter[str] = Counter()
        flows: dict[str, Callable[[Connection, bytes], Awaitable[bytes]]] = {
            "peer": self._ask_peer,
            "call": self._call,
            "jobs": self._run_job,
            "submit": self._submit,
        }
        self._flow = flows[load.flow]

    async def run(self) -> Report:
        """Let all clients submit models until there are no more."""
        report = self.report
        connections = [await Connection.open(self._load.port) for _ in range(self._load.clients)]
        processor, start = process_time(), perf_counter()
        await asyncio.gather(*map(self._submit_models, connections))
        report.seconds, report.processor = perf_counter() - start, process_time() - processor
        report.requests, report.errors = sum(each.requests for each in connections), dict(self._errors)
        for connection in connections:
            connection.close()
        return report

    async def _submit_models(self, connection: Connection) -> None:
        for number in self._numbers:
            model = distinct(self._models[number % len(self._models)], number)
            start = perf_counter()
            try:
                result = await self._flow(connection, model)
            except HTTPError as error:
                self._errors[str(error)] += 1
                continue
            self.report.completion.append(perf_counter() - start)
            if number - self._load.first < self._load.kept:
                self.kept[number] = result

    async def _ask_peer(self, connection: Connection, model: bytes) -> bytes:
        return expect(200, await connection.request("POST", "/optimize", model))

    async def _call(self, connection: Connection, model: bytes) -> bytes:
        return expect(200, await connection.request("POST", f"{SUBMIT}&wait={WAIT}", model, ACCEPT_RESULT))

    async def _submit(self, connection: Connection, model: bytes) -> bytes:
        return expect(202, await connection.request("POST", f"{SUBMIT}&pipeline=gate", model))

    async def _run_job(self, connection: Connection, model: bytes) -> bytes:
        start = perf_counter()
        job = json.loads(expect(202, await connection.request("POST", SUBMIT, model)))
        self.report.acceptance.append(perf_counter() - start)
        path = f"/v1/jobs/{job['id']}"
        while job["state"] in ("queued", "running"):
            job = json.loads(expect(200, await connection.request("GET", f"{path}?wait={WAIT}")))
        if job["state"] != "done":
            raise HTTPError(f"a job has {job['state']}: {job['failure']}")
        return expect(200, await connection.request("GET", f"{path}/result"))


def main() -> None:
    """Run the load, and print the report."""
    load = Load(**json.loads(sys.argv[1]))
    clients = _Clients(load, pickle.loads(Path(load.models).read_bytes()))
    report = asyncio.run(clients.run())
    if load.keep is not None:
        results = [clients.kept.get(load.first + index) for index in range(load.kept)]
        Path(load.keep).write_bytes(pickle.dumps(results))
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
