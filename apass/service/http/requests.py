"""Parts of requests that several handlers use."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive

from apass.service import api
from apass.service.errors import OptimizerClosedError
from apass.service.http.auth import Identity, TokenScope
from apass.service.http.problems import ForbiddenError
from apass.service.http.security import IDENTITY
from apass.service.optimizer import Optimizer

__all__ = [
    "Service",
    "check_readable",
    "identity_of",
    "json_response",
    "require",
    "root_of",
    "wait_for",
    "watch_client",
]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Service:
    """What the handlers share."""

    optimizer: Optimizer
    """The optimizer."""
    body_seconds: float
    """Seconds that the body of a request has; see `BodyReader`."""
    max_wait: float
    """The longest time in seconds for which a request waits for a job."""
    heartbeat: float
    """Seconds between two signs of life of a stream of events."""
    upload_folder: Path | None
    """The folder for temporary files; None for that of the optimizer."""

    @property
    def folder(self) -> Path:
        """The folder for temporary files, while the optimizer is open."""
        return self.upload_folder or self.optimizer.folder


def identity_of(request: Request) -> Identity:
    """Return the identity of the sender of a request."""
    identity: Identity = request.scope[IDENTITY]
    return identity


def require(request: Request, scope: TokenScope) -> Identity:
    """Return the identity of the sender.

    Raises:
        ForbiddenError: if the token has not the scope.

    """
    identity = identity_of(request)
    if not identity.permits(scope):
        raise ForbiddenError(
            f"the token has the scopes {', '.join(sorted(identity.scopes))}; this request needs {scope}"
        )
    return identity


def check_readable(optimizer: Optimizer) -> None:
    """Raise OptimizerClosedError unless the optimizer is open; it may drain."""
    if not optimizer.is_open:
        raise OptimizerClosedError(
            "the optimizer is not open. A mounted application has no lifespan: the application that mounts "
            "create_app(optimizer) must write `async with optimizer:` in its own lifespan"
        )
    optimizer.check_active()


def root_of(request: Request) -> str:
    """Return the path below which the application is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with a value as JSON."""
    return Response(api.encode_json(value), status, headers, "application/json")


async def watch_client(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def wait_for(
    request: Request, optimizer: Optimizer, wait: Callable[[], Awaitable[R]], seconds: float
) -> R | None:
    """Wait for a value; return None if it takes longer, or the optimizer ends.

    Raises:
        ClientDisconnect: if the client has left.

    """
    result: R | None = None
    error: Exception | None = None
    has_left = False

    async def leave() -> None:
        nonlocal has_left
        await watch_client(request.receive)
        has_left = True
        group.cancel_scope.cancel()

    async def end() -> None:
        await optimizer.wait_drained()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(leave)
        group.start_soon(end)
        with anyio.move_on_after(seconds):
            try:
                result = await wait()
            except Exception as raised:
                # The task group would wrap it in an exception group.
                error = raised
        group.cancel_scope.cancel()
    if error is not None:
        raise error
    if has_left and result is None:
        raise ClientDisconnect
    return result
