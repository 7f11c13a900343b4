"""`OpenTelemetryInstrument`: spans, their parents across tasks, and what is told of failures."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import apass
from apass.instruments.otel import OpenTelemetryInstrument
from tests.cli.models import process
from tests.cli.test_relay import program
from tests.instruments.crowd import Module, crowd, failing, run_crowd


class Recorder:
    """A tracer, and the spans that it made."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = provider.get_tracer("tests")

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def tree(self) -> list[str]:
        """Return the spans as lines, indented as they are nested, children by their names."""
        return [line for one in self._below(None) for line in self._lines(one, "")]

    def _below(self, parent: int | None) -> list[ReadableSpan]:
        mine = [one for one in self.spans if (one.parent.span_id if one.parent else None) == parent]
        return sorted(mine, key=lambda one: (one.name, one.start_time))

    def _lines(self, span: ReadableSpan, indent: str) -> list[str]:
        assert span.context is not None
        below = [line for one in self._below(span.context.span_id) for line in self._lines(one, indent + "  ")]
        return [indent + span.name, *below]


@apass.module_pass(opt_level=0)
async def Nap(mod: Module, ctx: apass.PassContext) -> Module:
    await anyio.lowlevel.checkpoint()
    return mod


@apass.function_pass(opt_level=0)
async def Ask(func: int, mod: Module, ctx: apass.PassContext) -> int:
    await anyio.lowlevel.checkpoint()
    await Nap(mod)
    return func + 1


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.anyio
async def test_spans_are_nested_below_the_callers_own_across_tasks() -> None:
    recorder = Recorder()
    instrument = OpenTelemetryInstrument(recorder.tracer, functions=True)
    async with apass.PassContext(instruments=[instrument]):
        with recorder.tracer.start_as_current_span("request") as mine:
            pipeline = apass.Sequential([Ask, Nap])
            await apass.optimize_all({"a": {"f": 1, "g": 2}, "b": {"f": 3}}, pipeline)
            assert trace.get_current_span() is mine
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
    told = {one.name: attributes(one) for one in recorder.spans if attributes(one).get("apass.module") == "b"}
    assert told["Ask"] == {
        "apass.pass": "Ask",
        "apass.opt_level": 0,
        "apass.position": "0:sequential/0:Ask",
        "apass.module": "b",
        "apass.changed": True,
    }
    assert told["Ask f"] == {
        "apass.pass": "Ask",
        "apass.function": "f",
        "apass.module": "b",
        "apass.changed": True,
    }
    assert told["module b"] == {"apass.module": "b"}


@pytest.mark.anyio
async def test_functions_have_spans_only_if_asked_for_and_a_nameless_module_has_none() -> None:
    recorder = Recorder()
    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer)]):
        await Ask({"f": 1})
    assert recorder.tree() == ["Ask", "  Nap"]


@pytest.mark.anyio
async def test_spans_of_a_passes_own_stand_between_it_and_the_passes_that_it_calls() -> None:
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
async def test_an_error_is_recorded_on_every_span_that_it_ends() -> None:
    @apass.function_pass(opt_level=0)
    async def Fail(func: int, mod: Module, ctx: apass.PassContext) -> int:
        await anyio.lowlevel.checkpoint()
        raise ValueError("no")

    recorder = Recorder()
    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer, functions=True)]):
        await apass.optimize_all({"m": {"f": 1}}, Fail, errors="collect")
        await Nap({})
    *failed, fine = recorder.spans
    assert [(one.name, one.status.description, one.events[0].name) for one in failed] == [
        ("Fail f", "ValueError: no", "exception"),
        ("Fail", "ValueError: no", "exception"),
        ("module m", "ValueError: no", "exception"),
    ]
    assert (fine.name, fine.status.is_unset, fine.parent) == ("Nap", True, None)


@pytest.mark.anyio
async def test_a_cancelled_pass_says_so_and_is_no_error() -> None:
    begun = anyio.Event()

    @apass.module_pass(opt_level=0)
    async def Forever(mod: Module, ctx: apass.PassContext) -> Module:
        begun.set()
        await anyio.sleep_forever()
        return mod

    recorder = Recorder()
    mod: Module = {"f": 1}
    instrument = OpenTelemetryInstrument(recorder.tracer)
    async with apass.PassContext(instruments=[instrument]), anyio.create_task_group() as tasks:
        tasks.start_soon(Forever, mod)
        await begun.wait()
        tasks.cancel_scope.cancel()
    (span,) = recorder.spans
    assert (attributes(span)["apass.cancelled"], span.status.is_unset) == (True, True)


