"""Spans of jobs, as the SDK of OpenTelemetry records them."""

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan

import apass
from apass.executors import ProcessExecutor
from apass.service import JobFailedError, JobOptions, Optimizer, ServiceTracing
from tests.helpers.spans import Recorder
from tests.service.loop_passes import fail

pytestmark = pytest.mark.anyio

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def tracing() -> tuple[ServiceTracing, Recorder]:
    """Return an observer, and what it records."""
    recorder = Recorder()
    return ServiceTracing(recorder.tracer), recorder


def tree(spans: Sequence[ReadableSpan]) -> list[tuple[str, str | None]]:
    """Return the name of each span with that of its parent, in order of start."""
    names = {span.context.span_id: span.name for span in spans if span.context is not None}
    ordered = sorted(spans, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))
    return [(span.name, None if span.parent is None else names.get(span.parent.span_id, "caller")) for span in ordered]


@apass.register_pass("tracing.Double")
@apass.function_pass(opt_level=0, name="tracing.Double")
def double(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
    return 2 * func


@pytest.mark.process
@pytest.mark.parametrize("executor", [None, ProcessExecutor(1)], ids=["loop", "process"])
async def test_spans_continue_trace_of_caller(executor: ProcessExecutor | None) -> None:
    observer, recorder = tracing()
    pipelines = {"twice": "Repeat{times=2}(tracing.Double)"}
    options = JobOptions(report=False, functions=True)
    async with Optimizer(pipelines, executor=executor, observers=[observer]) as optimizer:
        job = await optimizer.submit({"f": 1}, name="m", pipeline="twice", options=options, trace=TRACE)
        assert await job.result() == {"f": 4}
    spans = recorder.spans
    assert {f"{span.context.trace_id:x}" for span in spans if span.context is not None} == {TRACE.split("-")[1]}
    assert tree(spans) == [
        ("job m", "caller"),
        ("sequential", "job m"),
        ("Repeat", "sequential"),
        ("tracing.Double", "Repeat"),
        ("tracing.Double f", "tracing.Double"),
        ("tracing.Double", "Repeat"),
        ("tracing.Double f", "tracing.Double"),
    ]
    (job_span,) = (span for span in spans if span.name == "job m")
    assert job_span.attributes is not None
    assert job_span.attributes["apass.state"] == "done"
    assert [event.name for event in job_span.events] == ["attempt"]


async def test_errors_are_recorded_on_spans() -> None:
    observer, recorder = tracing()
    async with Optimizer({"fail": fail()}, observers=[observer]) as optimizer:
        with pytest.raises(JobFailedError):
            await (await optimizer.submit({"f": 1}, name="m", pipeline="fail", trace="nonsense")).result()
    spans = recorder.spans
    assert tree(spans) == [("job m", None), ("Fail", "job m")]
    assert {span.status.description for span in spans} == {"ValueError: no"}
