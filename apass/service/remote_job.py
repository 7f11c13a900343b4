"""`RemoteJob`: a job of a server, with its result and its events."""

import json
from collections import deque
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, BinaryIO, Final, Self
from urllib.parse import quote

import anyio
from anyio.to_thread import run_sync

from apass.service.connection import Chunks, Connection, Patience, Query, TransientError, failure_of
from apass.service.errors import JobCancelledError, JobFailedError, ServerUnavailableError, ServiceError
from apass.service.jobs import ENDED, JobEvent, JobOptions, JobRecord, JobState, JobSummary
from apass.service.sse import SseParser
from apass.util.files import PartFile, naming

__all__ = ["RemoteEvents", "RemoteJob", "RemoteJobs", "job_path"]

WAIT_SECONDS: Final = 30.0
"""Seconds for which one request waits for the end of a job."""

PAUSE_SECONDS: Final = 0.5
"""Seconds before a server is asked again that did not wait."""

SILENT_SECONDS: Final = 60.0
"""Seconds after which a stream of events without a sign of life is opened again."""

BUFFERED: Final = 1 << 20
"""Bytes of a result that are written at once."""

NO_CONTENT: Final = 204
"""The status of a stream without further events."""

PARTIAL: Final = 206
"""The status of an answer with a part of a file."""


def job_path(job_id: str) -> str:
    """Return the path of a job below that of the server."""
    return f"/v1/jobs/{quote(job_id, safe='')}"


class RemoteJob:
    """A job of a server, which `Client.submit` and `Client.find` return.

    Parameters:
        connection: the connection to the server.
        streams: the open streams of events of the client.
        values: the job as values of JSON.

    """

    def __init__(self, connection: Connection, streams: "set[RemoteEvents]", values: Mapping[str, Any]) -> None:
        self._connection = connection
        self._streams = streams
        self._note(values)

    def __repr__(self) -> str:
        return f"<RemoteJob {self.id} {self.record.name!r}: {self.record.state}>"

    @property
    def id(self) -> str:
        """The identifier of the job."""
        return self._record.id

    @property
    def record(self) -> JobRecord:
        """The job at the last request, without `key` and `report_digest`."""
        return self._record

    def as_json(self) -> Mapping[str, Any]:
        """Return the job as the values of JSON that the server has sent."""
        return self._values

    async def refresh(self) -> JobRecord:
        """Read the record from the server, and return it.

        Raises:
            UnknownJobError: if the job was removed.

        """
        return self._note(await self._connection.ask_json("GET", job_path(self.id)))

    async def wait(self) -> JobRecord:
        """Wait until the job has ended, and return its record.

        Raises:
            UnknownJobError: if the job was removed.

        """
        while not self._record.ended:
            start = anyio.current_time()
            query = [("wait", f"{WAIT_SECONDS:g}")]
            self._note(await self._connection.ask_json("GET", job_path(self.id), query, silence=WAIT_SECONDS))
            if not self._record.ended and anyio.current_time() - start < PAUSE_SECONDS:
                # A server that ends does not wait.
                await anyio.sleep(PAUSE_SECONDS)
        return self._record

    async def result(self) -> bytes:
        """Wait until the job has ended, and return the bytes of its result.

        Raises:
            JobFailedError: if the job has failed.
            JobCancelledError: if the job was cancelled.
            NoResultError: if the result has expired.

        """
        return await self._read("result", (await self._done()).result_digest)

    async def save(self, path: Path, *, durable: bool = True) -> int:
        """Write the result to a file, and return its number of bytes.

        Wait until the job has ended before. The file is written beside `path`, and renamed when it is complete.

        Parameters:
            path: the file.
            durable: whether it survives a power failure.

        Raises:
            JobFailedError: if the job has failed.
            JobCancelledError: if the job was cancelled.
            NoResultError: if the result has expired.
            OSError: if the file cannot be written.

        """
        record = await self._done()
        part = await run_sync(partial(PartFile, path, durable=durable))
        sink = _Sink(part.file, is_disk=True)
        try:
            with naming(path, part.path):
                await self._download("result", sink, record.result_digest)
            # A thread cannot be cancelled: the file is either complete or removed.
            with anyio.CancelScope(shield=True):
                await run_sync(_complete, part)
        finally:
            part.discard()
        return sink.size

    async def model(self) -> bytes:
        """Return the bytes of the model.

        Raises:
            NoResultError: if the model has expired.

        """
        return await self._read("model", self._record.model_digest)

    async def report(self) -> str:
        """Wait until the job has ended, and return its report as an HTML page.

        Raises:
            NoResultError: if the job has no report.

        """
        await self.wait()
        return (await self._connection.ask("GET", f"{job_path(self.id)}/report")).text

    def events(self, after: int = 0) -> "RemoteEvents":
        """Return the events of the job for `async for`, after the one with this id.

        The iteration ends with the job, and continues after a lost connection. Leave it early within
        `async with job.events() as events`, which closes the connection.
        """
        return RemoteEvents(self._connection, self._streams, self.id, after)

    async def cancel(self) -> JobRecord:
        """Cancel the job unless it has ended, and return its record."""
        return self._note(await self._connection.ask_json("DELETE", job_path(self.id), silence=WAIT_SECONDS))

    async def remove(self) -> None:
        """Remove the job, which has ended, with its model and result.

        Raises:
            NoResultError: if the job has not ended.

        """
        await self._connection.ask("DELETE", job_path(self.id), [("remove", "true")])

    async def retry(self) -> "RemoteJob":
        """Submit the model again, with the same pipeline and options.

        Return the new job.
        """
        headers = {"idempotency-key": token_hex(16)}
        values = await self._connection.ask_json("POST", f"{job_path(self.id)}/retry", headers=headers)
        return RemoteJob(self._connection, self._streams, values)

    def _note(self, values: Mapping[str, Any]) -> JobRecord:
        try:
            self._record = _record_of(values)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise self._connection.foreign(json.dumps(values)) from None
        self._values = values
        return self._record

    async def _done(self) -> JobRecord:
        """Wait until the job has ended, and return its record.

        Raises:
            JobFailedError: if the job has failed.
            JobCancelledError: if the job was cancelled.

        """
        record = await self.wait()
        if record.state is JobState.FAILED and record.failure is not None:
            raise JobFailedError(record.failure)
        if record.result_digest is None and record.state is not JobState.DONE:
            reason = "" if record.failure is None else f": {record.failure.message}"
            raise JobCancelledError(f"job {record.id} was cancelled{reason}")
        return record

    async def _read(self, part: str, digest: str | None) -> bytes:
        """Return the bytes of a blob of the job; see `_download`."""
        data = BytesIO()
        await self._download(part, _Sink(data, is_disk=False), digest)
        return data.getvalue()

    async def _download(self, part: str, sink: "_Sink", digest: str | None) -> None:
        """Read a blob of the job; continue after a lost connection.

        Raises:
            NoResultError: if it has expired.
            ServiceError: if the bytes are others than those of the server.

        """
        patience, tag = self._connection.patience(), ""
        while True:
            headers = {"accept-encoding": "identity"}
            if sink.size and tag:
                headers |= {"range": f"bytes={sink.size}-", "if-range": tag}
            try:
                async with AsyncExitStack() as stack:
                    path = f"{job_path(self.id)}/{part}"
                    response = await self._connection.open(stack, "GET", path, headers=headers)
                    if response.status_code != PARTIAL:
                        sink.restart()
                    tag = response.headers.get("etag", "")
                    async with Chunks(response, self._connection) as chunks:
                        async for chunk in chunks:
                            await sink.write(chunk)
                            patience.note_progress()
                await sink.flush()
                break
            except TransientError as failure:
                await patience.wait(failure)
        if sink.digest != digest:
            raise ServiceError(f"the {part} of job {self.id} was damaged on its way; read it again")


