"""What `apass opt` prints: the table, `--output-format json`, and how much of it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

from apass.core.context import PassContext
from apass.core.diagnostics import Diagnostic, DiagnosticLevel, Span
from apass.passes.decorators import module_pass
from apass.passes.registry import register_pass, unregister_pass
from tests.helpers.command_line import apass, process, write_external, write_model
from tests.helpers.repository import ROOT

PIPELINE = "onnx.IdentityElimination"


def lines_of(out: str) -> list[dict[str, Any]]:
    """Return the objects of the lines, sorted by model and without times."""
    objects = [json.loads(line) for line in out.splitlines()]
    assert all(item.pop("seconds") >= 0 for item in objects)
    return sorted(objects, key=lambda item: item["model"])


def rows_of(out: str) -> list[str]:
    """Return the rows of the table, without times."""
    return [re.sub(r"\d+\.\d{3}", "S", " ".join(line.split())) for line in out.splitlines() if ".onnx " in line]


@pytest.fixture
def talking_pass() -> Iterator[str]:
    """Register a pass that emits a warning and fails with notes, and yield its name."""

    @register_pass
    @module_pass(opt_level=0, name="Talk")
    def talk(mod: ir.Model, ctx: PassContext) -> ir.Model:
        span = Span("m.txt", 1, 1, 2, 4)
        ctx.diag_ctx.emit(Diagnostic(DiagnosticLevel.WARNING, "odd\udcff", span, "Talk", None, "a.onnx"))
        error = ValueError("\udcff no \x1b")
        error.add_note("look here")
        raise error

    yield "Talk"
    unregister_pass("Talk")


@pytest.mark.parametrize(("backend", "options"), [("asyncio", ()), ("trio", ()), ("asyncio", ("--executor", "thread"))])
def test_json_has_a_line_for_each_model(tmp_path: Path, backend: str, options: tuple[str, ...]) -> None:
    write_model(tmp_path / "a.onnx")
    write_model(tmp_path / "b.onnx", identities=0)
    arguments = ("opt", tmp_path / "?.onnx", "-p", PIPELINE, "--backend", backend, *options)
    result = apass(*arguments, "-o", tmp_path / "out", "--output-format", "json")
    common: dict[str, object] = {"cached": {}, "error": None, "diagnostics": []}
    assert lines_of(result.stdout) == [
        {
            "model": "a.onnx",
            "source": str(tmp_path / "a.onnx"),
            "target": str(tmp_path / "out" / "a.onnx"),
            "outcome": "changed",
            "nodes": {"before": 4, "after": 2},
            "bytes": {"before": 116, "after": 74},
            "changed_by": {PIPELINE: 1},
            "remark": "",
            "outputs": None,
            **common,
        },
        {
            "model": "b.onnx",
            "source": str(tmp_path / "b.onnx"),
            "target": str(tmp_path / "out" / "b.onnx"),
            "outcome": "unchanged",
            "nodes": {"before": 2, "after": 2},
            "bytes": {"before": 76, "after": 76},
            "changed_by": {},
            "remark": "unchanged, copied",
            "outputs": None,
            **common,
        },
    ]
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, "2 of 2 models written, 6 nodes before, 4 after")


def test_json_of_a_failure_has_notes_and_diagnostics(tmp_path: Path, talking_pass: str) -> None:
    write_model(tmp_path / "a.onnx")
    result = apass("opt", tmp_path, "-p", talking_pass, "--output-format", "json")
    (line,) = lines_of(result.stdout)
    error = {
        "type": "ValueError",
        "message": "\udcff no \x1b",
        "notes": ["look here", "in pass 'sequential > Talk', module 'a.onnx'"],
        "errors": [],
    }
    place = {"source": "m.txt", "line": 1, "column": 2, "end_line": 1, "end_column": 4}
    diagnostic = {"severity": "warning", "message": "odd\udcff", "pass": "Talk", "function": None, "place": place}
    assert (result.exit_code, result.stdout.isascii(), line["outcome"], line["target"]) == (1, True, "failed", None)
    assert (line["error"], line["diagnostics"]) == (error, [diagnostic])


def test_json_shows_the_journal_and_the_cache(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    options = ("opt", tmp_path / "a.onnx", "-p", PIPELINE, "--output-format", "json")
    lines = [lines_of(apass(*options, "--journal", tmp_path / "journal").stdout) for _ in range(2)]
    (line,) = lines[1]
    assert (line["outcome"], line["bytes"]) == ("earlier", {"before": 116, "after": 74})
    lines = [lines_of(apass(*options, "--cache", tmp_path / "cache.db").stdout) for _ in range(2)]
    (line,) = lines[1]
    assert (line["outcome"], line["cached"]) == ("changed", {"sequential": 1})
    out = apass(*options[:-2], "--cache", tmp_path / "cache.db").stdout
    assert rows_of(out)[0] == "a.onnx 4 -> 2 116 -> 74 S ok 1 cached sequential (cached)"


def test_bytes_include_external_weights(tmp_path: Path) -> None:
    model = write_external(tmp_path / "m.onnx")
    before = model.stat().st_size + (tmp_path / "weights.bin").stat().st_size
    (line,) = lines_of(apass("opt", model, "-o", tmp_path / "out", "--output-format", "json").stdout)
    after = sum(path.stat().st_size for path in (tmp_path / "out").iterdir())
    assert (line["bytes"], after > 2048) == ({"before": before, "after": after}, True)


@pytest.mark.process
@pytest.mark.slow
def test_json_of_worker_processes_is_complete(tmp_path: Path) -> None:
    for index in range(70):
        write_model(tmp_path / f"m{index:02}.onnx", identities=index % 2)
    (tmp_path / "m05.onnx").write_bytes(b"junk")
    code, out, err = process("opt", tmp_path, "-o", tmp_path / "out", "-j", 8, "--output-format", "json", "-q")
    counts = [line["changed_by"] for line in lines_of(out)]
    assert (code, len(counts), counts.count({PIPELINE: 1}), err.count("failed m05.onnx")) == (1, 70, 34, 1)


@pytest.mark.process
@pytest.mark.parametrize("is_closed", [True, False])
def test_unwritable_json_ends_with_status_4(tmp_path: Path, is_closed: bool) -> None:
    write_model(tmp_path / "m.onnx")
    command = [sys.executable, "-m", "apass", "opt", str(tmp_path), "-o", str(tmp_path / "out"), "--output-format=json"]
    read, write = os.pipe() if is_closed else (None, os.open("/dev/full", os.O_WRONLY))
    if read is not None:
        os.close(read)
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=300, check=False)
    os.close(write)
    assert (done.returncode, (tmp_path / "out" / "m.onnx").exists(), "Traceback" in done.stderr) == (4, True, False)
    message = "apass: cannot write the output: No space left on device"
    assert (message in done.stderr.splitlines()) is not is_closed


def test_timing_as_json_is_alone_on_standard_output(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "-p", PIPELINE, "--timing=json", "--statistics=json")
    times, counters = map(json.loads, result.stdout.splitlines())
    assert (times["passes"][0]["name"], list(counters["statistics"])) == ("sequential", [PIPELINE])
    assert "1 of 1 models written" in result.stderr
    result = apass("opt", model, "-p", PIPELINE, "--timing=json", "--timing-output", tmp_path / "times.json")
    assert ("1 of 1 models written" in result.stdout, result.stderr) == (True, "")


def test_other_output_moves_to_standard_error_beside_json(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    options = ("--timing=json", "--print-changed", "--print-ir-after", "all", "--memory")
    result = apass("opt", model, "-p", PIPELINE, "--output-format", "json", *options)
    assert len(lines_of(result.stdout)) == 1
    assert '{"version": 1, "passes"' in result.stderr


def test_failures_are_on_standard_error_too(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x09\x12 no model")
    command = [sys.executable, "-m", "apass", "opt", str(tmp_path / "bad.onnx")]
    apart = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (apart.stdout.count("failed bad.onnx"), apart.stderr.count("failed bad.onnx")) == (1, 1)
    together = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    assert together.stdout.count("failed bad.onnx") == 1


def test_quiet_run_prints_failures_only(tmp_path: Path) -> None:
    write_model(tmp_path / "a.onnx")
    assert apass("opt", tmp_path, "-q").output == ""
    (tmp_path / "b.onnx").write_bytes(b"junk")
    result = apass("opt", tmp_path, "-q")
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert result.stderr.startswith("failed b.onnx: AdapterError: ")


def test_verbose_run_prints_tracebacks(tmp_path: Path, talking_pass: str) -> None:
    write_model(tmp_path / "a.onnx")
    assert "Traceback" not in apass("opt", tmp_path, "-p", talking_pass).output
    shown = apass("opt", tmp_path, "-p", talking_pass, "-v").stdout
    assert ("    Traceback (most recent call last):" in shown, "in talk\n" in shown) == (True, True)


@pytest.mark.parametrize(("color", "expected"), [("always", True), ("never", False), ("auto", False)])
def test_color_option_overrides_the_environment(tmp_path: Path, color: str, expected: bool) -> None:
    model = write_model(tmp_path / "m.onnx")
    assert ("\x1b[" in apass("opt", model, "--color", color).stdout) is expected
    assert "\x1b[" not in apass("opt", model).stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-q", "-v"), "--quiet and --verbose cannot be used together"),
        (("-q", "--all"), "--quiet and --all cannot be used together"),
        (
            ("-o", "-", "--output-format", "json"),
            "--output-format json and the result both need standard output; name a file with -o FILE",
        ),
        (
            ("--compare", PIPELINE, "--all"),
            "--all cannot be used with --compare, which writes nothing; leave one of them out",
        ),
    ],
)
def test_conflicting_display_options_are_reported(tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    result = apass("opt", write_model(tmp_path / "m.onnx"), *options)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"apass: {message}\n")


def test_long_name_does_not_widen_other_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    for name in ("a" * 150, "b"):
        write_model(tmp_path / f"{name}.onnx")
    lines = {line.split()[0]: line for line in apass("opt", tmp_path).stdout.splitlines() if ".onnx" in line}
    assert ("a" * 150 + ".onnx" in lines, len(lines["b.onnx"]) < 150) == (True, True)
