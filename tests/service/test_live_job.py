"""Events of a job: their numbers, and those that are dropped."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apass.service import JobEvent, JobRecord, JobState
from apass.service.live_job import ATTEMPT, LiveJob
from tests.service.stored_jobs import live_job


def read(live: LiveJob, after: int) -> list[JobEvent]:
    events: list[JobEvent] = []
    while (event := live.event_after(after)) is not None:
        events.append(event)
        after = event.id
    return events


@given(st.lists(st.sampled_from(("event", "start", "requeue")), max_size=60), st.integers(1, 5), st.data())
def test_no_event_is_missed_silently(actions: list[str], limit: int, data: st.DataObject) -> None:
    live = live_job(limit)
    seen = [event.id for event in live.events]
    for action in actions:
        job = live.record
        if action == "event":
            live.add_event("remark", 0.0, {})
        elif action == "start":
            live.change(replace(job, state=JobState.RUNNING, attempts=1, starts=job.starts + 1))
        elif job.state is JobState.RUNNING:
            live.change(replace(job, state=JobState.QUEUED, attempts=0))
        seen += [event.id for event in live.events if event.id > seen[-1]]
    assert seen == sorted(set(seen))
    after = data.draw(st.sampled_from((0, *seen)))
    events = read(live, after)
    dropped = sum(event.data["count"] for event in events if event.kind == "dropped")
    shown = [event.id for event in events if event.kind != "dropped"]
    assert shown == seen[len(seen) - len(shown) :]
    assert dropped + len(shown) == sum(number > after for number in seen)
    assert len(live.last_events()) <= limit
    assert len(live.events) <= 2 * limit


def test_ids_continue_after_those_of_lost_server() -> None:
    first = live_job()
    first.change(replace(first.record, state=JobState.RUNNING, attempts=1, starts=1))
    first.add_event("remark", 0.0, {})
    last = first.events[-1].id
    for state in (JobState.QUEUED, JobState.RUNNING):
        resumed = live_job(state=state, starts=1)
        assert resumed.first_id > last
        assert resumed.is_resumed
        resumed.change(replace(resumed.record, state=JobState.RUNNING, attempts=1, starts=2))
        assert resumed.events[-1].id == 2 * ATTEMPT + 1


def test_final_event_is_stored_before_it_is_shown() -> None:
    live = live_job()
    end: JobRecord = replace(live.record, state=JobState.DONE, finished=5.0)
    stored = live.last_events(end)
    assert [event.data["state"] for event in stored] == ["queued", "done"]
    assert len(live.events) == 1
    live.change(end)
    assert live.events == stored


def test_running_pass_is_last_that_has_not_ended() -> None:
    live = live_job()
    live.change(replace(live.record, state=JobState.RUNNING, attempts=1, starts=1))
    assert live.running_pass() is None
    live.add_event("started", 0.0, {"pass": "sequential", "path": "0:sequential"})
    body = {"pass": "Add", "path": "0:sequential/0:Add"}
    live.add_event("started", 0.0, body)
    live.add_event("started", 0.0, {**body, "function": "f", "body": True})
    assert live.running_pass() == ("Add", "f")
    live.add_event("failed", 0.0, {**body, "function": "f", "body": True})
    assert live.running_pass() == ("Add", None)
    live.add_event("finished", 0.0, body)
    assert live.running_pass() == ("sequential", None)
    # A new attempt begins from the start.
    live.change(replace(live.record, attempts=2, starts=2))
    assert live.running_pass() is None
