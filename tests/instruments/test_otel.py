"""OpenTelemetry: spans, their parents across tasks, failures, and metrics."""

import json
import re
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace

import apass
from apass.executors import ProcessExecutor
from apass.instruments.otel import OpenTelemetryInstrument, OpenTelemetryMetrics
from tests.executors import work
from tests.helpers.command_line import process, program
from tests.helpers.crowd import Module
from tests.helpers.distributions import write_distribution
from tests.helpers.spans import MetricRecorder, Recorder, attributes


@apass.module_pass(opt_level=0)
async def Nap(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    return mod


@apass.function_pass(opt_level=0)
async def Ask(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    await Nap(mod)
    return func + 1


@pytest.mark.anyio
async def test_spans_are_nested_across_tasks() -> None:
    recorder = Recorder()
    instrument = OpenTelemetryInstrument(recorder.tracer, functions=True)
    async with apass.PassContext(instruments=[instrument]):
        with recorder.tracer.start_as_current_span("request") as request_span:
            pipeline = apass.Sequential([Ask, Nap])
            await apass.optimize_all({"a": {"f": 1, "g": 2}, "b": {"f": 3}}, pipeline)
            assert trace.get_current_span() is request_span
    assert recorder.tree() == [
        "request",
        "  module a",
        "    sequential",
        "      Ask",
        "        Ask f",
        "          Nap",
        "        Ask g",
        "          Nap",
        "      Nap",
        "  module b",
        "    sequential",
        "      Ask",
        "        Ask f",
        "          Nap",
        "      Nap",
    ]
    by_name = {item.name: attributes(item) for item in recorder.spans if attributes(item).get("apass.module") == "b"}
    assert by_name["Ask"] == {
        "apass.pass": "Ask",
        "apass.opt_level": 0,
        "apass.position": "0:sequential/0:Ask",
        "apass.module": "b",
        "apass.changed": True,
    }
    assert by_name["Ask f"] == {
        "apass.pass": "Ask",
        "apass.function": "f",
        "apass.module": "b",
        "apass.changed": True,
    }
    assert by_name["module b"] == {"apass.module": "b"}


@pytest.mark.anyio
async def test_functions_and_unnamed_modules_have_no_default_span() -> None:
    recorder = Recorder()
    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer)]):
        await Ask({"f": 1})
    assert recorder.tree() == ["Ask", "  Nap"]


@pytest.mark.anyio
async def test_user_spans_become_parents_of_called_passes() -> None:
    recorder = Recorder()

    @apass.module_pass(opt_level=0)
    async def Query(mod: Module, ctx: apass.PassContext) -> Module:
        with recorder.tracer.start_as_current_span("GET /cost"):
            await Nap(mod)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Nap, mod)
        return mod

    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer)]):
        await apass.Sequential([Query, Nap])({"f": 1})
    assert recorder.tree() == ["sequential", "  Nap", "  Query", "    GET /cost", "      Nap", "    Nap"]


@pytest.mark.anyio
async def test_error_is_recorded_on_every_span_it_ends() -> None:
    @apass.function_pass(opt_level=0)
    async def Fail(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        raise ValueError("no")

    recorder = Recorder()
    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer, functions=True)]):
        await apass.optimize_all({"m": {"f": 1}}, Fail, errors="collect")
        await Nap({})
    *failed, fine = recorder.spans
    assert [(item.name, item.status.description, item.events[0].name) for item in failed] == [
        ("Fail f", "ValueError: no", "exception"),
        ("Fail", "ValueError: no", "exception"),
        ("module m", "ValueError: no", "exception"),
    ]
    assert (fine.name, fine.status.is_unset, fine.parent) == ("Nap", True, None)


def spans_on(out: str) -> list[dict[str, Any]]:
    """Return the spans that the console exporter printed."""
    return [json.loads(text) for text in re.findall(r"^\{$.*?^\}$", out, re.MULTILINE | re.DOTALL)]


