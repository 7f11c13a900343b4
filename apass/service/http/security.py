"""`Guard`: admits requests to the service, and adds headers to all answers."""

import re
from collections.abc import Collection, Mapping, MutableMapping
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import anyio
from anyio.lowlevel import checkpoint
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apass.concurrency.limits import Slots
from apass.service.errors import ServiceError
from apass.service.http.auth import LOCAL, Authenticator, Identity
from apass.service.http.problems import BadRequestError, ForbiddenError, UnauthorizedError, problem_of

__all__ = ["IDENTITY", "PUBLIC", "REPORT_POLICY", "SENDER", "Guard"]

IDENTITY: Final = "apass.identity"
"""The key of the `Identity` in the scope of a request."""

BEGINNING: Final = 8
"""Requests that begin in one iteration of the event loop. To accept a job takes about half a millisecond."""

SENDER: Final = "apass.sender"
"""The key of a mapping in the scope, to which the address and the tenant of the sender are added, for the log."""

PUBLIC: Final = frozenset({"/healthz", "/readyz"})
"""The paths that need no token, and answer to every address and host: their clients are probes."""

OPEN: Final = frozenset({"/", "/v1/openapi.json"})
"""The paths that need no token, besides `/assets/`: their contents are the same for everybody."""

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""The methods that change nothing."""

POLICY: Final = "default-src 'none'; frame-ancestors 'none'"
"""The `Content-Security-Policy` of data."""

REPORT_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-ancestors 'self'"
)
"""The policy of a report. Its scripts have an origin of their own, and cannot use the service."""

HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "content-security-policy": POLICY,
    "cache-control": "no-store",
}
"""The headers of all answers, unless an answer has another value. An empty value removes the header."""

LINGER_SECONDS: Final = 2.0
"""Seconds for which the rest of a body is read that no handler has read.

If a connection is closed with unread data, the system discards the answer, and the client sees a reset only.
"""

_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::\d{1,5})?")
_CHALLENGE: Final = 'Bearer realm="apass"'


class Guard:
    """An ASGI middleware for the security of the service.

    - It refuses requests of other machines if there is no authentication, and those that another web site has caused.
    - It finds the identity of the sender, and stores it in the scope.
    - It adds headers to all answers.
    - It closes the connection in an orderly way if the body of a request was not read.
    - It begins few requests in each iteration of the event loop, so that many at once do not block it.

    The parameters are those of `create_app`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: Authenticator | None,
        allow_remote: bool,
        hosts: Collection[str],
        behind_proxy: bool,
    ) -> None:
        self._app = app
        self._auth = auth
        self._is_local = auth is None and not allow_remote
        self._hosts = frozenset(host.lower() for host in hosts)
        self._behind_proxy = behind_proxy
        self._begins = Slots(BEGINNING)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        async with self._begins.here():
            # A slot is free again in the next iteration.
            await checkpoint()
        scope = dict(scope)
        # Repeated headers are joined.
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        _normalize_path(scope)
        exchange = _Exchange(scope, headers, receive, send)
        if self._behind_proxy:
            _apply_proxy(scope, headers)
        sender: MutableMapping[str, Any] = scope.get(SENDER, {})
        sender["client"] = _client(scope)
        try:
            identity = scope[IDENTITY] = await self._admit(scope, headers)
            sender["tenant"] = None if identity is None else identity.tenant
        except ServiceError as error:
            await problem_of(error)(scope, exchange.receive, exchange.send)
            return
        await self._app(scope, exchange.receive, exchange.send)

    async def _admit(self, scope: Scope, headers: Mapping[str, str]) -> Identity | None:
        """Return the identity of a request; None for a public path.

        Raises:
            BadRequestError: if the end of the request is ambiguous.
            ForbiddenError: if the address, the host or the origin is not allowed.
            UnauthorizedError: if there is no valid token.

        """
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy and this server may take different bytes for the next request (RFC 9112, section 6.1).
            raise BadRequestError(
                "the request has Content-Length and Transfer-Encoding, so that its end is ambiguous; send one of them"
            )
        path = _path_below(scope)
        if path in PUBLIC:
            return None
        if self._is_local and not _is_local_client(scope):
            raise ForbiddenError(
                f"the server has no authentication, so that only this machine may use it, and not {_client(scope)}; "
                "start it with tokens (--token-file of `apass serve`), or with allow_remote=True of create_app in a "
                "network that you trust"
            )
        host = headers.get("host", "")
        if (self._is_local or self._hosts) and not self._is_known_host(host):
            raise ForbiddenError(
                f"the host {host!r} is not a name of this server, so that another web site may be behind the request; "
                "add it with --host-name of `apass serve`, or hosts=[...] of create_app"
            )
        # A token is sent on purpose. Anything else, such as an address or a cookie, a browser also sends for others.
        if "authorization" not in headers and scope["method"] not in SAFE and _is_foreign(headers, host):
            raise ForbiddenError("the request comes from another web site; send it from the server's own pages")
        if path in OPEN or path.startswith("/assets/"):
            return None
        if self._auth is None:
            return LOCAL
        identity = await self._auth.identify(headers)
        if identity is not None:
            return identity
        if "authorization" in headers:
            raise UnauthorizedError("the token is not valid", f'{_CHALLENGE}, error="invalid_token"')
        raise UnauthorizedError("there is no token; send the header Authorization: Bearer TOKEN", _CHALLENGE)

    def _is_known_host(self, host: str) -> bool:
        # Without the port; a malformed host has no name.
        match = _HOST.fullmatch(host.lower())
        name = "" if match is None else match["address"] or match["name"]
        is_own = name == "localhost" or name.endswith(".localhost") or _is_loopback(name)
        return name in self._hosts or host.lower() in self._hosts or (self._is_local and is_own)


