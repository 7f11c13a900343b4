"""`EventStream`: server-sent events as an answer."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from apass.service.api import encode_json, job_of
from apass.service.http.requests import Service, watch_client
from apass.service.job import JobEvents
from apass.service.job_news import JobNews
from apass.service.jobs import JobEvent, JobRecord
from apass.service.live_job import state_data
from apass.service.optimizer import Optimizer

__all__ = ["EventStream", "JobSource", "NewsSource", "sse"]

AT_ONCE: Final = 100
"""Events that are sent together, if they are there."""

RETRY: Final = 2_000
"""Milliseconds after which a browser connects again."""

SEND_SECONDS: Final = 60.0
"""Seconds after which a client that reads nothing is given up.

On trio, Hypercorn does not let a send be cancelled. The task then lasts as long as the connection.
"""

LAST_SECONDS: Final = 1.0
"""Seconds for the last events after the optimizer has drained."""


def sse(kind: str, data: Mapping[str, Any], event_id: int | None = None) -> bytes:
    r"""Return one server-sent event.

    >>> sse("state", {"state": "done"}, 7)
    b'id: 7\nevent: state\ndata: {"state":"done"}\n\n'
    """
    head = "" if event_id is None else f"id: {event_id}\n"
    # JSON contains no line break, which would end the data.
    return b"%sevent: %s\ndata: %s\n\n" % (head.encode(), kind.encode(), encode_json(data))


class JobSource:
    """The events of one job, which end with a `state` event of its final state.

    Parameters:
        optimizer: the optimizer.
        record: the job.
        events: its events.
        after: the id of the last event that the client has.

    """

    def __init__(self, optimizer: Optimizer, record: JobRecord, events: JobEvents, after: int) -> None:
        self._optimizer = optimizer
        self._record = record
        self._events = events
        self._last = after
        self._has_end = False

    async def read(self) -> bytes | None:
        """Return the next events; None at the end. A cancellation loses none."""
        try:
            first = await anext(self._events)
        except StopAsyncIteration:
            return None if self._has_end else await self._end()
        return b"".join(map(self._encode, (first, *self._events.read_nowait(AT_ONCE - 1))))

    def close(self) -> None:
        """Do nothing."""

    def _encode(self, event: JobEvent) -> bytes:
        self._last = event.id
        self._has_end = event.kind == "state" and event.data.get("state") in ("done", "failed", "cancelled")
        return sse(event.kind, event.as_json(), event.id)

    async def _end(self) -> bytes | None:
        """Return the event of the final state.

        It is not stored for a job that did not run.
        """
        record = await self._optimizer.store.find(self._record.id)
        if record is None or not record.ended:
            return None
        return self._encode(JobEvent(self._last + 1, "state", record.finished or record.created, state_data(record)))


class NewsSource:
    """The events of all jobs of a tenant, with the jobs.

    Parameters:
        news: the events.
        root: the path of the application, for the links of jobs.

    """

    def __init__(self, news: JobNews, root: str) -> None:
        self._news = news
        self._root = root
        self._dropped = 0
        news.__enter__()

    async def read(self) -> bytes | None:
        """Return the next events; None at the end. A cancellation loses none."""
        first = await anext(self._news, None)
        if first is None:
            return None
        batch: Sequence[tuple[JobRecord, JobEvent]] = (first, *self._news.read_nowait(AT_ONCE - 1))
        missing, self._dropped = self._news.dropped - self._dropped, self._news.dropped
        head = sse("dropped", {"kind": "dropped", "count": missing}) if missing else b""
        return head + b"".join(
            sse(event.kind, {**event.as_json(), "job": job_of(record, self._root)}) for record, event in batch
        )

    def close(self) -> None:
        """Remove the listener."""
        self._news.__exit__(None, None, None)


class EventStream(Response):
    """An answer of server-sent events.

    It ends with its source, if the client leaves, or when the optimizer has drained.

    Parameters:
        service: the service.
        source: where the events come from.

    """

    media_type = "text/event-stream"

    def __init__(self, service: Service, source: JobSource | NewsSource) -> None:
        # A proxy would collect the events otherwise.
        super().__init__(None, 200, {"x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._service = service
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            if scope["method"] != "HEAD":
                async with anyio.create_task_group() as group:
                    group.start_soon(self._end_with_client, receive, group.cancel_scope)
                    group.start_soon(self._end_with_optimizer, group.cancel_scope)
                    await self._send_all(send)
                    group.cancel_scope.cancel()
            with anyio.move_on_after(SEND_SECONDS):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._source.close()

    async def _send_all(self, send: Send) -> None:
        # The first bytes let a client know that it is connected, although nothing may happen for long.
        data: bytes | None = f"retry: {RETRY}\n\n".encode()
        while data is not None:
            with anyio.move_on_after(SEND_SECONDS) as limit:
                await send({"type": "http.response.body", "body": data, "more_body": True})
            if limit.cancelled_caught:
                return
            data = b": heartbeat\n\n"
            with anyio.move_on_after(self._service.heartbeat):
                data = await self._source.read()

    async def _end_with_client(self, receive: Receive, scope: anyio.CancelScope) -> None:
        await watch_client(receive)
        scope.cancel()

    async def _end_with_optimizer(self, scope: anyio.CancelScope) -> None:
        await self._service.optimizer.wait_drained()
        # The source ends by itself after the last event, unless the client does not read.
        await anyio.sleep(LAST_SECONDS)
        scope.cancel()
