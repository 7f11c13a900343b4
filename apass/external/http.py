"""`HttpService`: posts requests over pooled HTTP connections. For `apass[http]`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from apass.errors import HelperError, MissingExtraError
from apass.external.policy import Policy, RetryOn
from apass.external.service import AnswerT, RequestT, Service
from apass.util.retry_after import retry_after

try:
    import httpx
except ImportError as _error:
    raise MissingExtraError(f"HTTP helpers need httpx ({_error}): pip install 'apass[http]'") from _error

__all__ = ["HttpService"]

PASSING_STATUSES = {408, 425, 429, *range(500, 600)}
"""Statuses of transient errors, which do not depend on the request."""


class HttpService(Service[RequestT, AnswerT]):
    """A service that posts a request as JSON and receives an answer as JSON.

    Call `await service.ask(request)` within `async with`, which keeps the connections open. The policy retries
    transient errors:

    - transport errors
    - invalid answers
    - the statuses 408, 425, 429 and 5xx

    A `Retry-After` header of the server overrides the policy's backoff.

    Parameters:
        url: the address to post to.
        policy: the limits (see `Policy`).
        encode: converts a request to a value for JSON. The default is the request itself.
        decode: converts the received JSON value to the answer. An exception from it means that the answer is invalid.
            The default is the JSON value itself.
        headers: additional headers for each request.
        client: a client with its own authentication, proxies and timeouts. The caller closes it.
        types: dataclasses and enums that `decode` returns, for recorded answers (see `AnswerRecorder`).

    Raises (from `ask`):
        HelperError: if the answer is not JSON, or `decode` raises.
        httpx.HTTPStatusError: if the status is not 2xx.
        httpx.TransportError: if there is no connection, or it broke.

    """

    def __init__(
        self,
        url: str,
        policy: Policy | None = None,
        *,
        encode: Callable[[RequestT], object] | None = None,
        decode: Callable[[Any], AnswerT] | None = None,
        headers: Mapping[str, str] | None = None,
        client: httpx.AsyncClient | None = None,
        types: Iterable[type] = (),
    ) -> None:
        super().__init__(self._post, policy, name=url, types=types)
        self._url = url
        self._encode = encode
        self._decode = decode
        self._headers = headers
        self._is_own = client is None
        self._client = client

    async def __aenter__(self) -> Self:
        if self._is_own and self._client is not None:
            raise RuntimeError(f"the service {self.name} is already open; create a second service")
        if self._client is None:
            max_idle = self.policy.concurrency or 100
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=max_idle)
            # Without TLS there is no certificate to check, and httpx would read those of all authorities.
            verify = httpx.URL(self._url).scheme == "https"
            # The policy has its own timeout.
            self._client = httpx.AsyncClient(timeout=None, limits=limits, verify=verify)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_own and self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def passing_errors(self) -> RetryOn:
        """Return the function that classifies transient errors."""
        return _seconds_to_retry

    async def _post(self, value: RequestT) -> AnswerT:
        if self._client is None:
            raise RuntimeError(f"the service {self.name} is not open; call ask within `async with service:`")
        content = value if self._encode is None else self._encode(value)
        request = self._client.build_request("POST", self._url, json=content, headers=self._headers)
        request.stream = _Body(request.content)
        response = await self._client.send(request)
        response.raise_for_status()
        try:
            answer: Any = response.json()
            return answer if self._decode is None else self._decode(answer)
        except Exception as error:
            message = f"{self.name} returned an invalid answer, {response.text[:200]!r}"
            raise HelperError(f"{message} ({type(error).__name__}: {error})") from error


class _Body(httpx.AsyncByteStream):
    """The content of a request.

    httpx's own stream is an async generator, which a cancelled request does not close.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _SingleItemIterator(self._content)


class _SingleItemIterator(AsyncIterator[bytes]):
    """An iterator over one item."""

    def __init__(self, item: bytes) -> None:
        self._left = [item]

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


def _seconds_to_retry(error: Exception) -> bool | float:
    if isinstance(error, httpx.HTTPStatusError):
        is_passing = error.response.status_code in PASSING_STATUSES
        pause = retry_after(error.response.headers.get("Retry-After"))
        return is_passing and (True if pause is None else pause)
    return isinstance(error, OSError | HelperError | httpx.TransportError)
