"""A real HTTP server on loopback that injects faults according to a plan."""

import json
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

__all__ = ["Fault", "FaultyServer", "faulty_server"]

Fault = Literal["none", "delay", "hang", "drop", "reset", "half", "garbage", "wrong", "busy", "500", "400"]
"""The behavior of the server for a request."""

Plan = Callable[[Any, int], Fault]
"""Returns the fault for a request at an attempt, counted from 0."""

STATUS = {"500": "500 Internal Server Error", "400": "400 Bad Request", "busy": "503 Service Unavailable"}


class FaultyServer:
    """Answers `{"question": q}` with `{"answer": 2 * q}`, or with a fault of the plan.

    It counts requests, answers and faults.
    """

    def __init__(self, port: int, plan: Plan, delay: float) -> None:
        self.url = f"http://127.0.0.1:{port}/ask"
        self.plan = plan
        self.delay = delay
        self.requests: Counter[Any] = Counter()
        self.answers: Counter[Any] = Counter()
        self.faults: Counter[str] = Counter()
        self.connections = 0
        self.most_in_flight = 0
        self.most_started = 0
        self._active: set[socket.socket] = set()

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection until it ends."""
        self.connections += 1
        async with stream:
            try:
                await self._serve(stream, BufferedByteReceiveStream(stream))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _serve(self, stream: SocketStream, requests: BufferedByteReceiveStream) -> None:
        raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
        while True:
            request = await read_request(requests)
            fault = self.plan(request, self.requests[request])
            self.requests[request] += 1
            self.faults[fault] += 1
            self._active.add(raw)
            self._measure()
            try:
                reply = await self._reply(request, fault)
            finally:
                self._active.discard(raw)
            await stream.send(reply)
            if fault == "reset":
                # With a linger time of zero, closing sends a reset.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            if fault in ("drop", "reset", "half"):
                return

    async def _reply(self, request: Any, fault: Fault) -> bytes:
        """Sleep as the fault requires, and return the bytes to send."""
        await anyio.sleep({"delay": 5 * self.delay, "hang": 3600}.get(fault, self.delay))
        if fault in ("drop", "reset"):
            return b""
        if fault in STATUS:
            return response(b"sorry", STATUS[fault], "Retry-After: 0\r\n" if fault == "busy" else "")
        if fault == "garbage":
            return response(b"\x00\xffno json{")
        if fault == "wrong":
            return response(b'{"error": "no idea"}')
        whole = response(json.dumps({"answer": 2 * request}).encode())
        self.answers[request] += fault != "half"
        return whole[:-5] if fault == "half" else whole

    def _measure(self) -> None:
        """Update the maximum of concurrent requests, without disconnected clients."""
        if len(self._active) > self.most_in_flight:
            self.most_in_flight = max(self.most_in_flight, sum(map(is_connected, self._active)))


def is_connected(raw: socket.socket) -> bool:
    """Return whether the client has not closed the connection."""
    try:
        # Read from a duplicate, because the event loop's socket object may forbid reading.
        with socket.fromfd(raw.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
            return copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


async def read_request(requests: BufferedByteReceiveStream) -> Any:
    """Receive a request, and return its value."""
    head = await requests.receive_until(b"\r\n\r\n", 65536)
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await requests.receive_exactly(int(lengths[0].partition(b":")[2]))
    return json.loads(body)["question"]


def response(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """Return an HTTP response."""
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def faulty_server(
    plan: Plan = lambda request, attempt: "none", *, delay: float = 0
) -> AsyncGenerator[FaultyServer]:
    """Serve on a free port until the end of the block.

    Each answer takes `delay` seconds, with the fault "delay" five times as long.
    """
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=512) as listener:
        server = FaultyServer(int(listener.extra(SocketAttribute.local_port)), plan, delay)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, server.serve)
            yield server
            group.cancel_scope.cancel()
