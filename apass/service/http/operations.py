"""`operation`: declares what a handler of the interface accepts and answers."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from apass.service.api import Nothing
from apass.service.http.auth import TokenScope
from apass.service.http.parameters import read_parameters
from apass.service.http.requests import require

__all__ = ["Operation", "operation", "operations_of"]

HandlerT = TypeVar("HandlerT", bound=Callable[..., Awaitable[Response]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a handler accepts and answers."""

    method: str
    """The HTTP method."""
    path: str
    """The path, in which `{id}` is the id of a job."""
    handler: Callable[..., Awaitable[Response]]
    """The method of a class of handlers, called with the request and its parameters."""
    query: type[Struct] | None
    """The parameters; None to accept any, and to ignore them."""
    scope: TokenScope | None
    """What the token must permit."""
    needs_token: bool
    """Whether there must be a token, if the server has authentication."""
    answers: Mapping[int, Sequence[type[Any] | str]]
    """The contents of each status of success: types of JSON, or content types."""
    body: Sequence[type[Struct] | str]
    """The contents of the body, in the same way."""
    headers: Sequence[str]
    """The headers that have a meaning."""

    async def handle(self, owner: object, request: Request) -> Response:
        """Handle a request.

        Raises:
            ForbiddenError: if the token has not the scope.
            InvalidParameterError: if a parameter is unknown or invalid.

        """
        if self.scope is not None:
            require(request, self.scope)
        query = Nothing() if self.query is None else read_parameters(request.query_params.multi_items(), self.query)
        return await self.handler(owner, request, query)


def operation(
    method: str,
    path: str,
    *answers: type[Any] | str,
    query: type[Struct] | None = Nothing,
    scope: TokenScope | None = TokenScope.READ,
    needs_token: bool = True,
    more: Mapping[int, Sequence[type[Any] | str]] | None = None,
    body: Sequence[type[Struct] | str] = (),
    headers: Sequence[str] = (),
) -> Callable[[HandlerT], HandlerT]:
    """Declare the operation of a handler.

    Parameters:
        method: the HTTP method.
        path: the path.
        *answers: the contents of the status 200.
        query: see `Operation`.
        scope: see `Operation`.
        needs_token: see `Operation`.
        more: the contents of further statuses.
        body: see `Operation`.
        headers: see `Operation`.

    """

    def declare(handler: HandlerT) -> HandlerT:
        handler.__dict__["operation"] = Operation(
            method=method,
            path=path,
            handler=handler,
            query=query,
            scope=scope,
            needs_token=needs_token,
            answers={200: answers, **(more or {})},
            body=body,
            headers=headers,
        )
        return handler

    return declare


def operations_of(owner: object) -> Iterator[tuple[Operation, Callable[[Request], Awaitable[Response]]]]:
    """Iterate over the operations of an object or a class, each with the function that handles its requests."""
    for item in vars(owner if isinstance(owner, type) else type(owner)).values():
        declared = getattr(item, "operation", None)
        if isinstance(declared, Operation):
            yield declared, partial(declared.handle, owner)
