"""Spans of jobs, in the memory exporter of the SDK of OpenTelemetry."""

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import apass
from apass.executors import ProcessExecutor
from apass.service import JobFailedError, JobOptions, Optimizer, ServiceTracing

pytestmark = pytest.mark.anyio

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def tracing() -> tuple[ServiceTracing, InMemorySpanExporter]:
    """Return an observer whose spans are kept in memory."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return ServiceTracing(provider.get_tracer("test")), exporter


def tree(spans: Sequence[ReadableSpan]) -> list[tuple[str, str | None]]:
    """Return the name of each span with that of its parent, in order of start."""
    names = {span.context.span_id: span.name for span in spans if span.context is not None}
    ordered = sorted(spans, key=lambda span: (span.start_time or 0, -(span.end_time or 0)))
    return [(span.name, None if span.parent is None else names.get(span.parent.span_id, "caller")) for span in ordered]


@apass.register_pass("tracing.Double")
@apass.function_pass(opt_level=0, name="tracing.Double")
def double(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
    return 2 * func


@apass.register_pass("tracing.Fail")
@apass.module_pass(opt_level=0, name="tracing.Fail")
def fail(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
    raise ValueError("no")


@pytest.mark.process
@pytest.mark.parametrize("executor", [None, ProcessExecutor(1)], ids=["loop", "process"])
async def test_spans_continue_trace_of_caller(executor: ProcessExecutor | None) -> None:
    observer, exporter = tracing()
    pipelines = {"twice": "Repeat{times=2}(tracing.Double)"}
    options = JobOptions(report=False, functions=True)
    async with Optimizer(pipelines, executor=executor, observers=[observer]) as optimizer:
        job = await optimizer.submit({"f": 1}, name="m", pipeline="twice", options=options, trace=TRACE)
        assert await job.result() == {"f": 4}
    spans = exporter.get_finished_spans()
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
    observer, exporter = tracing()
    async with Optimizer({"fail": fail}, observers=[observer]) as optimizer:
        with pytest.raises(JobFailedError):
            await (await optimizer.submit({"f": 1}, name="m", pipeline="fail", trace="nonsense")).result()
    spans = exporter.get_finished_spans()
    assert tree(spans) == [("job m", None), ("tracing.Fail", "job m")]
    assert {span.status.description for span in spans} == {"ValueError: no"}