@pytest.mark.process
@pytest.mark.slow
def test_command_line_follows_otel_environment_variables(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    variables = {"OTEL_TRACES_EXPORTER": "console", "TRACEPARENT": f"00-{trace_id}-{parent}-01"}
    body = f"import os; os.environ.update({variables!r})"
    code, out, err = process("opt", source, "-p", "FoldConstant", "--otel=functions", body=body)
    assert (code, err) == (0, "")
    spans = {item["name"]: item for item in spans_on(out)}
    assert set(spans) == {"module m.relay", "sequential", "FoldConstant", "FoldConstant main", "InferType"}
    assert spans["module m.relay"]["parent_id"] == f"0x{parent}"
    assert {item["context"]["trace_id"] for item in spans.values()} == {f"0x{trace_id}"}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("exporter", "message"),
    [
        (
            "",
            "--otel needs exporters; set OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER, for example to otlp or console",
        ),
        (
            "none",
            "--otel needs exporters; set OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER, for example to otlp or console",
        ),
        ("conole", "OTEL_TRACES_EXPORTER names 'conole', which is not installed; did you mean 'console'?"),
    ],
)
def test_missing_or_unknown_exporter_is_an_error(tmp_path: Path, exporter: str, message: str) -> None:
    source = program(tmp_path / "m.relay")
    body = f"import os; os.environ['OTEL_TRACES_EXPORTER'] = {exporter!r}"
    assert process("opt", source, "--otel", body=body) == (2, "", f"apass: {message}\n")


HTTP: Final = {"otlp_proto_http": "opentelemetry.sdk.metrics.export:ConsoleMetricExporter"}
BOTH: Final = {**HTTP, "otlp_proto_grpc": "opentelemetry.sdk.metrics.export:InMemoryMetricReader"}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry_points", "variables", "status", "error"),
    [
        (HTTP, {}, 0, ""),
        (BOTH, {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, 0, ""),
        (BOTH, {"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, 0, ""),
        (
            HTTP,
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            2,
            (
                "OTEL_METRICS_EXPORTER names 'otlp', which is not installed; "
                "install opentelemetry-exporter-otlp-proto-grpc"
            ),
        ),
        (
            HTTP,
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            2,
            "OTEL_EXPORTER_OTLP_PROTOCOL must be grpc or http/protobuf, got 'http/json'",
        ),
        ({}, {}, 2, "OTEL_METRICS_EXPORTER names 'otlp', which is not installed; install opentelemetry-exporter-otlp"),
    ],
)
def test_otlp_exporter_is_chosen_by_protocol(
    tmp_path: Path, entry_points: dict[str, str], variables: dict[str, str], status: int, error: str
) -> None:
    lines = [f"{name} = {value}" for name, value in entry_points.items()]
    write_distribution(tmp_path, "otlp", "\n".join(["[opentelemetry_metrics_exporter]", *lines]))
    body = f"import os, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    body += f"os.environ.update({ {'OTEL_METRICS_EXPORTER': 'otlp', **variables}!r})"
    source = program(tmp_path / "m.relay")
    code, out, err = process("opt", source, "-p", "FoldConstant", "--otel", "-q", body=body)
    assert (code, err) == (status, f"apass: {error}\n" if error else "")
    assert ("apass.pass.runs" in out) == (status == 0)


def test_tracer_and_meter_of_other_types_are_errors() -> None:
    tracer: Any = "tracer"
    with pytest.raises(TypeError, match=r"^the tracer must be of type Tracer \| None, got 'tracer'$"):
        OpenTelemetryInstrument(tracer)
    meter: Any = "meter"
    with pytest.raises(TypeError, match=r"^the meter must be of type Meter \| None, got 'meter'$"):
        OpenTelemetryMetrics(meter)


@pytest.mark.anyio
async def test_span_has_the_changed_attribute() -> None:
    recorder = Recorder()

    @apass.function_pass(opt_level=0)
    def Bump(func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func + 1 if func else func

    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer, functions=True)]):
        await apass.Sequential([Nap, Bump])({"f": 1, "g": 0})
    changed = {item.name: (item.attributes or {}).get("apass.changed") for item in recorder.spans}
    assert changed == {"Nap": False, "Bump f": True, "Bump g": False, "Bump": True, "sequential": True}