def _complete(part: PartFile) -> None:
    part.close()
    part.replace()


class _Sink:
    """Receives the bytes of a blob.

    Parameters:
        file: where they are written.
        is_disk: whether that takes long.

    """

    def __init__(self, file: BinaryIO, *, is_disk: bool) -> None:
        self.size = 0
        """The number of bytes."""
        self._file = file
        self._is_disk = is_disk
        self._hash = sha256()
        self._buffer = bytearray()

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        return self._hash.hexdigest()

    def restart(self) -> None:
        """Forget all bytes."""
        self.size = 0
        self._hash = sha256()
        self._buffer.clear()
        self._file.seek(0)
        self._file.truncate()

    async def write(self, data: bytes) -> None:
        """Add bytes."""
        self.size += len(data)
        self._buffer += data
        if len(self._buffer) >= BUFFERED:
            await self.flush()

    async def flush(self) -> None:
        """Write all bytes to the file."""
        if not self._is_disk:
            self._write()
            return
        # A thread cannot be cancelled, and the file is removed after a cancellation.
        with anyio.CancelScope(shield=True):
            await run_sync(self._write)

    def _write(self) -> None:
        self._hash.update(self._buffer)
        self._file.write(self._buffer)
        self._buffer = bytearray()


class RemoteJobs:
    """Jobs of a server, for `async for`; see `Client.jobs`.

    Parameters:
        connection: the connection to the server.
        streams: the open streams of events of the client.
        query: the parameters of the requests for pages.
        before: the id of a job, after which the list begins.

    """

    def __init__(self, connection: Connection, streams: "set[RemoteEvents]", query: Query, before: str | None) -> None:
        self._connection = connection
        self._streams = streams
        self._query = list(query)
        self._before = before
        self._page: list[RemoteJob] = []
        self._is_last = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RemoteJob:
        """Return the next job."""
        while not self._page:
            if self._is_last:
                raise StopAsyncIteration
            self._page = list(reversed(await self._next_page()))
        return self._page.pop()

    async def _next_page(self) -> list[RemoteJob]:
        query = self._query if self._before is None else [*self._query, ("before", self._before)]
        values = await self._connection.ask_json("GET", "/v1/jobs", query)
        try:
            jobs = [RemoteJob(self._connection, self._streams, item) for item in values["jobs"]]
            self._before = values["next"]
        except (KeyError, TypeError):
            raise self._connection.foreign(json.dumps(values)) from None
        self._is_last = self._before is None
        return jobs


