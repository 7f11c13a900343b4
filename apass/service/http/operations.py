"""`Operation`: declares what a handler of the interface accepts and answers."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from apass.service.api import Nothing
from apass.service.http.auth import TokenScope
from apass.service.http.parameters import read_parameters
from apass.service.http.requests import Service, require

__all__ = ["Contents", "Handler", "Handlers", "Operation", "operations_of"]

Handler = Callable[[Request], Awaitable[Response]]

MethodT = TypeVar("MethodT", bound=Callable[..., Awaitable[Response]])

Contents = Sequence[type[Any] | str]
"""What a body may be: types, as JSON, or content types."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What a handler accepts and answers; a decorator of its method.

    The method is called with the request and its parameters.
    """

    method: str
    """The HTTP method."""
    path: str
    """The path, in which `{id}` is the id of a job."""
    answer: Contents
    """The contents of the status 200."""
    query: type[Struct] | None = Nothing
    """The parameters; None to ignore them."""
    scope: TokenScope | None = TokenScope.READ
    """What the token must permit."""
    needs_token: bool = True
    """Whether there must be a token, if the server has authentication."""
    more: Mapping[int, Contents] = field(default_factory=dict[int, Contents])
    """The contents of further statuses."""
    body: Contents = ()
    """The contents of the body."""
    headers: Sequence[str] = ()
    """The headers that have a meaning."""

    def __call__(self, method: MethodT) -> MethodT:
        """Declare the operation of a method."""
        method.__dict__["operation"] = self
        return method

    async def handle(self, method: Callable[..., Awaitable[Response]], owner: object, request: Request) -> Response:
        """Handle a request.

        Raises:
            ForbiddenError: if the token has not the scope.
            InvalidParameterError: if a parameter is unknown or invalid.

        """
        if self.scope is not None:
            require(request, self.scope)
        query = Nothing() if self.query is None else read_parameters(request.query_params.multi_items(), self.query)
        return await method(owner, request, query)


class Handlers:
    """Handles requests; the methods are declared by `Operation`.

    Parameters:
        service: the service.

    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._optimizer = service.optimizer


def operations_of(kind: type[Handlers]) -> Iterator[tuple[Operation, Any]]:
    """Iterate over the operations of a class, with their methods."""
    for item in vars(kind).values():
        declared = getattr(item, "operation", None)
        if isinstance(declared, Operation):
            yield declared, item
