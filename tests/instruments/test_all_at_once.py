"""All measuring instruments agree about one concurrent run."""

import logging
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from apass.instruments import (
    FunctionTimingInstrument,
    LoggingInstrument,
    PassTimingInstrument,
    StatisticsInstrument,
    TraceInstrument,
    timings_by_pass,
)
from apass.instruments.live_view import LiveViewInstrument
from apass.instruments.otel import OpenTelemetryInstrument
from tests.helpers.consoles import console
from tests.helpers.crowd import failing, run_crowd
from tests.helpers.log_records import listening
from tests.helpers.traces import read_trace, slices


@pytest.mark.anyio
async def test_instruments_agree_about_runs_and_failures(tmp_path: Path) -> None:
    timer, statistics, functions = PassTimingInstrument(), StatisticsInstrument(), FunctionTimingInstrument(top=100_000)
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    view = LiveViewInstrument(console=console()[0])
    spans = OpenTelemetryInstrument(provider.get_tracer("tests"), functions=True)
    trace = TraceInstrument(tmp_path / "trace.json")
    with listening(logging.INFO) as logged:
        every = [timer, statistics, functions, spans, view, trace, LoggingInstrument()]
        outcomes = await run_crowd(every, limit=None)
    by_pass = {item.name: (item.calls, item.failed) for item in timings_by_pass(timer.profile())}
    passes, failures = (sum(counts[index] for counts in by_pass.values()) for index in (0, 1))
    bodies, failed_bodies = len(functions.slowest()), sum(item.failed for item in functions.slowest())
    counts = view.activity.counts()
    shown = slices(read_trace(tmp_path / "trace.json"))
    spans_made = exporter.get_finished_spans()
    ends = [item.getMessage() for item in logged.records]

    assert by_pass["sequential"] == (len(outcomes), len(failing(outcomes)))
    assert by_pass["Inner"][0] == sum(item.amount for item in statistics.totals() if item.name == "inner")
    assert (counts.passes_done, counts.modules_done) == (passes, len(outcomes))
    assert (counts.functions_done, counts.functions_failed) == (bodies, failed_bodies)
    assert [len([item for item in shown if item["cat"] == kind]) for kind in ("pass", "function")] == [passes, bodies]
    assert sum("error" in item["args"] for item in shown) == failures + failed_bodies
    assert len(spans_made) == passes + bodies + len(outcomes)
    assert (ends.count("pass_finished"), ends.count("pass_failed")) == (passes - failures, failures)
    assert ends.count("function_failed") == failed_bodies
