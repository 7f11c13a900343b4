"""Records of jobs for tests of what keeps them."""

from dataclasses import replace
from typing import Any

from apass.service import JobOptions, JobRecord
from apass.service.live_job import LiveJob

__all__ = ["live_job", "record"]


def record() -> JobRecord:
    return JobRecord(
        id="1",
        tenant="",
        name="m",
        kind=".onnx",
        result_kind=".onnx",
        pipeline="",
        options=JobOptions(),
        priority=0,
        deadline=None,
        key="",
        model_digest="",
        model_size=0,
        created=0.0,
    )


def live_job(limit: int = 1000, **changes: Any) -> LiveJob:
    """Return a job whose record has these changes."""
    return LiveJob(replace(record(), **changes), limit, lambda job, event: None)
