"""`OpenTelemetryInstrument`: spans, their parents across tasks, and failures."""

import json
import re
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace

import apass
from apass.instruments.otel import OpenTelemetryInstrument
from tests.helpers.command_line import process, program
from tests.helpers.crowd import Module
from tests.helpers.spans import Recorder, attributes


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
    assert set(spans) == {"module m.relay", "sequential", "FoldConstant", "FoldConstant main"}
    assert spans["module m.relay"]["parent_id"] == f"0x{parent}"
    assert {item["context"]["trace_id"] for item in spans.values()} == {f"0x{trace_id}"}


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(
    ("exporter", "message"),
    [
        ("", "--otel needs exporters of spans; set OTEL_TRACES_EXPORTER, for example to otlp or console"),
        ("conole", "OTEL_TRACES_EXPORTER names 'conole', which is not installed; did you mean 'console'?"),
    ],
)
def test_missing_or_unknown_exporter_is_an_error(tmp_path: Path, exporter: str, message: str) -> None:
    source = program(tmp_path / "m.relay")
    body = f"import os; os.environ['OTEL_TRACES_EXPORTER'] = {exporter!r}"
    assert process("opt", source, "--otel", body=body) == (2, "", f"apass: {message}\n")


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
