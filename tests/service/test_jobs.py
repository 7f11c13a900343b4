"""Values of jobs: their JSON, whatever is in it."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.service import JobEvent, JobFailure, JobOptions, JobRecord, JobState, JobSummary
from apass.service.jobs import job_key, new_job_id
from tests.service.stored_jobs import new_job

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
NAMES = st.lists(st.text(max_size=5), max_size=3).map(tuple)
COUNTS = st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=2)
TIMES = st.none() | st.floats(0, 2e9)

OPTIONS = st.builds(
    JobOptions,
    opt_level=st.integers(0, 1000),
    required_pass=NAMES,
    disabled_pass=NAMES,
    config=OBJECTS,
    report=st.booleans(),
    functions=st.booleans(),
)
RECORDS = st.builds(
    JobRecord,
    options=OPTIONS,
    state=st.sampled_from(JobState),
    deadline=TIMES,
    created=st.floats(0, 2e9),
    started=TIMES,
    finished=TIMES,
    failure=st.none()
    | st.builds(JobFailure, notes=NAMES, diagnostics=st.lists(OBJECTS, max_size=2).map(tuple), pass_name=st.text()),
    summary=st.none()
    | st.builds(
        JobSummary,
        changed_by=COUNTS,
        cached=COUNTS,
        seconds=st.floats(0, 9),
        diagnostics=st.lists(OBJECTS, max_size=2).map(tuple),
    ),
)
FIELDS = ("id", "options", "state", "failure", "summary", "created", "attempts", "unknown")


@given(RECORDS)
def test_record_survives_json(job: JobRecord) -> None:
    text = job.to_json()
    assert JobRecord.from_json(text) == job
    assert text.isascii()


@given(
    st.builds(JobEvent, time=st.floats(0, 2e9), data=OBJECTS.map(lambda data: {f"x{key}": data[key] for key in data}))
)
def test_event_survives_json(event: JobEvent) -> None:
    assert JobEvent.from_json(json.loads(json.dumps(event.as_json()))) == event


@given(JSON, st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_hostile_json_is_no_record(value: Any, changes: dict[str, Any]) -> None:
    valid: dict[str, Any] = json.loads(new_job().to_json())
    for text in (json.dumps(value), repr(value), json.dumps(changes), json.dumps({**valid, **changes})):
        with suppress(ValueError):
            assert isinstance(JobRecord.from_json(text).options, JobOptions)


def test_deeply_nested_json_is_no_record() -> None:
    with pytest.raises(ValueError, match="record of a job"):
        JobRecord.from_json("[" * 100_000)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"opt_level": -1}, "opt_level must be between"),
        ({"opt_level": True}, "opt_level must be an int"),
        ({"required_pass": "Inline"}, "required_pass must be a list"),
        ({"required_pass": {"Inline": 1}}, "required_pass must be a list"),
        ({"disabled_pass": iter(["Inline"])}, "disabled_pass must be a list"),
        ({"disabled_pass": 5}, "disabled_pass must be a list"),
        ({"config": []}, "config"),
        ({"report": 1}, "report"),
    ],
)
def test_invalid_option_names_itself(values: dict[str, Any], error: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        JobOptions(**values)
    assert error in str(caught.value)


def test_key_depends_on_model_and_parts() -> None:
    keys = {job_key(b"1"), job_key(b"2"), job_key(b"1", "a"), job_key(b"1", "a", {}), job_key(b"1", "ab")}
    assert len(keys) == 5
    assert job_key(b"1", {"a": 1, "b": 2}) == job_key(b"1", {"b": 2, "a": 1})


def test_ids_are_unique_and_sorted_by_time() -> None:
    ids = [new_job_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert sorted(name[:12] for name in ids) == [name[:12] for name in ids]


def test_final_states_are_final() -> None:
    ended = {state for state in JobState if new_job(state=state).ended}
    assert ended == {JobState.DONE, JobState.FAILED, JobState.CANCELLED}
