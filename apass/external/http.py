"""`HttpService`: a helper that answers over HTTP, with pooled connections. Needs `pip install apass[http]`."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Self

from apass.errors import HelperError, MissingExtraError
from apass.external.policy import Policy, RetryOn
from apass.external.service import AnswerT, QuestionT, Service

try:
    import httpx
except ImportError as error:
    raise MissingExtraError(f"HTTP helpers need httpx ({error}): pip install apass[http]") from error

__all__ = ["HttpService"]

PASSING_STATUSES = {408, 425, 429, *range(500, 600)}
"""What a server says that is in trouble, and not what it says of a bad question."""


class HttpService(Service[QuestionT, AnswerT]):
    """A helper to which a question is posted as JSON, and which answers in JSON; `await service.ask(question)`.

    Use it within `async with`, where it keeps its connections open. Errors that pass by themselves, and are retried as
    the policy says, are those of the transport, an answer that is none, and the statuses 408, 425, 429 and 5xx. A
    `Retry-After` of the server's goes before the policy's own back-off.

    Parameters:
        url: where to post.
        policy: how to ask (see `Policy`).
        encode: makes of a question what is sent as JSON; by default the question itself.
        decode: makes the answer of the JSON that came; what it raises means that the server answered what is no answer.
            By default the JSON itself.
        headers: more headers, for each request.
        client: a client of your own, with its authentication, proxies and timeouts; you close it.

    Raises (from `ask`):
        HelperError: if the answer is no JSON, or `decode` does not take it.
        httpx.HTTPStatusError: if the status is not 2xx.
        httpx.TransportError: if there is no connection, or it broke.

    """

    def __init__(
        self,
        url: str,
        policy: Policy | None = None,
        *,
        encode: Callable[[QuestionT], object] | None = None,
        decode: Callable[[Any], AnswerT] | None = None,
        headers: Mapping[str, str] | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> None:
        super().__init__(self._post, policy, name=url)
        self._url = url
        self._encode = encode
        self._decode = decode
        self._headers = headers
        self._is_own = client is None
        self._client = client

    async def __aenter__(self) -> Self:
        if self._is_own and self._client is not None:
            raise RuntimeError(f"the service {self.name} is open already; use one service for each `async with`")
        if self._client is None:
            kept = self.policy.concurrency or 100
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=kept)
            # The policy says how long to wait.
            self._client = httpx.AsyncClient(timeout=None, limits=limits)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_own and self._client is not None:
            client, self._client = self._client, None
            await client.aclose()

    def passing_errors(self) -> RetryOn:
        """Return what tells which errors pass by themselves, and when."""
        return _seconds_to_retry

    async def _post(self, question: QuestionT) -> AnswerT:
        if self._client is None:
            raise RuntimeError(f"the service {self.name} is not open; ask it within `async with service:`")
        content = question if self._encode is None else self._encode(question)
        request = self._client.build_request("POST", self._url, json=content, headers=self._headers)
        request.stream = _Body(request.content)
        response = await self._client.send(request)
        response.raise_for_status()
        try:
            answer: Any = response.json()
            return answer if self._decode is None else self._decode(answer)
        except Exception as error:
            what = f"{self.name} answered what is no answer, {response.text[:200]!r}"
            raise HelperError(f"{what} ({type(error).__name__}: {error})") from error


class _Body(httpx.AsyncByteStream):
    """The content of a request. httpx's own is an async generator, which a cancelled request leaves open."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._content)


class _Once(AsyncIterator[bytes]):
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
        return is_passing and _retry_after(error.response.headers.get("Retry-After"))
    return isinstance(error, OSError | HelperError | httpx.TransportError)


def _retry_after(header: str | None) -> bool | float:
    """Return the seconds that a server asks to wait for, True if it does not say."""
    if header is None:
        return True
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        wait = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return True
    return max(0.0, wait)
