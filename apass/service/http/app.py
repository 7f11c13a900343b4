"""`create_app`: the ASGI application of an `Optimizer`."""

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from apass.service.errors import ServiceError
from apass.service.http.access_log import AccessLog
from apass.service.http.auth import Authenticator
from apass.service.http.openapi import HANDLERS
from apass.service.http.operations import Handler, operations_of
from apass.service.http.page import page_routes
from apass.service.http.problems import problem_of_bug, problem_of_error, problem_of_http
from apass.service.http.requests import Service
from apass.service.http.security import Guard
from apass.service.optimizer import Optimizer
from apass.util.checks import check_methods, check_type, is_seconds

__all__ = ["create_app"]


def create_app(
    optimizer: Optimizer,
    *,
    auth: Authenticator | None = None,
    page: bool = True,
    allow_remote: bool = False,
    hosts: Collection[str] = (),
    behind_proxy: bool = False,
    body_seconds: float = 60.0,
    max_wait: float = 60.0,
    heartbeat: float = 15.0,
    upload_folder: Path | None = None,
) -> ASGIApp:
    """Return an ASGI application that serves an optimizer over HTTP.

    It is mounted into another application, or served by itself with uvicorn (asyncio) or hypercorn (asyncio, trio). If
    the server has a lifespan, and the optimizer is not open, the application opens it for as long as it is served. An
    application that mounts it opens the optimizer in its own lifespan.

    Parameters:
        optimizer: the optimizer.
        auth: identifies the senders of requests, such as `Tokens`. None accepts all requests of this machine.
        page: whether there is a live page.
        allow_remote: whether requests of other machines are accepted without authentication.
        hosts: the names of the server in the header `Host`. Empty accepts all, but without authentication only those
            of this machine.
        behind_proxy: whether to trust the headers `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix` of the peer.
        body_seconds: seconds that the body of a request has, besides one second for each 100,000 bytes.
        max_wait: the longest time in seconds for which a request waits for a job.
        heartbeat: seconds between two signs of life of a stream of events.
        upload_folder: where large bodies are written; by default a folder that the next optimizer removes if the
            process is killed.

    Raises:
        TypeError: if a value has another type.
        ValueError: if a number of seconds is not positive.
        MissingExtraError: if a library is not installed.

    """
    check_type("optimizer", optimizer, Optimizer)
    if auth is not None:
        check_methods("value of auth", auth, "an Authenticator", "identify")
    for name, flag in (("page", page), ("allow_remote", allow_remote), ("behind_proxy", behind_proxy)):
        check_type(f"value of {name}", flag, bool)
    if isinstance(hosts, str):
        raise TypeError(f"hosts must be a list of names, got {hosts!r}; write [{hosts!r}]")
    check_type("hosts", hosts, Collection)
    check_type("upload_folder", upload_folder, Path | None)
    for name, value in (("body_seconds", body_seconds), ("max_wait", max_wait), ("heartbeat", heartbeat)):
        if not is_seconds(value):
            raise ValueError(f"{name} must be a positive number of seconds, got {value!r}")
    service = Service(optimizer, body_seconds, max_wait, heartbeat, upload_folder)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with nullcontext() if optimizer.is_open else optimizer:
            yield

    handlers: dict[str, dict[str, Handler]] = {}
    for kind in HANDLERS:
        owner = kind(service)
        for declared, method in operations_of(kind):
            handlers.setdefault(declared.path, {})[declared.method] = partial(declared.handle, method, owner)
    app = Starlette(
        # One route for all methods of a path: a 405 answer lists them.
        routes=[
            *(Route(path, _Endpoint(methods), methods=list(methods)) for path, methods in handlers.items()),
            *(page_routes() if page else ()),
        ],
        lifespan=lifespan,
        exception_handlers={
            ServiceError: problem_of_error,
            HTTPException: problem_of_http,
            Exception: problem_of_bug,
        },
    )
    # A redirect would contain the header `Host`, which may be forged.
    app.router.redirect_slashes = False
    return AccessLog(Guard(app, auth=auth, allow_remote=allow_remote, hosts=hosts, behind_proxy=behind_proxy))


class _Endpoint:
    """An ASGI application that calls the handler of a method."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        request = Request(scope, receive, send)
        method = "GET" if request.method == "HEAD" else request.method
        try:
            response = await self._handlers[method](request)
        except ClientDisconnect:
            return  # nothing can be sent
        await response(scope, receive, send)
