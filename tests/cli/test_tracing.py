"""`--trace`: a timeline of a run on real models."""

from pathlib import Path

from tests.helpers.command_line import TEST_DATA, apass, program, write_model
from tests.helpers.traces import outline, read_trace, slices, track_names


def test_trace_has_a_track_for_each_model(tmp_path: Path, backend: str) -> None:
    program(tmp_path / "a.relay")
    write_model(tmp_path / "b.onnx")
    trace = tmp_path / "traces" / "t.json"
    result = apass("opt", tmp_path, "-o", tmp_path / "out", "--trace", trace, "--backend", backend)
    assert (result.exit_code, result.stderr) == (0, "")
    events = read_trace(trace)
    assert set(track_names(events).values()) == {"a.relay", "b.onnx", "MainThread"}
    positions = {
        span["args"]["position"] for span in slices(events) if span["cat"] == "pass" and span["args"]["changed"]
    }
    assert {"0:sequential", "0:sequential/0:onnx.Default/1:onnx.IdentityElimination"} <= positions


def test_trace_shows_wait_for_worker_thread(tmp_path: Path) -> None:
    model = TEST_DATA / "light" / "light_squeezenet.onnx"
    apass("opt", model, "-o", tmp_path / "out", "-p", "onnx.DeduplicateInitializers", "--trace", tmp_path / "t.json")
    name = "onnx.DeduplicateInitializers"
    events = read_trace(tmp_path / "t.json")
    assert [span["name"] for span in slices(events) if span["pid"] == 3] == [f"{model.name}: {name}"]
    lines = outline(events, waits_of=[name])
    assert list(dict.fromkeys(lines)) == [
        "[light_squeezenet.onnx]",
        "sequential {'position': '0:sequential', 'changed': False}",
        f"  {name} {{'position': '0:sequential/0:{name}', 'changed': False}}",
        "    waiting",
    ]


def test_trace_is_complete_when_a_pass_fails(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    result = apass("opt", model, "-p", "onnx.Checker", "--trace", tmp_path / "t.json")
    failed = [span for span in slices(read_trace(tmp_path / "t.json")) if "error" in span["args"]]
    assert (result.exit_code, [span["name"] for span in failed]) == (1, ["onnx.Checker", "sequential"])


def test_unwritable_trace_is_rejected(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--trace", tmp_path)
    assert (result.exit_code, "--trace cannot write" in result.stderr) == (2, True)
    assert apass("opt", model, "--trace", model / "t.json").exit_code == 2
