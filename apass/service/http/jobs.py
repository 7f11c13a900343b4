"""The handlers of the paths below `/v1/jobs`."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, Final

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from apass.core.ir_plugin import file_suffix
from apass.service import api
from apass.service.errors import (
    InvalidJobError,
    JobCancelledError,
    JobFailedError,
    JobsUnavailableError,
    NoResultError,
    ServiceError,
    UnknownJobError,
)
from apass.service.http.auth import TokenScope
from apass.service.http.contents import blob_response
from apass.service.http.events import EventStream, JobSource, NewsSource
from apass.service.http.operations import Handlers, Operation
from apass.service.http.parameters import decode_object, read_parameters
from apass.service.http.problems import BadRequestError, ForbiddenError, problem_of
from apass.service.http.requests import (
    check_readable,
    identity_of,
    json_response,
    require,
    root_of,
    wait_for,
)
from apass.service.http.security import REPORT_POLICY
from apass.service.http.uploads import Upload, clean_name, read_upload
from apass.service.job import Job
from apass.service.job_store import CHUNK, JobQuery, missing_blob, read_blob, write_blob
from apass.service.jobs import JobOptions, JobRecord, JobState, is_file_kind

__all__ = ["JobHandlers"]

STORE_SECONDS: Final = 10.0
"""Seconds for which a request waits until the end of a job is stored."""

_ID: Final = re.compile(r"[0-9a-f]{32}")
_BLOB: Final = ("application/octet-stream",)
_PARTS: Final = {206: _BLOB, 304: ()}
_CONDITIONS: Final = ("If-None-Match", "Range")
_TRACE: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


class JobHandlers(Handlers):
    """Handles requests about jobs."""

    @Operation(
        "POST",
        "/v1/jobs",
        [api.Job, "application/octet-stream"],
        query=api.Submission,
        scope=TokenScope.SUBMIT,
        more={202: [api.Job]},
        body=["application/octet-stream", "application/onnx", "multipart/form-data"],
        headers=["Idempotency-Key", "traceparent"],
    )
    async def submit(self, request: Request, query: api.Submission) -> Response:
        """Accept a job."""
        # An invalid request is refused before its body is read.
        _check_answer(request)
        check_readable(self._optimizer)
        self._optimizer.check_open()
        async with read_upload(request, self._service) as upload:
            if upload.fields:
                query = read_parameters([*request.query_params.multi_items(), *upload.fields], api.Submission)
            job = await self._submit(request, upload, query)
        return await self._submitted(request, job, query.wait)

    async def _submit(self, request: Request, upload: Upload, query: api.Submission) -> Job[Any]:
        name = clean_name(query.name) or upload.file_name
        kind = _suffix(query.suffix) or upload.suffix or file_suffix(Path(name))
        if not kind:
            known = ", ".join(await self._optimizer.formats.suffixes())
            raise InvalidJobError(
                "the kind of the model is unknown; send the parameter suffix, the name of a file, or the content type "
                f"of the model; suffixes are {known}"
            )
        options = JobOptions(
            opt_level=query.opt_level,
            required_pass=query.required,
            disabled_pass=query.disabled,
            config=decode_object(query.config, "config"),
            report=query.report,
            functions=query.functions,
            texts=query.texts,
        )
        return await self._optimizer.submit(
            upload.model,
            kind=kind,
            result_kind=_suffix(query.to),
            pipeline=query.pipeline or "default",
            name=name or f"model{kind}",
            tenant=identity_of(request).tenant,
            priority=query.priority,
            deadline=query.deadline,
            options=options,
            idempotency_key=_idempotency_key(request),
            wait=False,
            trace=_trace(request),
        )

    async def _submitted(self, request: Request, job: Job[Any], seconds: float | None) -> Response:
        """Return the answer for an accepted job, after waiting for its end."""
        record = job.record
        if seconds is not None:
            record = await self._wait(request, job, seconds)
        headers = {"location": f"{root_of(request)}/v1/jobs/{record.id}"}
        if seconds is None or not record.ended:
            return self._job(request, record, 202, headers)
        if _wants_result(request):
            try:
                response = await self._result(request, record, job.recent_result)
            except ServiceError as error:
                response = problem_of(error, job=record.id)
            # The job is accepted, whatever its result is.
            response.headers.update(headers)
            return response
        return self._job(request, record, 200, headers)

    @Operation("GET", "/v1/jobs", [api.JobPage], query=api.ListedJobs)
    async def list_jobs(self, request: Request, query: api.ListedJobs) -> Response:
        """Return a page of jobs, the latest first."""
        identity = identity_of(request)
        if query.tenant is not None and identity.visible_tenant is not None and query.tenant != identity.tenant:
            raise ForbiddenError("the jobs of another tenant need a token with the scope admin; leave out tenant")
        check_readable(self._optimizer)
        page = await self._optimizer.list(
            JobQuery(
                tenant=identity.visible_tenant if query.tenant is None else query.tenant,
                states=frozenset(query.state),
                text=query.q[:300],
                before=query.before,
                limit=query.limit,
            )
        )
        root = root_of(request)
        return json_response(api.JobPage(tuple(api.job_of(record, root) for record in page.jobs), page.next))

    @Operation("GET", "/v1/jobs/{id}", [api.Job], query=api.Wait)
    async def find(self, request: Request, query: api.Wait) -> Response:
        """Return a job, after waiting for its end."""
        _, record = await self._waited(request, query)
        return self._job(request, record)

    @Operation("GET", "/v1/jobs/{id}/result", _BLOB, query=api.Wait, more=_PARTS, headers=_CONDITIONS)
    async def result(self, request: Request, query: api.Wait) -> Response:
        """Return the bytes of the result."""
        job, record = await self._waited(request, query)
        try:
            return await self._result(request, await self._stored(request, job, record), job.recent_result)
        except JobFailedError as error:
            # This request is right; it conflicts with the state of the job.
            return problem_of(error, 409, job=job.id)

    @Operation("GET", "/v1/jobs/{id}/model", _BLOB, more=_PARTS, headers=_CONDITIONS)
    async def model(self, request: Request, _: api.Nothing) -> Response:
        """Return the bytes of the model."""
        record = (await self._find(request)).record
        digest, size, kind = record.model_digest, record.model_size, record.kind
        return await blob_response(request, self._optimizer.store, digest, size, name=record.name, kind=kind)

    @Operation("GET", "/v1/jobs/{id}/report", ["text/html"], query=api.Wait)
    async def report(self, request: Request, query: api.Wait) -> Response:
        """Return the report as an HTML page."""
        job, record = await self._waited(request, query)
        _check_ended(await self._stored(request, job, record))
        # By the HTML standard, a page in a sandbox must not have the opener policy of other answers.
        headers = {"content-security-policy": REPORT_POLICY, "cross-origin-opener-policy": ""}
        return HTMLResponse(await job.report(), 200, headers)

    @Operation(
        "GET",
        "/v1/jobs/{id}/events",
        ["text/event-stream"],
        query=api.After,
        more={204: []},
        headers=["Last-Event-ID"],
    )
    async def events(self, request: Request, query: api.After) -> Response:
        """Send the events of a job until its end."""
        job = await self._find(request)
        last = request.headers.get("last-event-id", "").strip()
        # A browser that connects again has the first query and a newer header.
        after = read_parameters([("after", last)], api.After).after if last else query.after
        events = job.events(after)
        if last and job.record.ended and await anext(job.events(after), None) is None:
            # A browser connects again after the end of a stream. This answer stops it.
            return Response(None, 204)
        return EventStream(self._service, JobSource(self._optimizer, job.record, events, after))

    @Operation("GET", "/v1/events", ["text/event-stream"], query=api.Kinds)
    async def news(self, request: Request, query: api.Kinds) -> Response:
        """Send the events of all visible jobs, as they happen."""
        check_readable(self._optimizer)
        news = self._optimizer.listen(query.kinds or ("state",), tenant=identity_of(request).visible_tenant)
        return EventStream(self._service, NewsSource(news, root_of(request)))

    @Operation(
        "DELETE",
        "/v1/jobs/{id}",
        [api.Job],
        query=api.Removal,
        scope=TokenScope.SUBMIT,
        more={202: [api.Job], 204: []},
    )
    async def delete(self, request: Request, query: api.Removal) -> Response:
        """Cancel a job, or remove one that has ended."""
        job = await self._find(request)
        if query.remove:
            await self._optimizer.remove(job.id, tenant=job.record.tenant)
            return Response(None, 204)
        record: JobRecord | None = job.record
        if not job.record.ended:
            # A store that fails delays the end; the cancellation is effective all the same.
            record = await wait_for(request, self._optimizer, job.cancel, STORE_SECONDS)
        record = record or job.record
        return self._job(request, record, 200 if record.ended else 202)

    @Operation(
        "POST",
        "/v1/jobs/{id}/retry",
        [api.Job, "application/octet-stream"],
        query=api.Wait,
        scope=TokenScope.SUBMIT,
        more={202: [api.Job]},
        headers=["Idempotency-Key", "traceparent"],
    )
    async def retry(self, request: Request, query: api.Wait) -> Response:
        """Submit the model of a job again, with the same pipeline and options."""
        record = (await self._find(request)).record
        _check_answer(request)
        if not is_file_kind(record.kind):
            raise InvalidJobError(
                f"job {record.id} has a module of the class {record.kind!r}, and not a file; submit it in the program"
            )
        async with self._model_of(record) as model:
            again = await self._optimizer.submit(
                model,
                kind=record.kind,
                # A pass may have converted the model to another IR.
                result_kind=record.result_kind if is_file_kind(record.result_kind) else None,
                pipeline=record.pipeline,
                name=record.name,
                tenant=record.tenant,
                priority=record.priority,
                deadline=_seconds(record),
                options=record.options,
                idempotency_key=_idempotency_key(request),
                wait=False,
                trace=_trace(request),
            )
        return await self._submitted(request, again, query.wait)

    def _job(
        self, request: Request, record: JobRecord, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        may_read = identity_of(request).permits(TokenScope.READ)
        return json_response(api.job_of(record, root_of(request), may_read=may_read), status, headers)

    async def _find(self, request: Request) -> Job[Any]:
        """Return the job in the path.

        Raises:
            UnknownJobError: if there is none that the sender may see.

        """
        job_id = str(request.path_params["id"])
        check_readable(self._optimizer)
        if not _ID.fullmatch(job_id):
            raise UnknownJobError(f"there is no job {job_id[:100]!r}; it may have expired")
        return await self._optimizer.find(job_id, tenant=identity_of(request).visible_tenant)

    async def _waited(self, request: Request, query: api.Wait) -> tuple[Job[Any], JobRecord]:
        """Return the job in the path and its record, after waiting for its end."""
        job = await self._find(request)
        return job, job.record if query.wait is None else await self._wait(request, job, query.wait)

    async def _wait(self, request: Request, job: Job[Any], seconds: float) -> JobRecord:
        """Wait for the end of a job; return its record."""
        seconds = min(seconds, self._service.max_wait)
        return await wait_for(request, self._optimizer, job.wait, seconds) or job.record

    async def _stored(self, request: Request, job: Job[Any], record: JobRecord) -> JobRecord:
        """Return the record of a job, whose result is stored if it has ended.

        Raises:
            JobsUnavailableError: if the result cannot be stored.

        """
        if not record.ended:
            return record
        # The state changes shortly before the end is stored.
        stored = await wait_for(request, self._optimizer, job.wait, STORE_SECONDS)
        if stored is None:
            raise JobsUnavailableError(f"the end of job {record.id} is not stored yet; repeat the request")
        return stored

    async def _result(self, request: Request, record: JobRecord, data: bytes | None) -> Response:
        """Return the bytes of the result of a job.

        Raises:
            NoResultError: if the job has not ended.
            JobFailedError: if it has failed.
            JobCancelledError: if it was cancelled.

        """
        _check_ended(record)
        if record.state is JobState.FAILED and record.failure is not None:
            raise JobFailedError(record.failure)
        if record.result_digest is None or record.result_size is None:
            raise JobCancelledError(f"job {record.id} was cancelled, so that it has no result")
        digest, size, kind = record.result_digest, record.result_size, record.result_kind
        return await blob_response(request, self._optimizer.store, digest, size, name=record.name, kind=kind, data=data)

    @asynccontextmanager
    async def _model_of(self, record: JobRecord) -> AsyncGenerator[bytes | Path]:
        """Return the model of a job, in a temporary file if it is large.

        Raises:
            NoResultError: if it has expired.

        """
        store, digest = self._optimizer.store, record.model_digest
        try:
            if record.model_size <= CHUNK:
                yield await read_blob(store, digest)
                return
            folder = await run_sync(partial(mkdtemp, prefix="apass-upload-", dir=self._service.folder))
            try:
                path = Path(folder, f"model{record.kind}")
                await write_blob(store, digest, path)
                yield path
            finally:
                with anyio.CancelScope(shield=True):
                    await run_sync(partial(rmtree, folder, ignore_errors=True))
        except KeyError as error:
            raise missing_blob(f"the model of job {record.id}", error) from None


def _check_ended(record: JobRecord) -> None:
    if not record.ended:
        raise NoResultError(f"job {record.id} is {record.state}; wait for its end, for example with ?wait=30")


def _suffix(text: str) -> str | None:
    """Return a suffix with its dot."""
    return None if not text else f".{text.lower().removeprefix('.')}"


def _wants_result(request: Request) -> bool:
    """Return whether the answer for a job that has ended is its result."""
    return "application/octet-stream" in request.headers.get("accept", "")


def _check_answer(request: Request) -> None:
    """Raise ForbiddenError if the sender may not read the result, but asks for it."""
    if _wants_result(request):
        require(request, TokenScope.READ)


def _seconds(record: JobRecord) -> float | None:
    """Return the deadline of a job as it was submitted."""
    # The difference has an error of rounding, which may exceed the longest deadline.
    return None if record.deadline is None else max(0.001, round(record.deadline - record.created, 3))


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 300 and key.isascii() and key.isprintable()):
        raise BadRequestError("the header Idempotency-Key must have 1 to 300 printable ASCII characters")
    return key


def _trace(request: Request) -> str | None:
    """Return the `traceparent` of a request, if it is valid."""
    trace = request.headers.get("traceparent", "")
    return trace if _TRACE.fullmatch(trace) else None
