"""`Client`: submits jobs to a server of `apass serve`, and follows them."""

import os
import ssl
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import anyio

from apass.core.ir_plugin import file_suffix
from apass.errors import InputError
from apass.service import api
from apass.service.connection import Body, Connection, Query
from apass.service.errors import InvalidJobError
from apass.service.jobs import JobOptions, JobState
from apass.service.remote_job import RemoteJob, RemoteJobs, job_path
from apass.util.checks import check_type, is_seconds
from apass.util.text import shorten

__all__ = ["Client"]

LONGEST_QUERY: Final = 4_000
"""Characters of the parameters in a URL; longer ones are sent as a form."""


class Client:
    """Submits jobs to a server, with the methods of `Optimizer`.

    Use it with `async with`. It works on asyncio and trio. Requests that fail for a moment are repeated: if there is no
    connection, and after the statuses 429, 502, 503 and 504. The repetition of a submission does not make a second job.

    Parameters:
        url: the URL of the server, such as `http://127.0.0.1:8000`, with the path if it is mounted. `unix:PATH` is a
            Unix socket. It contains no user and no password, which a server does not know.
        token: the bearer token; None for a server without authentication.
        timeout: seconds for which the server may be silent.
        retry_seconds: seconds for which a request is repeated.
        ssl_context: checks the certificate of the server; by default, that of the system.

    Raises:
        TypeError: if a value has another type.
        InputError: if the URL or the token is not one, or the URL contains a password.
        MissingExtraError: if httpx is not installed.

    >>> async def optimize(path: Path) -> bytes:
    ...     async with Client("http://127.0.0.1:8000") as client:
    ...         job = await client.submit(path, pipeline="default", deadline=30)
    ...         return await job.result()

    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retry_seconds: float = 60.0,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        for name, value in (("timeout", timeout), ("retry_seconds", retry_seconds)):
            if not is_seconds(value):
                raise InputError(f"{name} must be a positive number of seconds, got {value!r}")
        self._connection = Connection(url, token, timeout, retry_seconds, ssl_context)

    def __repr__(self) -> str:
        return f"<Client of {self.url}>"

    @property
    def url(self) -> str:
        """The URL of the server."""
        return self._connection.url

    async def __aenter__(self) -> Self:
        await self._connection.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.aclose()

    async def submit(
        self,
        model: bytes | Path,
        *,
        kind: str | None = None,
        result_kind: str | None = None,
        pipeline: str = "default",
        name: str = "",
        priority: int = 0,
        deadline: float | None = None,
        options: JobOptions | None = None,
        idempotency_key: str | None = None,
        wait: bool = True,
        trace: str | None = None,
    ) -> RemoteJob:
        """Submit a model. The job survives the end of the server, if its store is durable.

        Parameters:
            model: the bytes of a model's file, or the path of one, which is sent without reading it as a whole.
            kind: the suffix of the file that bytes come from, such as `.onnx`; by default that of a path.
            result_kind: the suffix of the result's file; the same as `kind` by default.
            pipeline: the name of a pipeline, or its text if the server permits it.
            name: a label for messages and lists; by default the name of the file.
            priority: jobs of the same tenant with a greater priority run first.
            deadline: seconds from the acceptance until the job must end.
            options: further options.
            idempotency_key: a name for the request. If it was used before, the earlier job is returned. By default, a
                new one for each call.
            wait: whether to repeat the request if the server has too many jobs.
            trace: the `traceparent` of the trace that the job belongs to.

        Raises:
            TypeError: if a value has another type.
            InvalidJobError: if the file cannot be read, or the server rejects the pipeline, the kind or an option.
            ModelTooLargeError: if the model has more bytes than the server accepts.
            QueueFullError: if the server has too many jobs.
            AccessError: if the token is not valid, or does not permit it.
            ServerUnavailableError: if the server cannot be reached. The job may have been accepted: repeat the request
                with the same idempotency key.

        """
        _check_model(model)
        for what, value, expected in (
            ("kind", kind, str | None),
            ("result_kind", result_kind, str | None),
            ("pipeline", pipeline, str),
            ("name", name, str),
            ("priority", priority, int),
            ("deadline", deadline, int | float | None),
            ("options", options, JobOptions | None),
            ("idempotency_key", idempotency_key, str | None),
            ("trace", trace, str | None),
        ):
            check_type(what, value, expected)
        for what, header in (("idempotency_key", idempotency_key), ("trace", trace)):
            if header is not None and not (header.isascii() and header.isprintable()):
                raise InvalidJobError(f"{what} must have printable ASCII characters only, got {header[:100]!r}")
        kind = (file_suffix(model) if isinstance(model, Path) else "") if kind is None else kind
        name = name or (model.name if isinstance(model, Path) else "")
        options = options or JobOptions()
        query = api.query_of(
            api.Submission(
                pipeline=pipeline,
                name=name,
                suffix=kind,
                to=result_kind or "",
                priority=priority,
                deadline=deadline,
                opt_level=options.opt_level,
                required=options.required_pass,
                disabled=options.disabled_pass,
                config=api.encode_json(options.config).decode(),
                report=options.report,
                functions=options.functions,
                texts=options.texts,
            )
        )
        headers = {"idempotency-key": token_hex(16) if idempotency_key is None else idempotency_key}
        if trace is not None:
            headers["traceparent"] = trace
        is_form = sum(len(key) + len(quote(value)) + 2 for key, value in query) > LONGEST_QUERY
        boundary = token_hex(16)
        head, tail = (_form(query, boundary), f"\r\n--{boundary}--\r\n".encode()) if is_form else (b"", b"")
        headers["content-type"] = f"multipart/form-data; boundary={boundary}" if is_form else "application/octet-stream"

        async def body(stack: AsyncExitStack) -> Body:
            if isinstance(model, bytes):
                return Body([head, model, tail], len(head) + len(model) + len(tail))
            try:
                file = await stack.enter_async_context(await anyio.open_file(model, "rb"))
                size = os.fstat(file.wrapped.fileno()).st_size
            except OSError as error:
                raise InvalidJobError(f"cannot read {model}: {error.strerror or error}") from error
            return Body([head, file, tail], len(head) + size + len(tail))

        parameters = () if is_form else query
        job = await self._connection.ask_for(
            api.Job, "POST", "/v1/jobs", parameters, headers=headers, body=body, retries=wait
        )
        return RemoteJob(self._connection, job)

    async def find(self, job_id: str) -> RemoteJob:
        """Return a job by its id.

        Raises:
            TypeError: if the id is no str.
            UnknownJobError: if there is none that the token permits to read.

        """
        check_type("id of a job", job_id, str)
        return RemoteJob(self._connection, await self._connection.ask_for(api.Job, "GET", job_path(job_id)))

    def jobs(
        self,
        *,
        states: Collection[JobState | str] = (),
        text: str = "",
        tenant: str | None = None,
        before: str | None = None,
        page: int = 100,
    ) -> RemoteJobs:
        """Return jobs for `async for`, the latest first. They are read in pages.

        Parameters:
            states: the states; all if empty.
            text: a part of the name, the pipeline or the beginning of the id.
            tenant: the owner; by default those that the token permits.
            before: the id of a job, after which the list begins.
            page: the number of jobs of a page.

        Raises:
            TypeError: if a value has another type.

        """
        if isinstance(states, str):
            raise TypeError(f"states must be a list of states, got {states!r}; write [{str(states)!r}]")
        for what, value, expected in (
            ("text", text, str),
            ("tenant", tenant, str | None),
            ("before", before, str | None),
        ):
            check_type(what, value, expected)
        query: list[tuple[str, str]] = [("limit", str(page))]
        query += [("state", ",".join(str(state) for state in states))] if states else []
        query += [("q", text)] if text else []
        query += [] if tenant is None else [("tenant", tenant)]
        return RemoteJobs(self._connection, query, before)

    async def passes(self) -> Sequence[Mapping[str, Any]]:
        """Return the passes that a pipeline may name, with their documentation."""
        return (await self._connection.ask_for(api.Passes, "GET", "/v1/passes")).passes

    async def pipelines(self) -> Sequence[Mapping[str, Any]]:
        """Return the named pipelines."""
        return (await self._connection.ask_for(api.Pipelines, "GET", "/v1/pipelines")).pipelines

    async def plan(
        self, pipeline: str = "default", *, kind: str = "", options: JobOptions | None = None
    ) -> Mapping[str, Any]:
        """Return which passes of a pipeline run.

        Parameters:
            pipeline: the name of a pipeline, or its text if the server permits it.
            kind: the suffix of the models, for the default pipeline of an IR.
            options: the options of the job.

        Raises:
            TypeError: if the options are not `JobOptions`.
            InvalidJobError: if the server rejects the pipeline, the kind or an option.

        """
        check_type("options", options, JobOptions | None)
        options = options or JobOptions()
        values = api.PlanRequest(
            pipeline, kind, options.opt_level, options.required_pass, options.disabled_pass, options.config
        )
        data = api.encode_json(values)

        async def body(_: AsyncExitStack) -> Body:
            return Body([data], len(data))

        headers = {"content-type": "application/json"}
        return await self._connection.ask_for(dict[str, Any], "POST", "/v1/plan", headers=headers, body=body)

    async def status(self) -> Mapping[str, Any]:
        """Return what the server does now."""
        return await self._connection.ask_for(dict[str, Any], "GET", "/v1/status")


def _check_model(model: object) -> None:
    """Raise TypeError unless a model is bytes or a path."""
    if isinstance(model, bytes | Path):
        return
    kind = type(model).__qualname__
    advice = f"got an object of {kind}; write it to a file, and pass the path or the bytes of that"
    if isinstance(model, str):
        advice = f"got the str {shorten(model, 100)!r}; write Path(...) for a file, or encode a text"
    elif isinstance(model, bytearray | memoryview):
        advice = f"got a {kind}; write bytes(...)"
    raise TypeError(f"the model must be the bytes of a file or a Path; {advice}")


def _form(query: Query, boundary: str) -> bytes:
    """Return the beginning of a form, up to the bytes of the model."""
    fields = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in query
    )
    disposition = 'Content-Disposition: form-data; name="model"; filename="model"'
    content_type = "Content-Type: application/octet-stream"
    return f"{fields}--{boundary}\r\n{disposition}\r\n{content_type}\r\n\r\n".encode()
