"""`RemoteJob`: a job of a server, with its result and its events."""

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, Final, Self
from urllib.parse import quote

import anyio
from anyio.abc import AsyncResource
from anyio.to_thread import run_sync

from apass.service import api
from apass.service.connection import Connection, Parts, Patience, Query, TransientError
from apass.service.errors import JobCancelledError, JobFailedError, ServerUnavailableError, ServiceError
from apass.service.jobs import ENDED, JobEvent, JobRecord, JobState
from apass.util.files import PartFile, naming

__all__ = ["RemoteEvents", "RemoteJob", "RemoteJobs", "job_path"]

WAIT_SECONDS: Final = 30.0
"""Seconds for which one request waits for the end of a job."""

PAUSE_SECONDS: Final = 0.5
"""Seconds before a server is asked again that did not wait."""

SILENT_SECONDS: Final = 60.0
"""Seconds that a stream of events may be silent, beyond the time of other answers. Then it is opened again."""

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
        job: the job.

    """

    def __init__(self, connection: Connection, job: api.Job) -> None:
        self._connection = connection
        self._note(job)

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
        values: Mapping[str, Any] = api.to_builtins(self._job)
        return values

    async def refresh(self) -> JobRecord:
        """Read the record from the server, and return it.

        Raises:
            UnknownJobError: if the job was removed.

        """
        return self._note(await self._connection.ask_for(api.Job, "GET", job_path(self.id)))

    async def wait(self) -> JobRecord:
        """Wait until the job has ended, and return its record.

        Raises:
            UnknownJobError: if the job was removed.

        """
        while not self._record.ended:
            start = anyio.current_time()
            query = [("wait", f"{WAIT_SECONDS:g}")]
            self._note(await self._connection.ask_for(api.Job, "GET", job_path(self.id), query, silence=WAIT_SECONDS))
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
        return RemoteEvents(self._connection, self.id, after)

    async def cancel(self) -> JobRecord:
        """Cancel the job unless it has ended, and return its record."""
        return self._note(await self._connection.ask_for(api.Job, "DELETE", job_path(self.id), silence=WAIT_SECONDS))

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
        job = await self._connection.ask_for(api.Job, "POST", f"{job_path(self.id)}/retry", headers=headers)
        return RemoteJob(self._connection, job)

    def _note(self, job: api.Job) -> JobRecord:
        self._job, self._record = job, api.record_of(job)
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

        async def attempt() -> None:
            nonlocal tag
            # Not decompressed: a range counts the bytes as they are sent.
            headers = {"accept-encoding": "identity"}
            if sink.size and tag:
                headers |= {"range": f"bytes={sink.size}-", "if-range": tag}
            async with AsyncExitStack() as stack:
                path = f"{job_path(self.id)}/{part}"
                response = await self._connection.open(stack, "GET", path, headers=headers)
                if response.status_code != PARTIAL:
                    sink.restart()
                tag = response.headers.get("etag", "")
                async with Parts(response.aiter_raw(), self._connection) as chunks:
                    async for chunk in chunks:
                        await sink.write(chunk)
                        patience.note_progress()
            await sink.flush()

        await patience.repeat(attempt)
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
        query: the parameters of the requests for pages.
        before: the id of a job, after which the list begins.

    """

    def __init__(self, connection: Connection, query: Query, before: str | None) -> None:
        self._connection = connection
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
            query = self._query if self._before is None else [*self._query, ("before", self._before)]
            page = await self._connection.ask_for(api.JobPage, "GET", "/v1/jobs", query)
            self._before, self._is_last = page.next, page.next is None
            self._page = [RemoteJob(self._connection, job) for job in reversed(page.jobs)]
        return self._page.pop()


class RemoteEvents(AsyncResource):
    """The events of a job of a server, for `async for`; see `RemoteJob.events`.

    The connection is closed at the end of the iteration, of a block `async with events`, or of that of the client.

    Parameters:
        connection: the connection to the server.
        job_id: the id of the job.
        after: the id of the last event that is known.

    """

    def __init__(self, connection: Connection, job_id: str, after: int) -> None:
        self._connection = connection
        self._id = job_id
        self._after = after
        self._stack: AsyncExitStack | None = None
        self._events: Parts[Any] | None = None
        self._patience: Patience | None = None
        self._start = 0.0
        self._is_over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> JobEvent:
        """Return the next event; the iteration ends with the job.

        Raises:
            UnknownJobError: if the job was removed.

        """
        if self._patience is None:
            self._patience = self._connection.patience()
        try:
            event = None if self._is_over else await self._patience.repeat(self._receive)
        except BaseException:
            await self.aclose()
            raise
        if event is None:
            await self.aclose()
            raise StopAsyncIteration
        self._patience.note_progress()
        self._after = event.id
        self._is_over = event.kind == "state" and event.data.get("state") in ENDED
        return event

    async def aclose(self) -> None:
        """Close the connection."""
        stack, self._stack, self._events = self._stack, None, None
        self._connection.streams.discard(self)
        if stack is not None:
            with anyio.CancelScope(shield=True):
                await stack.aclose()

    async def _receive(self) -> JobEvent | None:
        """Return the next event; None at the end. Connect first if necessary.

        Raises:
            TransientError: if the connection is lost.

        """
        try:
            events = self._events or await self._connect()
            if events is None:
                return None
            async for event in events:
                # The first one has no data: it is the time after which a browser connects again.
                if event.data:
                    return self._read(event.data)
            # A server that is stopped ends its streams, and its successor continues the job.
            raise TransientError(ServerUnavailableError(f"{self._connection.url} has ended the stream of events"))
        except TransientError:
            if self._events is not None and self._patience is not None:
                self._patience.note_loss(self._start)
            await self.aclose()
            raise

    def _read(self, data: str) -> JobEvent:
        try:
            return JobEvent.from_json(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise self._connection.foreign(data) from None

    async def _connect(self) -> Parts[Any] | None:
        """Open the stream; return None if there are no further events."""
        headers = {"accept": "text/event-stream", "accept-encoding": "identity"}
        if self._after:
            headers["last-event-id"] = str(self._after)
        self._connection.streams.add(self)
        async with AsyncExitStack() as stack:
            # A stream without a sign of life is opened again.
            response = await self._connection.open(
                stack, "GET", f"{job_path(self._id)}/events", headers=headers, silence=SILENT_SECONDS
            )
            if response.status_code == NO_CONTENT:
                return None
            self._events = await stack.enter_async_context(self._connection.events_in(response))
            self._stack = stack.pop_all()
        self._start = anyio.current_time()
        return self._events
