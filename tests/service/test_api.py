"""The types of the HTTP interface."""

import json

from msgspec import convert

from apass.service import JobFailure, JobOptions, JobState, JobSummary, api
from tests.service.stored_jobs import new_job


def test_job_survives_the_interface() -> None:
    job = new_job().with_state(
        JobState.DONE,
        id="0" * 32,
        model_digest="e" * 64,
        options=JobOptions(required_pass=("a",), config={"b": [1, None]}, texts=True),
        result_digest="f" * 64,
        result_size=3,
        # A part of a surrogate pair, as of the name of a file.
        failure=JobFailure("Error", "a\udcff", ("note",), "Pass", None, ({"level": "error"},)),
        summary=JobSummary(2, 1, True, {"Pass": 1}),
    )
    data = api.encode_json(api.job_of(job, "/mounted"))
    assert api.record_of(convert(json.loads(data), api.Job)) == job.with_state(job.state, key="")
    assert json.loads(data)["links"]["result"] == f"/mounted/v1/jobs/{job.id}/result"


def test_query_has_what_differs_from_the_defaults() -> None:
    query = api.query_of(api.Submission(name="a", required=("b", "c"), report=False, deadline=1.5))
    assert query == [("name", "a"), ("deadline", "1.5"), ("required", "b,c"), ("report", "false")]
