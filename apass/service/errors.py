"""The errors of the service. Each has the HTTP status that a server answers with."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from apass.errors import ApassError
from apass.service.jobs import JobFailure

__all__ = [
    "AccessError",
    "IdempotencyError",
    "InvalidJobError",
    "JobCancelledError",
    "JobFailedError",
    "JobsUnavailableError",
    "ModelTooLargeError",
    "NoResultError",
    "OptimizerClosedError",
    "QueueFullError",
    "ServerUnavailableError",
    "ServiceError",
    "StoreTakenError",
    "UnknownJobError",
]


class ServiceError(ApassError):
    """Base class of the errors of the service."""

    status: ClassVar[int] = 500
    """The HTTP status."""
    title: ClassVar[str] = "the service failed"
    """What all errors of the class have in common."""


class InvalidJobError(ServiceError, ValueError):
    """A job is invalid.

    It names an unknown or forbidden pipeline, an unknown kind of model, or an invalid option.
    """

    status = 422
    title = "the job is invalid"


class ModelTooLargeError(ServiceError, ValueError):
    """The model has more bytes than `Limits.model_bytes`."""

    status = 413
    title = "the model is too large"


class IdempotencyError(ServiceError, ValueError):
    """The idempotency key was used before for another job."""

    status = 422
    title = "the idempotency key belongs to another job"


class UnknownJobError(ServiceError, LookupError):
    """The tenant has no job with this id, or the job has expired."""

    status = 404
    title = "there is no such job"


class NoResultError(ServiceError, LookupError):
    """The job has no result or no report.

    It has not ended, has failed, or was submitted without a report.
    """

    status = 409
    title = "the job has no such result"


class QueueFullError(ServiceError):
    """A limit of the queue, of the tenant, or of the rate is reached.

    Parameters:
        message: which limit it is.
        retry_after: seconds after which another attempt is worthwhile.

    """

    status = 429
    title = "there are too many jobs"

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which another attempt is worthwhile."""


class OptimizerClosedError(ServiceError, RuntimeError):
    """The optimizer accepts no jobs.

    It has not been entered, is open in another event loop, or ends.
    """

    status = 503
    title = "the service accepts no jobs"


class JobsUnavailableError(ServiceError, OSError):
    """The store of the jobs cannot be read or written.

    Parameters:
        message: what happened.
        is_full: whether the disk is full.

    """

    status = 503
    title = "the store of the jobs is unavailable"

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full
        """Whether the disk is full."""


class StoreTakenError(JobsUnavailableError):
    """Another server uses the store of the jobs, or has taken it over."""

    title = "another server uses the store of the jobs"


class JobFailedError(ServiceError):
    """A job has failed.

    Parameters:
        failure: the error of the pass, which may be of another process.

    """

    status = 422
    title = "the job failed"

    def __init__(self, failure: JobFailure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure
        """The error."""
        for note in failure.notes:
            self.add_note(note)

    def __reduce__(self) -> tuple[type[Self], tuple[JobFailure], Mapping[str, Any]]:
        # It may be raised in a worker, and the text is not an argument.
        return type(self), (self.failure,), self.__dict__


class JobCancelledError(ServiceError):
    """A job was cancelled before it ended."""

    status = 409
    title = "the job was cancelled"


class AccessError(ServiceError, PermissionError):
    """A server has rejected a token, or a request that the token does not permit.

    Parameters:
        message: what was rejected.
        needs_token: whether the server knows no such token, or there was none.

    """

    status = 403
    title = "the request is not allowed"

    def __init__(self, message: str, *, needs_token: bool = False) -> None:
        super().__init__(message)
        self.needs_token = needs_token
        """Whether the server knows no such token, or there was none."""


class ServerUnavailableError(ServiceError, ConnectionError):
    """A client cannot reach its server, or the server does not answer in time."""

    status = 503
    title = "the server is unavailable"