@apass.function_pass(opt_level=0)
async def Bump(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    ctx.statistic("seen", 2)
    if func < 0:
        raise ValueError("negative")
    return func + 1 if func else func


@pytest.mark.anyio
async def test_metrics_count_runs_outcomes_and_statistics() -> None:
    recorder = MetricRecorder()
    instrument = OpenTelemetryMetrics(recorder.meter)
    modules = {"a": {"f": 1, "g": 0}, "b": {"f": 0}, "c": {"f": -1}}
    async with apass.PassContext(instruments=[instrument]):
        await apass.optimize_all(modules, apass.Sequential([Nap, Bump]), errors="collect")
    passes = [
        (["Bump", "changed"], 1),
        (["Bump", "failed", "ValueError"], 1),
        (["Bump", "unchanged"], 1),
        (["Nap", "unchanged"], 3),
        (["sequential", "changed"], 1),
        (["sequential", "failed", "ValueError"], 1),
        (["sequential", "unchanged"], 1),
    ]
    assert recorder.points() == {
        "apass.pass.duration": passes,
        "apass.pass.runs": passes,
        "apass.pass.active": [(["Bump"], 0), (["Nap"], 0), (["sequential"], 0)],
        "apass.function.runs": [
            (["Bump", "changed"], 1),
            (["Bump", "failed", "ValueError"], 1),
            (["Bump", "unchanged"], 2),
        ],
        "apass.module.runs": [(["changed"], 1), (["failed", "ValueError"], 1), (["unchanged"], 1)],
        "apass.statistic": [(["Bump", "seen"], 8)],
    }


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_metrics_show_active_and_cancelled_passes() -> None:
    recorder = MetricRecorder()

    @apass.module_pass(opt_level=0)
    async def Hang(mod: Module, ctx: apass.PassContext) -> Module:
        assert recorder.points() == {"apass.pass.active": [(["Hang"], 1)]}
        tasks.cancel_scope.cancel()
        await anyio.sleep_forever()
        return mod

    context = apass.PassContext(instruments=[OpenTelemetryMetrics(recorder.meter)])
    async with context, anyio.create_task_group() as tasks:
        tasks.start_soon(Hang, {"f": 1})
    points = recorder.points()
    assert points["apass.pass.active"] == [(["Hang"], 0)]
    assert points["apass.pass.runs"] == [(["Hang", "cancelled"], 1)]


@pytest.mark.anyio
async def test_duration_is_recorded_in_seconds() -> None:
    recorder = MetricRecorder()
    async with apass.PassContext(instruments=[OpenTelemetryMetrics(recorder.meter)]):
        await Nap({"f": 1})
    data: Any = recorder.reader.get_metrics_data()
    scope = data.resource_metrics[0].scope_metrics[0]
    metric = next(item for item in scope.metrics if item.name == "apass.pass.duration")
    point = metric.data.data_points[0]
    assert (metric.unit, dict(point.attributes)) == ("s", {"apass.pass": "Nap", "apass.outcome": "unchanged"})
    assert (point.explicit_bounds[0], point.count, point.sum > 0) == (0.0001, 1, True)


@pytest.mark.anyio
@pytest.mark.process
async def test_metrics_in_workers_equal_those_of_the_loop() -> None:
    inline, remote = MetricRecorder(), MetricRecorder()
    modules = {"good": {"a": "fine"}, "bad": {"a": "fine", "b": "plain"}}
    for recorder, executor in ((inline, None), (remote, ProcessExecutor(workers=2))):
        async with apass.PassContext(instruments=[OpenTelemetryMetrics(recorder.meter)]):
            await apass.optimize_all(
                modules, apass.Sequential([work.Report, work.Fail]), errors="collect", executor=executor
            )
    points = inline.points()
    del points["apass.pass.active"]
    assert remote.points() == points


@pytest.mark.process
@pytest.mark.slow
def test_command_line_exports_metrics_without_spans(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    body = "import os; os.environ['OTEL_METRICS_EXPORTER'] = 'console'"
    code, out, err = process("opt", source, "-p", "FoldConstant", "--otel", "--executor", "process", "-q", body=body)
    assert (code, err) == (0, "")
    scopes = json.loads(out)["resource_metrics"][0]["scope_metrics"]
    assert sorted(metric["name"] for scope in scopes for metric in scope["metrics"]) == [
        "apass.function.runs",
        "apass.module.runs",
        "apass.pass.duration",
        "apass.pass.runs",
        "apass.statistic",
    ]
