"""`Connection`: sends requests to a server, and repeats those that failed."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from random import uniform
from typing import Any, Final, Generic, Self, TypeVar

import anyio
from anyio.abc import AsyncResource

from apass.errors import InputError, MissingExtraError
from apass.service import api, errors
from apass.service.errors import (
    AccessError,
    InvalidJobError,
    JobFailedError,
    JobsUnavailableError,
    QueueFullError,
    ServerUnavailableError,
    ServiceError,
)
from apass.util.checks import check_type
from apass.util.retry_after import retry_after
from apass.util.text import shorten
from apass.util.version import __version__

try:
    import httpx
    import stamina
    from httpx_sse import EventSource
    from msgspec import UNSET, MsgspecError, convert
except ImportError as _error:
    raise MissingExtraError(
        f"the client of the service needs a library ({_error}): pip install 'apass[http]'"
    ) from _error

# It imports stamina.
from apass.external.retry_logging import quiet_retries

__all__ = ["Body", "Connection", "Parts", "Patience", "Query", "TransientError"]

T = TypeVar("T")

PASSING: Final = frozenset({429, 502, 503, 504})
"""The statuses of answers after which a request is repeated."""

KEPT_SECONDS: Final = 20.0
"""Seconds for which an idle connection is kept; servers close theirs later."""

Query = Sequence[tuple[str, str]]
"""The parameters of a request."""


class TransientError(Exception):
    """A request failed for a moment, and may be repeated.

    Parameters:
        error: the error that is raised if it is not repeated.
        pause: the seconds after which the server wants it to be repeated.

    """

    def __init__(self, error: ServiceError, pause: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.pause = pause


class Patience:
    """The time for which a request is repeated.

    Parameters:
        seconds: how long, from now or from the last progress.

    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.note_progress()

    def note_progress(self) -> None:
        """Reset the time: some bytes were transferred."""
        self._end = anyio.current_time() + self._seconds

    def note_loss(self, start: float) -> None:
        """Reset the time if a connection from `start` until now has lasted longer."""
        if anyio.current_time() - start > self._seconds:
            self.note_progress()

    async def repeat(self, request: Callable[[], Awaitable[T]]) -> T:
        """Return the result of a request; repeat it while it raises TransientError.

        Raises:
            ServiceError: the error of the last failure, if the time is over.

        """
        quiet_retries()
        try:
            async for attempt in stamina.retry_context(self._pause, attempts=None, timeout=None, wait_jitter=0.5):
                with attempt:
                    return await request()
        except TransientError as failure:
            raise failure.error from failure.__cause__
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, error: Exception) -> bool | float:
        """Return whether to repeat a request after an error, or the seconds before."""
        if not isinstance(error, TransientError):
            return False
        pause = error.pause or 0.0
        if anyio.current_time() + pause > self._end:
            return False
        return pause + uniform(0, min(pause, 0.5)) if pause else True


class Body(httpx.AsyncByteStream):
    """The body of a request, some parts of which are files.

    Parameters:
        parts: bytes, or open files at their beginnings.
        size: the number of bytes of all parts.

    """

    # httpx makes an async generator of any other body, which a failed request does not close: trio warns of it.

    CHUNK: Final = 1 << 16

    def __init__(self, parts: Sequence["bytes | anyio.AsyncFile[bytes]"], size: int) -> None:
        self.size: Final = size
        """The number of bytes."""
        self._parts = list(parts)
        self._left = size

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes.

        Raises:
            InvalidJobError: if a file has another size than before.

        """
        while self._parts:
            part = self._parts[0]
            data = part if isinstance(part, bytes) else await part.read(self.CHUNK)
            self._left -= len(data)
            if isinstance(part, bytes) or not data:
                del self._parts[0]
            if self._left < 0:
                break
            if data:
                return data
        if self._left:
            raise InvalidJobError("the file of the model changed while it was sent; submit it again")
        raise StopAsyncIteration


class Parts(AsyncResource, Generic[T]):
    """The parts of an answer, for `async for` within `async with`.

    Parameters:
        stream: the parts.
        connection: the connection, for errors.

    """

    def __init__(self, stream: AsyncIterator[T], connection: "Connection") -> None:
        self._stream = stream
        self._connection = connection
        self._is_over = False

    async def aclose(self) -> None:
        """End the stream."""
        # The stream consists of nested async generators, and only an exception from the innermost one ends them all.
        # Otherwise the garbage collector would do it, about which trio warns.
        with anyio.CancelScope(shield=True) as scope, suppress(TransientError, StopAsyncIteration):
            scope.cancel()
            while not self._is_over:
                await anext(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Return the next part.

        Raises:
            TransientError: if the connection is lost.

        """
        try:
            return await anext(self._stream)
        except httpx.TransportError as error:
            self._is_over = True
            raise self._connection.unavailable(error) from error
        except BaseException:
            self._is_over = True
            raise