class RemoteEvents:
    """The events of a job of a server, for `async for`; see `RemoteJob.events`.

    The connection is closed at the end of the iteration, of a block `async with events`, or of that of the client.

    Parameters:
        connection: the connection to the server.
        streams: the open streams of events of the client.
        job_id: the id of the job.
        after: the id of the last event that is known.

    """

    def __init__(self, connection: Connection, streams: "set[RemoteEvents]", job_id: str, after: int) -> None:
        self._connection = connection
        self._streams = streams
        self._id = job_id
        self._after = after
        self._events: deque[JobEvent] = deque()
        self._parser = SseParser()
        self._stack: AsyncExitStack | None = None
        self._chunks: Chunks | None = None
        self._patience: Patience | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobEvent:
        """Return the next event; the iteration ends with the job.

        Raises:
            UnknownJobError: if the job was removed.

        """
        while not self._events:
            if self._is_over:
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._receive()
            except BaseException:
                await self.aclose()
                raise
        event = self._events.popleft()
        self._after = event.id
        return event

    async def aclose(self) -> None:
        """Close the connection."""
        stack, self._stack, self._chunks = self._stack, None, None
        self._streams.discard(self)
        if stack is not None:
            with anyio.CancelScope(shield=True):
                await stack.aclose()

    async def _receive(self) -> None:
        """Receive events; connect first, if there is no connection."""
        if self._patience is None:
            self._patience = self._connection.patience()
        try:
            chunks = self._chunks or await self._connect()
            if chunks is None:
                self._is_over = True
                return
            data = b""
            with anyio.move_on_after(SILENT_SECONDS):
                data = await anext(chunks, b"")
            if not data:
                # A server that is stopped ends its streams, and its successor continues the job.
                raise TransientError(ServerUnavailableError(f"{self._connection.url} has ended the stream of events"))
            self._add(data)
        except TransientError as failure:
            await self.aclose()
            await self._patience.wait(failure)

    async def _connect(self) -> Chunks | None:
        """Open the stream; return None if there are no further events."""
        headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
        if self._after:
            headers["last-event-id"] = str(self._after)
        self._streams.add(self)
        self._parser = SseParser()
        async with AsyncExitStack() as stack:
            response = await self._connection.open(
                stack, "GET", f"{job_path(self._id)}/events", headers=headers, silence=SILENT_SECONDS
            )
            if response.status_code == NO_CONTENT:
                return None
            self._chunks = await stack.enter_async_context(Chunks(response, self._connection))
            self._stack = stack.pop_all()
        return self._chunks

    def _add(self, data: bytes) -> None:
        """Add the events in the next bytes of the stream."""
        try:
            events = [JobEvent.from_json(json.loads(item.data)) for item in self._parser.feed(data)]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._connection.foreign(data.decode("utf-8", "replace")) from None
        for event in events:
            self._events.append(event)
            self._is_over = event.kind == "state" and event.data.get("state") in ENDED
        if events:
            assert self._patience is not None, "set before the connection"
            self._patience.note_progress()


def _record_of(values: Mapping[str, Any]) -> JobRecord:
    """Return the record of a job from its values of JSON."""
    options, model = values["options"], values["model"]
    result: Mapping[str, Any] = values["result"] or {}
    failure, summary = values["failure"], values["summary"]
    return JobRecord(
        id=str(values["id"]),
        tenant=str(values["tenant"]),
        name=str(values["name"]),
        kind=str(values["kind"]),
        result_kind=str(values["result_kind"]),
        pipeline=str(values["pipeline"]),
        options=JobOptions(
            opt_level=options["opt_level"],
            required_pass=options["required"],
            disabled_pass=options["disabled"],
            config=options["config"],
            report=options["report"],
            functions=options["functions"],
            texts=options["texts"],
        ),
        priority=values["priority"],
        deadline=values["deadline"],
        key="",
        model_digest=str(model["digest"]),
        model_size=int(model["size"]),
        created=float(values["created"]),
        idempotency_key=values["idempotency_key"],
        trace=values["trace"],
        state=JobState(values["state"]),
        attempts=values["attempts"],
        started=values["started"],
        finished=values["finished"],
        result_size=result.get("size"),
        result_digest=result.get("digest"),
        reused=values["reused"],
        failure=None if failure is None else failure_of(failure),
        summary=None if summary is None else _summary_of(summary),
    )


def _summary_of(values: Mapping[str, Any]) -> JobSummary:
    return JobSummary(
        values["before"],
        values["after"],
        bool(values["changed"]),
        {str(name): int(count) for name, count in values["changed_by"].items()},
        {str(name): int(count) for name, count in values["cached"].items()},
        float(values["seconds"]),
        tuple(values["diagnostics"]),
    )