class _Exchange:
    """The two channels of one request, with what `Guard` adds."""

    def __init__(self, scope: Scope, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        self._is_http_1 = str(scope.get("http_version", "1.1")).startswith("1")
        self._receive = receive
        self._send = send
        length = headers.get("content-length", "0")
        self._has_unread_body = "transfer-encoding" in headers or length not in ("", "0")
        # The client sends no body unless it gets the interim answer, which the first `receive` sends.
        self._is_waiting = headers.get("expect", "").lower() == "100-continue"

    async def receive(self) -> Message:
        """Return the next part of the request."""
        self._is_waiting = False
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._has_unread_body = False
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.start":
            message = {**message, "headers": self._with_headers(message.get("headers", ()))}
        elif message["type"] == "http.response.body" and not message.get("more_body", False) and self._has_unread_body:
            # The answer is complete for the client, but not for the server, which keeps the connection.
            await self._send({**message, "more_body": True})
            if not self._is_waiting:
                with anyio.move_on_after(LINGER_SECONDS):
                    while self._has_unread_body:
                        await self.receive()
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    def _with_headers(self, headers: Any) -> list[tuple[bytes, bytes]]:
        result = [(bytes(name).lower(), bytes(value)) for name, value in headers]
        present = {name for name, _ in result}
        result += [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in present]
        if self._has_unread_body and self._is_http_1:
            result.append((b"connection", b"close"))
        return [(name, value) for name, value in result if value]


def _normalize_path(scope: MutableMapping[str, Any]) -> None:
    """Remove a slash at the end of the path, and find the mount path."""
    path, root, raw = str(scope["path"]), str(scope.get("root_path", "")), scope.get("raw_path") or b""
    below = _path_below(scope)
    if below != "/" and below.endswith("/"):
        path = path.removesuffix("/")
        scope["path"] = path
    # Litestar adds a slash, and removes the mount path without a trace in `root_path`.
    whole = unquote(raw.decode("latin-1"))
    whole = whole if path == "/" else whole.removesuffix("/")
    if not root and whole != path and whole.endswith(path):
        scope["root_path"] = whole.removesuffix(path)
        scope["path"] = whole


def _apply_proxy(scope: MutableMapping[str, Any], headers: MutableMapping[str, str]) -> None:
    """Change the scope of a request to what the proxy has received."""
    # The proxy appends the address of its peer. What is before may be made up by the client.
    forwarded = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    # Without the header, the address of the client is unknown. That of the proxy would make it a local one.
    scope["client"] = (forwarded, 0) if forwarded else None
    scope["server"] = None
    scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip().lower()
    if scheme in ("http", "https"):
        scope["scheme"] = scheme
    prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
    if _PREFIX.fullmatch(prefix) and ".." not in prefix:
        scope["root_path"] = prefix + scope.get("root_path", "")
        scope["path"] = prefix + scope["path"]
    host = headers.get("x-forwarded-host", "").rpartition(",")[2].strip()
    if host:
        headers["host"] = host


def _path_below(scope: Scope) -> str:
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return "an unknown address" if client is None else str(client[0])


def _is_local_client(scope: Scope) -> bool:
    client, server = scope.get("client"), scope.get("server")
    if client is None:
        # The permissions of a Unix socket decide which programs may connect.
        return server is not None and server[1] is None
    return _is_loopback(str(client[0]))


@lru_cache(maxsize=1000)
def _is_loopback(text: str) -> bool:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback if mapped is None else bool(mapped.is_loopback)


def _is_foreign(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a page of another origin has caused a request."""
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
        return True
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc.lower() != host.lower()
    except ValueError:
        return True