@pytest.mark.anyio
async def test_an_instrument_in_force_twice_makes_one_span() -> None:
    recorder = Recorder()
    instrument = OpenTelemetryInstrument(recorder.tracer, functions=True)
    async with apass.PassContext(instruments=[instrument, instrument]):
        await Ask({"f": 1})
    assert recorder.tree() == ["Ask", "  Ask f", "    Nap"]


@pytest.mark.anyio
async def test_two_hundred_modules_at_once_have_the_spans_of_one_after_the_other() -> None:
    recorders = [Recorder(), Recorder()]
    together = await run_crowd([OpenTelemetryInstrument(recorders[0].tracer, functions=True)], limit=None)
    alone = await run_crowd([OpenTelemetryInstrument(recorders[1].tracer, functions=True)], limit=1)
    assert failing(together) == failing(alone)

    def paths(recorder: Recorder) -> list[str]:
        spans = {one.context.span_id: one for one in recorder.spans if one.context is not None}
        shown: list[str] = []
        for one in recorder.spans:
            path, at = [one.name], one
            while at.parent is not None:
                at = spans[at.parent.span_id]
                path.append(at.name)
            if at.name.removeprefix("module ") not in failing(alone):
                shown.append(" < ".join(path) + str(sorted(attributes(one).items())))
        return sorted(shown)

    assert paths(recorders[0]) == paths(recorders[1])
    failed = [
        {one.name for one in each.spans if one.name.startswith("module") and not one.status.is_ok and one.events}
        for each in recorders
    ]
    assert failed[0] == failed[1] == {f"module {name}" for name in crowd() if name in failing(alone)}


def spans_on(out: str) -> list[dict[str, Any]]:
    """Return what the console exporter printed."""
    return [json.loads(text) for text in re.findall(r"^\{$.*?^\}$", out, re.MULTILINE | re.DOTALL)]


def test_the_command_line_sends_spans_where_the_environment_says_below_the_parent_it_names(tmp_path: Path) -> None:
    source = program(tmp_path / "m.relay")
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    variables = {"OTEL_TRACES_EXPORTER": "console", "TRACEPARENT": f"00-{trace_id}-{parent}-01"}
    body = f"import os; os.environ.update({variables!r})"
    code, out, err = process("opt", source, "-p", "FoldConstant", "--otel=functions", body=body)
    assert (code, err) == (0, "")
    spans = {one["name"]: one for one in spans_on(out)}
    assert set(spans) == {"module m.relay", "sequential", "FoldConstant", "FoldConstant main"}
    assert spans["module m.relay"]["parent_id"] == f"0x{parent}"
    assert {one["context"]["trace_id"] for one in spans.values()} == {f"0x{trace_id}"}


@pytest.mark.parametrize(
    ("exporter", "complaint"),
    [
        ("", "--otel needs OTEL_TRACES_EXPORTER to say where spans go, such as otlp or console"),
        ("conole", "OTEL_TRACES_EXPORTER names 'conole', which is not installed; did you mean 'console'?"),
    ],
)
def test_an_environment_that_does_not_say_where_to_is_refused(tmp_path: Path, exporter: str, complaint: str) -> None:
    source = program(tmp_path / "m.relay")
    body = f"import os; os.environ['OTEL_TRACES_EXPORTER'] = {exporter!r}"
    assert process("opt", source, "--otel", body=body) == (2, "", f"apass: {complaint}\n")


@pytest.mark.anyio
async def test_a_span_tells_whether_something_changed() -> None:
    recorder = Recorder()

    @apass.function_pass(opt_level=0)
    def Bump(func: int, mod: Module, ctx: apass.PassContext) -> int:
        return func + 1 if func else func

    async with apass.PassContext(instruments=[OpenTelemetryInstrument(recorder.tracer, functions=True)]):
        await apass.Sequential([Nap, Bump])({"f": 1, "g": 0})
    changed = {one.name: (one.attributes or {}).get("apass.changed") for one in recorder.spans}
    assert changed == {"Nap": False, "Bump f": True, "Bump g": False, "Bump": True, "sequential": True}
