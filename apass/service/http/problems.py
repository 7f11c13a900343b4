"""Errors as `application/problem+json` (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Final

from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from apass.service import api
from apass.service.errors import (
    JobFailedError,
    JobsUnavailableError,
    OptimizerClosedError,
    QueueFullError,
    ServiceError,
)

__all__ = [
    "BadRequestError",
    "ForbiddenError",
    "InvalidParameterError",
    "SlowRequestError",
    "UnauthorizedError",
    "UnsupportedMediaTypeError",
    "problem_of",
    "problem_of_bug",
    "problem_of_error",
    "problem_of_http",
]

PAUSES: Final = {503: 5.0, 507: 60.0}
"""The seconds of `Retry-After` for errors that have none of their own, by status."""


class BadRequestError(ServiceError):
    """The request cannot be parsed."""

    status = 400
    title = "the request is malformed"


class UnauthorizedError(ServiceError):
    """The request has no valid token."""

    status = 401
    title = "a valid token is needed"

    def __init__(self, message: str, challenge: str) -> None:
        super().__init__(message)
        self.challenge = challenge
        """The value of `WWW-Authenticate`."""


class ForbiddenError(ServiceError):
    """The request is not allowed."""

    status = 403
    title = "the request is not allowed"


class SlowRequestError(ServiceError):
    """The body of the request did not arrive in time."""

    status = 408
    title = "the request took too long"


class UnsupportedMediaTypeError(ServiceError):
    """The body has a content type or an encoding that the path does not accept."""

    status = 415
    title = "the content type is not supported"


class InvalidParameterError(ServiceError, ValueError):
    """A parameter is unknown, or has an invalid value."""

    status = 422
    title = "a parameter is invalid"


def problem_of(error: ServiceError, status: int | None = None, job: str | UnsetType = UNSET) -> Response:
    """Return the answer for an error of the service.

    Parameters:
        error: the error.
        status: the HTTP status; by default that of the class.
        job: the id of the job that the request is about.

    """
    headers: dict[str, str] = {}
    pause = _pause(error)
    if pause is not None:
        headers["retry-after"] = str(ceil(pause))
    if isinstance(error, UnauthorizedError):
        headers["www-authenticate"] = error.challenge
    failure = error.failure if isinstance(error, JobFailedError) else None
    problem = api.Problem(
        type=f"{api.PROBLEM_TYPE}{type(error).__name__}",
        title=error.title,
        status=_status(error) if status is None else status,
        detail=str(error),
        # The notes of a failure are a part of it.
        notes=() if failure is not None else tuple(map(str, getattr(error, "__notes__", ()))),
        failure=UNSET if failure is None else api.failure_of(failure),
        job=job,
        retry_after=UNSET if pause is None else pause,
    )
    return _response(problem, headers)


async def problem_of_error(request: Request, error: Exception) -> Response:
    """Return the answer for an error of the service that a handler has raised."""
    assert isinstance(error, ServiceError), "the handler is registered for these errors"
    return problem_of(error, job=request.path_params.get("id", UNSET))


async def problem_of_http(request: Request, error: Exception) -> Response:
    """Return the answer for an error of HTTP itself, such as an unknown path."""
    assert isinstance(error, HTTPException), "the handler is registered for these errors"
    phrase = HTTPStatus(error.status_code).phrase
    title, detail = phrase.lower(), error.detail
    if error.status_code == 404 and detail == phrase:
        root = str(request.scope.get("root_path", "")).rstrip("/")
        detail = (
            f"there is no path {request.url.path!r}; those of the service begin with {root}/v1/, "
            f"and GET {root}/v1/openapi.json describes all"
        )
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        detail = f"the path {request.url.path!r} has no method {request.method}; it has {allowed}"
    job = request.path_params.get("id", UNSET)
    problem = api.Problem(type="about:blank", title=title, status=error.status_code, detail=detail, job=job)
    return _response(problem, error.headers or {})


async def problem_of_bug(request: Request, error: Exception) -> Response:
    """Return the answer for an unexpected error, which the server logs."""
    detail = "the server has a bug; its log has the traceback"
    return _response(api.Problem(type="about:blank", title="internal server error", status=500, detail=detail), {})


def _status(error: ServiceError) -> int:
    # A full disk is the one condition that a client cannot wait for.
    return 507 if isinstance(error, JobsUnavailableError) and error.is_full else error.status


def _pause(error: ServiceError) -> float | None:
    if isinstance(error, QueueFullError):
        return error.retry_after
    return PAUSES[_status(error)] if isinstance(error, JobsUnavailableError | OptimizerClosedError) else None


def _response(problem: api.Problem, headers: Mapping[str, str]) -> Response:
    return Response(api.encode_json(problem), problem.status, headers, api.PROBLEM)
