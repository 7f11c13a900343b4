"""The errors of the service."""

import pickle

import pytest

from apass.service import JobFailedError, JobFailure, JobsUnavailableError, QueueFullError
from apass.service.errors import AccessError, ServiceError

FAILURE = JobFailure("ValueError", "no", ("in pass 'A'", "again"), "A", "f", ({"level": "error", "message": "bad"},))


@pytest.mark.parametrize(
    "error",
    [
        JobFailedError(FAILURE),
        QueueFullError("full", 2.5),
        JobsUnavailableError("full", is_full=True),
        AccessError("who?", needs_token=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_survives_pickling(error: ServiceError) -> None:
    error.add_note("further")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
