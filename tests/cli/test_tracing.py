"""`--trace`: a timeline of a run on real models."""

from pathlib import Path

import pytest

from tests.cli.models import TEST_DATA, apass, write_model
from tests.cli.test_relay import program
from tests.instruments.traces import lane_names, outline, read_trace, slices


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_each_model_has_a_lane_and_its_passes_are_in_it(tmp_path: Path, backend: str) -> None:
    program(tmp_path / "a.relay")
    write_model(tmp_path / "b.onnx")
    trace = tmp_path / "traces" / "t.json"
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--trace", trace, "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    events = read_trace(trace)
    assert set(lane_names(events).values()) == {"a.relay", "b.onnx", "MainThread"}
    positions = {one["args"]["position"] for one in slices(events) if one["cat"] == "pass" and one["args"]["changed"]}
    assert {"0:sequential", "0:sequential/0:onnx.Default/0:onnx.IdentityElimination"} <= positions


def test_a_large_model_waits_for_its_thread(tmp_path: Path) -> None:
    model = TEST_DATA / "light" / "light_squeezenet.onnx"
    apass("opt", model, "-o", tmp_path / "out", "-p", "onnx.DeduplicateInitializers", "--trace", tmp_path / "t.json")
    name = "onnx.DeduplicateInitializers"
    events = read_trace(tmp_path / "t.json")
    assert [one["name"] for one in slices(events) if one["pid"] == 3] == [f"{model.name}: {name}"]
    lines = outline(events, waits_of=[name])
    assert list(dict.fromkeys(lines)) == [
        "[light_squeezenet.onnx]",
        "sequential {'position': '0:sequential', 'changed': False}",
        f"  {name} {{'position': '0:sequential/0:{name}', 'changed': False}}",
        "    waiting",
    ]


def test_a_failing_model_is_shown_and_the_trace_is_whole(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    result = apass("opt", model, "-p", "onnx.Checker", "--trace", tmp_path / "t.json")
    failed = [one for one in slices(read_trace(tmp_path / "t.json")) if "error" in one["args"]]
    assert (result.exit_code, [one["name"] for one in failed]) == (1, ["onnx.Checker", "sequential"])


def test_a_trace_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--trace", tmp_path)
    assert (result.exit_code, "--trace cannot write" in result.stderr) == (2, True)
    assert apass("opt", model, "--trace", model / "t.json").exit_code == 2