class Connection(AsyncResource):
    """Sends requests to a server. Use it with `async with`.

    The parameters and the errors are those of `Client`.
    """

    def __init__(
        self, url: str, token: str | None, timeout: float, retry_seconds: float, ssl_context: ssl.SSLContext | None
    ) -> None:
        # The values are not shown: they may contain a secret.
        for name, value, kinds in (("url", url, str), ("token", token, str | None)):
            if not isinstance(value, kinds):
                raise TypeError(f"the {name} of a client must be a str, got {type(value).__qualname__}")
        check_type("ssl_context", ssl_context, ssl.SSLContext | None)
        self.url: Final = url.rstrip("/")
        """The URL of the server."""
        self._timeout = timeout
        self._retry_seconds = retry_seconds
        path = url.removeprefix("unix:") if url.startswith("unix:") else None
        if path is None and "@" in url:
            # httpx would send a password in place of the token, and a message about the URL would show it.
            raise InputError(
                f"the URL of the server must not contain a user or a password, got one before "
                f"@{url.rpartition('@')[2]}; pass a token in place of it, and write %40 for an @ in a path"
            )
        # The name of the host is of no importance there.
        base = self.url if path is None else "http://localhost"
        try:
            parsed = httpx.URL(base)
        except httpx.InvalidURL as error:
            raise InputError(f"{url!r} is not the URL of a server: {error}") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise InputError(f"{url!r} is not the URL of a server; expected one like http://127.0.0.1:8000")
        headers = {"user-agent": f"apass/{__version__}"}
        if token is not None:
            if not (token.isascii() and token.isprintable() and token and " " not in token):
                raise InputError("the token must consist of printable ASCII characters without spaces")
            headers["authorization"] = f"Bearer {token}"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=KEPT_SECONDS)
        # Without TLS there is no certificate to check, and httpx would read those of all authorities.
        verify = parsed.scheme == "https" if ssl_context is None else ssl_context
        self._make_client: Callable[[], httpx.AsyncClient] = lambda: httpx.AsyncClient(
            base_url=parsed,
            headers=headers,
            timeout=httpx.Timeout(timeout),
            limits=limits,
            # A redirect must not lead the token to another server.
            follow_redirects=False,
            verify=verify,
            transport=None if path is None else httpx.AsyncHTTPTransport(verify=verify, uds=path, limits=limits),
        )
        self._client: httpx.AsyncClient | None = None
        self.streams: Final[set[AsyncResource]] = set()
        """The open streams of events."""

    async def __aenter__(self) -> Self:
        if self._client is not None:
            raise RuntimeError(f"the client of {self.url} is already open; create a second one")
        self._client = self._make_client()
        return self

    async def aclose(self) -> None:
        """Close the streams and the client."""
        client, self._client = self._client, None
        with anyio.CancelScope(shield=True):
            for stream in tuple(self.streams):
                await stream.aclose()
            if client is not None:
                await client.aclose()

    def patience(self) -> Patience:
        """Return the time for which a new request is repeated."""
        return Patience(self._retry_seconds)

    async def ask(
        self,
        method: str,
        path: str,
        query: Query = (),
        *,
        headers: Mapping[str, str] | None = None,
        silence: float = 0.0,
        retries: bool = True,
        body: Callable[[AsyncExitStack], Awaitable[Body]] | None = None,
    ) -> httpx.Response:
        """Send a request, and return its answer, whose status is one of success.

        Parameters:
            method: the method.
            path: the path below that of the server.
            query: the parameters.
            headers: further headers.
            silence: seconds for which the server may be silent in addition.
            retries: whether to repeat the request if the server is busy. It is repeated in any case after other
                passing errors.
            body: returns the body for each attempt, with files that the stack closes.

        Raises:
            ServiceError: if there is no answer, or the answer is an error.

        """

        async def attempt() -> httpx.Response:
            async with AsyncExitStack() as stack:
                content = None if body is None else await body(stack)
                try:
                    response = await self.open(stack, method, path, query, headers, content, silence)
                except TransientError as failure:
                    if isinstance(failure.error, QueueFullError) and not retries:
                        raise failure.error from None
                    raise
                return await self._read(response)

        return await self.patience().repeat(attempt)

    async def ask_for(self, kind: type[T], method: str, path: str, query: Query = (), **options: Any) -> T:
        """Send a request, and return the JSON in its answer as a type; see `ask`."""
        response = await self.ask(method, path, query, **options)
        try:
            return convert(response.json(), kind)
        except (ValueError, MsgspecError):
            raise self.foreign(response.text) from None

    def foreign(self, text: str) -> ServiceError:
        """Return the error for an answer that no server of apass gives."""
        start = shorten(" ".join(text.split()), 200)
        return ServiceError(f"{self.url} is no server of apass, or a newer one: it answered {start!r}")

    async def open(
        self,
        stack: AsyncExitStack,
        method: str,
        path: str,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        silence: float = 0.0,
    ) -> httpx.Response:
        """Send a request once, and return its answer, whose body is not read yet.

        The other parameters are those of `ask`.

        Parameters:
            stack: closes the answer.
            body: the body.

        Raises:
            TransientError: if the request may be repeated.
            ServiceError: if the answer is another error.

        """
        if self._client is None:
            raise RuntimeError(f"the client of {self.url} is not open; use it within `async with Client(...)`")
        timeout = httpx.Timeout(self._timeout, read=self._timeout + silence)
        params = httpx.QueryParams(tuple(query)) if query else None
        request = self._client.build_request(method, path, params=params, headers=headers, timeout=timeout)
        if body is not None:
            request.headers["content-length"] = str(body.size)
        request.stream = Body([], 0) if body is None else body
        try:
            response = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            raise self.unavailable(error) from error
        stack.push_async_callback(_close, response)
        if response.is_success:
            return response
        await self._read(response)
        failure = self._error_of(response)
        if response.status_code in PASSING:
            raise TransientError(failure, retry_after(response.headers.get("retry-after")))
        raise failure

    async def _read(self, response: httpx.Response) -> httpx.Response:
        try:
            await response.aread()
        except httpx.TransportError as error:
            raise self.unavailable(error) from error
        return response

    def events_in(self, response: httpx.Response) -> Parts[Any]:
        """Return the server-sent events of an answer."""
        return Parts(EventSource(response).aiter_sse(), self)

    def unavailable(self, error: Exception) -> TransientError:
        """Return the failure of a request without an answer."""
        kind = "does not answer" if isinstance(error, httpx.TimeoutException) else "cannot be reached"
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        failure = TransientError(ServerUnavailableError(f"the server {self.url} {kind} ({reason})"))
        failure.__cause__ = error
        return failure

    def _error_of(self, response: httpx.Response) -> ServiceError:
        """Return the error that an answer describes."""
        status = response.status_code
        # Other frameworks also answer with a `detail` in JSON.
        if response.headers.get("content-type", "").partition(";")[0].strip() == api.PROBLEM:
            with suppress(ValueError, MsgspecError):
                return _error_of_problem(convert(response.json(), api.Problem), status)
        if status in PASSING:
            return ServerUnavailableError(f"the server {self.url} is unavailable: its proxy answers {status}")
        if response.is_redirect:
            return ServiceError(f"{self.url} is another URL now: {response.headers.get('location', '')}; use that")
        start = shorten(" ".join(response.text.split()), 200)
        request = f"{response.request.method} {response.request.url.path}"
        advice = "; if the service is mounted below a path, add that to the URL of the server"
        return ServiceError(
            f"{self.url} answered {status} in place of an answer of apass: {start!r} to {request}"
            f"{advice if status == httpx.codes.NOT_FOUND else ''}"
        )


def _error_of_problem(problem: api.Problem, status: int) -> ServiceError:
    """Return the error that a problem of RFC 9457 describes."""
    if problem.failure is not UNSET:
        return JobFailedError(api.job_failure(problem.failure))
    name = problem.type.removeprefix(api.PROBLEM_TYPE)
    # For programs, a parameter of the request is a part of the job.
    name = InvalidJobError.__name__ if name == "InvalidParameterError" else name
    kind: Any = getattr(errors, name, None) if name in errors.__all__ else None
    error: ServiceError
    if status in (401, 403):
        error = AccessError(problem.detail, needs_token=status == 401)
    elif kind is QueueFullError:
        error = QueueFullError(problem.detail, 1.0 if problem.retry_after is UNSET else problem.retry_after)
    elif kind is JobsUnavailableError:
        error = JobsUnavailableError(problem.detail, is_full=status == 507)
    elif kind is None or kind is JobFailedError:
        error = ServiceError(f"{problem.title}: {problem.detail}")
    else:
        error = kind(problem.detail)
    for note in problem.notes:
        error.add_note(note)
    return error


async def _close(response: httpx.Response) -> None:
    with anyio.CancelScope(shield=True):
        await response.aclose()
