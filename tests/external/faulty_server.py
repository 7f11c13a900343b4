"""A real HTTP server on loopback that misbehaves by plan: it delays, drops, resets, fails, and answers garbage."""

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
"""What the server does with a request."""

Plan = Callable[[Any, int], Fault]
"""Tells what to do with a question, asked for the n-th time, from 0."""

STATUS = {"500": "500 Internal Server Error", "400": "400 Bad Request", "busy": "503 Service Unavailable"}


class FaultyServer:
    """Answers `{"question": q}` with `{"answer": 2 * q}`, unless the plan says otherwise, and counts."""

    def __init__(self, port: int, plan: Plan, delay: float) -> None:
        self.url = f"http://127.0.0.1:{port}/ask"
        self.plan = plan
        self.delay = delay
        self.requests: Counter[Any] = Counter()
        self.answers: Counter[Any] = Counter()
        self.faults: Counter[str] = Counter()
        self.connections = 0
        self.most_in_flight = 0
        self.most_begun = 0
        self._at_work: set[socket.socket] = set()

    async def serve(self, stream: SocketStream) -> None:
        """Serve one connection until its end."""
        self.connections += 1
        async with stream:
            try:
                await self._serve(stream, BufferedByteReceiveStream(stream))
            except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _serve(self, stream: SocketStream, requests: BufferedByteReceiveStream) -> None:
        raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
        while True:
            question = await read_request(requests)
            fault = self.plan(question, self.requests[question])
            self.requests[question] += 1
            self.faults[fault] += 1
            self._at_work.add(raw)
            self._measure()
            try:
                reply = await self._reply(question, fault)
            finally:
                self._at_work.discard(raw)
            await stream.send(reply)
            if fault == "reset":
                # With no time to linger, closing is a reset.
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            if fault in ("drop", "reset", "half"):
                return

    async def _reply(self, question: Any, fault: Fault) -> bytes:
        """Return the bytes to send, after a while."""
        await anyio.sleep({"delay": 5 * self.delay, "hang": 3600}.get(fault, self.delay))
        if fault in ("drop", "reset"):
            return b""
        if fault in STATUS:
            return response(b"sorry", STATUS[fault], "Retry-After: 0\r\n" if fault == "busy" else "")
        if fault == "garbage":
            return response(b"\x00\xffno json{")
        if fault == "wrong":
            return response(b'{"error": "no idea"}')
        whole = response(json.dumps({"answer": 2 * question}).encode())
        self.answers[question] += fault != "half"
        return whole[:-5] if fault == "half" else whole

    def _measure(self) -> None:
        """Note how many requests are in flight; one that its asker has hung up on is not."""
        if len(self._at_work) > self.most_in_flight:
            self.most_in_flight = max(self.most_in_flight, sum(map(is_connected, self._at_work)))


def is_connected(raw: socket.socket) -> bool:
    """Tell whether the other side has not closed the connection."""
    try:
        # A copy, as that of an event loop may not offer to be read.
        with socket.fromfd(raw.fileno(), socket.AF_INET, socket.SOCK_STREAM) as copy:
            return copy.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


async def read_request(requests: BufferedByteReceiveStream) -> Any:
    """Return the question of the next request."""
    head = await requests.receive_until(b"\r\n\r\n", 65536)
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    body = await requests.receive_exactly(int(lengths[0].partition(b":")[2]))
    return json.loads(body)["question"]


def response(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """Return an HTTP response."""
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def faulty_server(
    plan: Plan = lambda question, time: "none", *, delay: float = 0
) -> AsyncGenerator[FaultyServer]:
    """Serve on a port of its own until the end of the block; each answer takes `delay` seconds, a late one more."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1", backlog=512) as listener:
        server = FaultyServer(int(listener.extra(SocketAttribute.local_port)), plan, delay)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, server.serve)
            yield server
            group.cancel_scope.cancel()
